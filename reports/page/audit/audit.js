// The page of an audit reads without this. It adds: a sieve over libraries, sorting, and what stands behind a square.
"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const byId = (name) => document.getElementById(name);
  const sieve = byId("sieve");
  const toggle = (element, isShown) => element.toggleAttribute("data-hidden", !isShown);

  // --- the sieve
  const shelfOf = (line) => line.closest("tbody").firstElementChild.textContent;
  const wordsOf = (element) => element.matches(".line")
    ? `${element.cells[0].dataset.k} ${element.cells[0].textContent} ${shelfOf(element)}` : element.dataset.text ?? element.textContent;
  const things = all("#table .line, .entry, .customs tbody tr, .switch, #cells tbody tr").map((element) => ({
    element, text: wordsOf(element).toLowerCase(),
    libraries: (element.dataset.library ?? element.parentElement.dataset.library).split(" "),
  }));

  function fits(thing, words, library, level) {
    const data = thing.element.dataset;
    const isAsked = !thing.element.matches(".entry") || !level || (level === "silent" ? "silent" in data : data.level === level);
    return isAsked && words.every((word) => thing.text.includes(word)) && (!library || thing.libraries.includes(library));
  }

  function sift() {
    const words = byId("sieve-words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [library, level] = [byId("sieve-library").value, byId("sieve-level").value];
    for (const thing of things) toggle(thing.element, fits(thing, words, library, level));
    for (const shelf of all("#audit tbody")) toggle(shelf, all(".line:not([data-hidden])", shelf).length > 0);
    const left = (selector) => all(`${selector}:not([data-hidden])`).length;
    const isWhole = !words.length && !library && !level;
    byId("sieve-shown").textContent = isWhole ? "" : `${left("#audit .line")} implementations, ${left(".entry")} findings`;
  }

  // --- sorting: by a column without shelves, or back to the shelves
  const table = byId("audit");
  const shelves = all("tbody", table).map((body) => ({ body, rows: all("tr", body) }));
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.k ?? cell.textContent;
  };

  function unsort() {
    for (const { body, rows } of shelves) body.append(...rows);
    table.classList.remove("sorted");
  }

  function sortBy(column, isText, isDown) {
    unsort();
    const rows = all(".line", table);
    const order = (a, b) => (isText ? key(a, column).localeCompare(key(b, column)) : Number(key(a, column)) - Number(key(b, column)));
    rows.sort((a, b) => (isDown ? -order(a, b) : order(a, b)));
    shelves[0].body.append(...rows);
    table.classList.add("sorted");
  }

  function press(head, column) {
    const was = head.getAttribute("aria-sort");
    const isText = head.dataset.sort === "text";
    for (const other of all("th[aria-sort]", table)) other.removeAttribute("aria-sort");
    if (was === (isText ? "descending" : "ascending")) return unsort();
    const next = was ? (was === "ascending" ? "descending" : "ascending") : isText ? "ascending" : "descending";
    head.setAttribute("aria-sort", next);
    sortBy(column, isText, next === "descending");
  }

  all("thead th", table).forEach((head, column) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => press(head, column));
  });

  // --- what stands behind a square
  const data = JSON.parse(byId("cells-data").textContent);
  const heads = all("#cells thead tr + tr a");
  const behind = byId("behind");
  for (const head of heads) head.title = byId(decodeURIComponent(head.hash.slice(1))).querySelector(".sentence").textContent;

  const span = (text, css = "") => Object.assign(document.createElement("span"), { textContent: text, className: css });

  function told(dtypes, code) {
    const [, verdict, margin, , reason] = /^(\d)([^~]*)(~(\d+))?$/.exec(code);
    const far = margin === "Infinity" ? "∞" : String(Number(margin));
    const line = span("", "entry-dtype");
    line.append(span(dtypes.join(" "), "label"), ` ${data.signs[verdict]} ${data.words[verdict]}`);
    if (margin) line.append(dtypes.length > 1 ? `, margin up to ${far}` : `, margin ${far}`);
    if (reason) line.append(span(`: ${data.reasons[reason]}`, "meta"));
    return line;
  }

  // an empty cell is like the one to its left
  function codeOf(row, column) {
    const cells = data.cells[row].split(";");
    while (!cells[column]) column -= 1;
    return cells[column];
  }

  // squares that are blank side by side are one cell: where in it the pointer is tells the column
  function columnAt(cell, x) {
    const before = all("td", cell.parentElement).slice(0, cell.cellIndex - 1);
    const box = cell.getBoundingClientRect();
    const within = Math.floor(((x - box.left) / box.width) * cell.colSpan);
    return before.reduce((sum, other) => sum + other.colSpan, 0) + Math.max(0, Math.min(within, cell.colSpan - 1));
  }

  const saysOf = (anchor) => {
    const title = byId(anchor).querySelector(".title").cloneNode(true);
    title.querySelector(".meta").remove();
    return title.textContent;
  };

  function show(cell, x) {
    const row = cell.parentElement;
    const column = columnAt(cell, x);
    const [codes, findings] = codeOf(row.dataset.r, column).split("@");
    const each = codes.split("|");
    const dtypes = data.dtypes[row.dataset.r];
    const clause = document.createElement("a");
    Object.assign(clause, { href: heads[column].getAttribute("href"), className: "id", textContent: heads[column].hash.replace("#clause-", "") });
    behind.replaceChildren(span(row.cells[0].textContent, "whom"), " ", clause, " ", span(heads[column].title, "meta"));
    if (codes === "-") behind.append(span(" nobody asked", "meta"));
    else if (/^[a-z]/.test(codes)) behind.append(told([dtypes[codes.charCodeAt(0) - "a".charCodeAt(0)]], codes.slice(1)));
    else each.forEach((code, place) => { if (code) behind.append(told(each.length > 1 ? [dtypes[place]] : dtypes, code)); });
    for (const number of findings ? findings.split(",") : []) {
      const anchor = data.findings[number];
      behind.append(Object.assign(document.createElement("a"), { href: `#${anchor}`, textContent: saysOf(anchor), className: "why" }));
    }
    behind.hidden = false;
    for (const old of all("#cells [data-at]")) old.removeAttribute("data-at");
    cell.setAttribute("data-at", "");
  }

  byId("cells").addEventListener("click", (event) => {
    const cell = event.target.closest("tbody td");
    if (cell) show(cell, event.clientX);
  });

  sieve.hidden = false;
  sieve.addEventListener("input", sift);
  sieve.addEventListener("reset", () => setTimeout(sift));
  sieve.addEventListener("submit", (event) => event.preventDefault());
})();
