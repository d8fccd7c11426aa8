"""The page of a whole audit in headless Chromium, opened from disk: sieve, sorting, squares, phones, no script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.events import RunFinished, RunStarted, SubjectKnown
from attnspec.record.measurements import Found, SubjectProbed
from attnspec.record.outcome import ClauseText, Evidence, KnownFinding, Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.page import write_page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both on PATH: the page is not opened")

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --window-size=1280,900")
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
    header = RunStarted("2026-01-02T03:04:05+00:00", ("attnspec", "audit"), "0.1", "f" * 64, 0, "quick", False,
                        len(items), ("float32",), {"platform": "Linux " * 30}, clauses)
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


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in (*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield browser
    browser.quit()


def opened(chrome: Chrome, page: Path, *, width: int = 1280, script: bool = True) -> Chrome:
    """The page, opened afresh."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    chrome.get("about:blank")
    chrome.get(page.as_uri())
    return chrome


def asked(chrome: Chrome, expression: str) -> Any:  # noqa: ANN401  (whatever the page answers)
    """The value of an expression in the page; also works where the page itself may run no script."""
    answer = chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": expression, "returnByValue": True})
    return answer["result"].get("value")


def count(chrome: Chrome, selector: str) -> int:
    """How many elements there are that no filter hides."""
    return int(asked(chrome, f"document.querySelectorAll({selector!r}).length"))


def typed(chrome: Chrome, field: str, text: str) -> None:
    chrome.execute_script(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', {bubbles: true}))", field, text)


def first_cells(chrome: Chrome, column: int) -> list[str]:
    """What the first rows of the table say in a column."""
    rows = f"[...document.querySelectorAll('#audit .line')].slice(0, 3).map((row) => row.cells[{column}])"
    return list(asked(chrome, f"{rows}.map((cell) => cell.dataset.k ?? cell.textContent)"))


def test_it_opens_without_a_complaint_and_is_light(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    assert chrome.get_log("browser") == []
    assert asked(chrome, "performance.getEntriesByType('resource').length") == 0
    assert page.stat().st_size < 3_000_000
    assert count(chrome, "*") < 40_000
    assert asked(chrome, "document.querySelector('h1').textContent") == "70 implementations from 14 libraries on trial"


@pytest.mark.parametrize("script", [True, False])
def test_nothing_overflows_a_phone(chrome: Chrome, page: Path, script: bool) -> None:
    opened(chrome, page, width=390, script=script)
    sections = "document.querySelectorAll('main > section')"
    asked(chrome, f"{sections}.forEach((each) => {{ each.style.contentVisibility = 'visible'; }})")
    asked(chrome, "document.querySelector('.entry').open = true")
    assert asked(chrome, "document.scrollingElement.scrollWidth") <= 390


def test_the_sieve_leaves_one_library_everywhere(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    typed(chrome, "sieve-library", "lib3")
    shown = {name: count(chrome, f"{name}:not([data-hidden])")
             for name in ("#audit .line", ".entry", ".customs tbody tr", ".switch", "#cells tbody tr")}
    assert shown == {"#audit .line": 5, ".entry": 4, ".customs tbody tr": 5, ".switch": 5, "#cells tbody tr": 5}
    assert count(chrome, "#audit tbody:not([data-hidden])") == 1
    assert asked(chrome, "document.getElementById('sieve-shown').textContent") == "5 implementations, 4 findings"


def test_the_sieve_finds_words_and_what_is_not_documented(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    assert count(chrome, ".entry:not([data-hidden])") == 56
    typed(chrome, "sieve-words", "SUBJECT_13 finding")
    assert count(chrome, ".entry:not([data-hidden])") == 1
    opened(chrome, page)
    typed(chrome, "sieve-level", "silent")
    assert count(chrome, ".entry:not([data-hidden])") == 42


def test_the_table_sorts_down_up_and_back_to_the_shelves(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    shelved = first_cells(chrome, 0)
    press = "document.querySelectorAll('#audit thead button')[2].click()"
    asked(chrome, press)
    down = [int(cell) for cell in first_cells(chrome, 2)]
    assert down == sorted(down, reverse=True)
    assert down[0] > 0
    asked(chrome, press)
    assert first_cells(chrome, 2)[0] < str(down[0])
    asked(chrome, press)
    assert first_cells(chrome, 0) == shelved


def test_a_square_tells_what_stands_behind_it(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    asked(chrome, "document.querySelector('#cells td.v').click()")
    told = asked(chrome, "document.getElementById('behind').textContent")
    for piece in ("f64 ✓ held, margin", "f32 ✗ violated, margin 3", "of library"):
        assert piece in told
    link = asked(chrome, "document.querySelector('#behind .why').hash")
    asked(chrome, "document.querySelector('#behind .why').click()")
    assert asked(chrome, f"document.querySelector({link!r}).open")


def test_an_inapplicable_square_tells_the_reason(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    asked(chrome, "document.querySelector('#cells tbody td:not([class])').click()")
    assert "inapplicable: it does not take the keyword 'mask'" in asked(
        chrome, "document.getElementById('behind').textContent")


def test_scripts_have_a_button_that_copies_them(chrome: Chrome, page: Path) -> None:
    opened(chrome, page)
    assert asked(chrome, "document.querySelectorAll('.script').length === document.querySelectorAll('.script button')"
                         ".length && document.querySelectorAll('.script').length > 0")


def test_it_reads_without_script(chrome: Chrome, page: Path) -> None:
    opened(chrome, page, script=False)
    assert asked(chrome, "document.getElementById('sieve').checkVisibility()") is False
    assert count(chrome, "#cells tbody td") == SUBJECTS * CLAUSES
    assert asked(chrome, "document.querySelector('.entry summary').checkVisibility()")
