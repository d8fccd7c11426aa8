"""The page of a whole audit in headless Chromium, opened from disk: sieve, sorting, squares, phones, no script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.events import Found, RunFinished, SubjectKnown, SubjectProbed
from attnspec.record.outcome import ClauseText, Evidence, KnownFinding, Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.page import write_page
from helpers.browser import NEEDS_CHROMIUM, evaluate, open_page, type_into
from helpers.records import run_started

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = NEEDS_CHROMIUM

SUBJECTS, CLAUSES, LIBRARIES = 70, 120, 14  # as many as a published audit holds
MEASURED = Measured("agree", "agree", 3.0, 0.5, 0.125, 1.0, 0.5, (0, 0), 4, 4, 1)
SCRIPT = "import library\n" + "print(library.attend('a rather long line of an example that shows it'))\n" * 12


def findings(library: int) -> tuple[KnownFinding, ...]:
    return tuple(KnownFinding(f"lib{library}/finding_{number}", f"Finding {number} of library {library} " * 3,
                              (f"theme{number}.*",), (), SCRIPT, "no" if number else "in its manual", "")
                 for number in range(4))


def outcome(place: int, number: int, dtype: DType) -> Outcome:
    subject, clause = f"lib{place % LIBRARIES}/subject_{place}", f"theme{number % 8}.a_clause_of_that_theme_{number}"
    if (place + number) % 4 == 0:
        return Outcome(subject, clause, dtype, Level.MUST, Verdict.INAPPLICABLE, "it does not take the keyword 'mask'")
    if number % 8 < 4 and (place * number) % 23 == 1 and dtype is not DType.FLOAT64:
        evidence = Evidence("1 of 4 entries differ", "B=1 T=2 S=2 D=1", "B1;T2", MEASURED)
        return Outcome(subject, clause, dtype, Level.MUST, Verdict.VIOLATED, "", 4, 0, MEASURED, evidence)
    return Outcome(subject, clause, dtype, Level.MUST, Verdict.HELD, "", 24, 0,
                   Measured("agree", "agree", (place + number) / 200, 0, 0, 0, 0, (0,), 1, 1))


def probes(subject: str) -> Iterator[SubjectProbed]:
    for variant, answer in (("", "zeros"), ("compiled", "nan")):
        found = tuple(Found(f"hidden_row.{form}", f"What of {form}?", answer, "seen [0 0 0 0]" * 3, "zeros")
                      for form in ("mask", "bias", "causal"))
        yield SubjectProbed(subject, variant, DType.FLOAT32, found)


def whole_audit() -> RunRecord:
    items = tuple(outcome(place, number, dtype)
                  for place in range(SUBJECTS) for number in range(CLAUSES) for dtype in DType)
    subjects = list(dict.fromkeys(item.subject for item in items))
    clauses = tuple(ClauseText(name, says=f"{name} holds.", formula=r"A_{ij} = 0 \quad (j > i)")
                    for name in sorted({item.clause for item in items}))
    header = run_started(command=("attnspec", "audit"), items=len(items), environment={"platform": "Linux " * 30},
                         clauses=clauses)
    cards = tuple(
        SubjectKnown(SubjectCard(subject, "an attention layer of a library", "layer", "lib", "1.2", "", {}, {}, {}, (),
                                 library=f"Library {place % LIBRARIES}", note="In its own call True means hide.",
                                 findings=findings(place % LIBRARIES)))
        for place, subject in enumerate(subjects))
    told = tuple(probe for subject in subjects for probe in probes(subject))
    return RunRecord(header, cards, items, RunFinished("", 1.0, {}, 1), probes=told)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "audit.html"
    write_page([whole_audit()], path)
    return path


def count(browser: Chrome, selector: str) -> int:
    """How many elements there are that no filter hides."""
    return int(evaluate(browser, f"document.querySelectorAll({selector!r}).length"))


def first_cells(browser: Chrome, column: int) -> list[str]:
    """What the first rows of the table say in a column."""
    rows = f"[...document.querySelectorAll('#audit .line')].slice(0, 3).map((row) => row.cells[{column}])"
    return list(evaluate(browser, f"{rows}.map((cell) => cell.dataset.k ?? cell.textContent)"))


def test_it_opens_without_a_complaint_and_is_light(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    assert browser.get_log("browser") == []
    assert evaluate(browser, "performance.getEntriesByType('resource').length") == 0
    assert page.stat().st_size < 3_000_000
    assert count(browser, "*") < 40_000
    assert evaluate(browser, "document.querySelector('h1').textContent") == (
        "70 implementations of attention from 14 libraries tested")


@pytest.mark.family(1)
@pytest.mark.parametrize("script", [True, False])
def test_nothing_overflows_a_phone(browser: Chrome, page: Path, script: bool) -> None:
    open_page(browser, page, width=390, script=script)
    sections = "document.querySelectorAll('main > section')"
    evaluate(browser, f"{sections}.forEach((each) => {{ each.style.contentVisibility = 'visible'; }})")
    evaluate(browser, "document.querySelector('.entry').open = true")
    assert evaluate(browser, "document.scrollingElement.scrollWidth") <= 390


def test_the_sieve_leaves_one_library_everywhere(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    type_into(browser, "sieve-library", "lib3")
    shown = {name: count(browser, f"{name}:not([data-hidden])")
             for name in ("#audit .line", ".entry", ".customs tbody tr", ".switch", "#cells tbody tr")}
    assert shown == {"#audit .line": 5, ".entry": 4, ".customs tbody tr": 5, ".switch": 5, "#cells tbody tr": 5}
    assert count(browser, "#audit tbody:not([data-hidden])") == 1
    assert evaluate(browser, "document.getElementById('sieve-shown').textContent") == "5 implementations, 4 findings"


def test_the_sieve_finds_words_and_what_is_not_documented(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    assert count(browser, ".entry:not([data-hidden])") == 56
    type_into(browser, "sieve-words", "SUBJECT_13 finding")
    assert count(browser, ".entry:not([data-hidden])") == 1
    open_page(browser, page)
    type_into(browser, "sieve-level", "silent")
    assert count(browser, ".entry:not([data-hidden])") == 42


@pytest.mark.nightly
def test_the_table_sorts_down_up_and_back_to_the_shelves(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    shelved = first_cells(browser, 0)
    press = "document.querySelectorAll('#audit thead button')[2].click()"
    evaluate(browser, press)
    down = [int(cell) for cell in first_cells(browser, 2)]
    assert down == sorted(down, reverse=True)
    assert down[0] > 0
    evaluate(browser, press)
    assert first_cells(browser, 2)[0] < str(down[0])
    evaluate(browser, press)
    assert first_cells(browser, 0) == shelved


@pytest.mark.nightly
def test_a_square_tells_what_stands_behind_it(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    evaluate(browser, "document.querySelector('#cells td.v').click()")
    told = evaluate(browser, "document.getElementById('behind').textContent")
    for piece in ("f64 ✓ held, margin", "f32 ✗ violated, margin 3", "of library"):
        assert piece in told
    link = evaluate(browser, "document.querySelector('#behind .why').hash")
    evaluate(browser, "document.querySelector('#behind .why').click()")
    assert evaluate(browser, f"document.querySelector({link!r}).open")


def test_an_inapplicable_square_tells_the_reason(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    evaluate(browser, "document.querySelector('#cells tbody td:not([class])').click()")
    assert "inapplicable: it does not take the keyword 'mask'" in evaluate(
        browser, "document.getElementById('behind').textContent")


@pytest.mark.nightly
def test_the_place_of_a_click_in_a_wide_square_tells_the_clause(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    told = []
    for columns in (0.5, 1.5):
        evaluate(browser, f"""(() => {{
            const wide = document.querySelector("#cells tbody td[colspan]");
            const box = wide.getBoundingClientRect();
            const x = box.left + {columns} * box.width / wide.colSpan;
            wide.dispatchEvent(new MouseEvent("click", {{bubbles: true, clientX: x}}));
        }})()""")
        told.append(evaluate(browser, "document.querySelector('#behind .id').textContent"))
    names = evaluate(browser, "[...document.querySelectorAll('#cells thead tr + tr a')].map((a) => a.hash.slice(8))")
    assert names.index(told[1]) == names.index(told[0]) + 1


def test_the_table_fits_a_laptop(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    wide = "document.getElementById('audit').scrollWidth <= document.getElementById('audit').parentElement.clientWidth"
    assert evaluate(browser, wide)


def test_scripts_have_a_button_that_copies_them(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    assert evaluate(
        browser, "document.querySelectorAll('.script').length === document.querySelectorAll('.script button').length"
        " && document.querySelectorAll('.script').length > 0")


def test_it_reads_without_script(browser: Chrome, page: Path) -> None:
    open_page(browser, page, script=False)
    assert evaluate(browser, "document.getElementById('sieve').checkVisibility()") is False
    columns = "[...document.querySelectorAll('#cells tbody td')].reduce((sum, cell) => sum + cell.colSpan, 0)"
    assert evaluate(browser, columns) == SUBJECTS * CLAUSES
    assert evaluate(browser, "document.querySelector('.entry summary').checkVisibility()")
