// The page reads without this. It adds: search and filters, copy buttons, and opening whatever a link leads into.
"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const tools = document.getElementById("tools");
  const field = (name) => document.getElementById(name);
  const toggle = (element, isShown) => element.toggleAttribute("data-hidden", !isShown);

  const clauses = all("details.clause").map((element) => ({
    element,
    row: document.querySelector(`.matrix tr[data-c="${element.dataset.c}"]`),
    theme: element.closest(".themed").dataset.theme,
    text: element.textContent.toLowerCase(),
  }));

  for (const { element, row } of clauses) if (row) row.cells[0].title = element.querySelector(".sentence").textContent;

  function wanted() {
    return {
      words: field("search").value.toLowerCase().split(/\s+/).filter(Boolean),
      theme: field("theme").value, level: field("level").value,
      verdict: field("verdict").value, subject: field("subject").value,
    };
  }

  function fits(clause, want) {
    const data = clause.element.dataset;
    return want.words.every((word) => clause.text.includes(word))
      && (!want.theme || clause.theme === want.theme)
      && (!want.level || data.level === want.level)
      && (!want.verdict || data.verdicts.split("|").includes(want.verdict));
  }

  function filterClauses(want) {
    let shown = 0;
    for (const clause of clauses) {
      const isShown = fits(clause, want);
      shown += isShown;
      toggle(clause.element, isShown);
      if (clause.row) toggle(clause.row, isShown);
    }
    for (const theme of all(".themed, .matrix tbody")) {
      toggle(theme, all(".clause, tr[data-c]", theme).some((each) => !each.hasAttribute("data-hidden")));
    }
    return shown;
  }

  function filterSubjects(subject) {
    const columns = all(".matrix thead tr + tr th").map((head) => !subject || head.dataset.s === subject);
    for (const head of all(".matrix thead [data-s], .rows tr[id], #conventions tbody tr")) {
      toggle(head, !subject || (head.dataset.s ?? head.id.split(/[.-]/)[1]) === subject);
    }
    for (const row of all(".matrix tr[data-c]")) {
      Array.from(row.cells).slice(1).forEach((cell, place) => toggle(cell, columns[place]));
    }
  }

  function filterFindings(want) {
    for (const finding of all(".finding")) {
      const text = finding.textContent.toLowerCase();
      toggle(finding, want.words.every((word) => text.includes(word))
        && (!want.subject || finding.dataset.subject === want.subject));
    }
  }

  function filter() {
    const want = wanted();
    const shown = filterClauses(want);
    filterSubjects(want.subject);
    filterFindings(want);
    const isWhole = !want.words.length && !want.theme && !want.level && !want.verdict && !want.subject;
    field("shown").textContent = isWhole ? "" : `${shown} of ${clauses.length} clauses`;
  }

  function open(fragment) {
    const target = fragment && document.getElementById(decodeURIComponent(fragment.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // a page from disk is not trusted with the clipboard everywhere
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  for (const line of all(".command")) {
    const button = line.appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await copy(line.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  if (tools && clauses.length) {
    tools.hidden = false;
    tools.addEventListener("input", filter);
    tools.addEventListener("reset", () => setTimeout(filter));
    tools.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
      event.preventDefault();
      field("search").focus();
    });
  }
  addEventListener("hashchange", () => open(location.hash));
  open(location.hash);
  const closed = [];
  addEventListener("beforeprint", () => closed.push(...all(".finding:not([open])").map((each) => (each.open = true, each))));
  addEventListener("afterprint", () => closed.splice(0).forEach((each) => { each.open = false; }));
})();
