"""The page in a real browser, opened from disk: headless Chromium, without network."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import evaluation.report.page
import pytest
from attnspec.core.nouns import DType, Level, Panel, Verdict
from attnspec.record.events import HISTOGRAM_BINS, SUITE, BlockJudged, Conviction, RunFinished, SubjectKnown, SubjectPut
from attnspec.record.outcome import ClauseText, Evidence, Measured, Outcome, Picture, QuotedSource, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.page import write_page
from helpers.browser import NEEDS_CHROMIUM, evaluate, open_page, type_into
from helpers.records import run_started

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = NEEDS_CHROMIUM

CLAUSES = {
    "causal.no_lookahead": "Moving later keys leaves every earlier row where it was.",
    "masking.hidden_weight_is_zero": "A hidden key gets weight exactly zero.",
    "masking.a_name_that_is_a_good_deal_longer_than_any_phone_is_wide": "A clause with a very long name.",
}
SUBJECTS = ("torch/sdpa", "jax/a_function_with_quite_a_long_name", "numpy/msa", "mine/broken", "fault/mask_ignored")
Open: TypeAlias = "Callable[..., Chrome]"


def clause(name: str, says: str) -> ClauseText:
    source = QuotedSource(title="notes", quote="每一行之和为 1", url="https://example.org")
    return ClauseText(name, name.partition(".")[0], says=says, formula=r"A_{ij} = 0 \quad (j > i)",
                      because=(source,), refuted_by=("mask_ignored",), where="spec/x.yaml:1")


def outcome(subject: str, name: str, dtype: DType) -> Outcome:
    measured = Measured("agree", "agree", 0.3, 1e-7, 3e-7, 1.0, 1.0, (0, 0, 1, 2), 35, 35)
    if subject not in {"mine/broken", "fault/mask_ignored"} or "causal" in name:
        return Outcome(subject, name, dtype, Level.MUST, Verdict.HELD, cases=40, worst=measured, seconds=0.2)
    row = tuple(0.05 * place for place in range(24))
    pictures = (Picture("weights", "T", "S", (row,) * 20), Picture("difference", "T", "S", ((0.5, "nan"), (-1.0, 0.0))),
                Picture("seen: weights of `a_run_with_a_long_name` + `another`", "query", "key", (row[:16],) * 16,
                        Panel.SEEN, (1000, 2000), (2048, 4096), (1008, 2008), ("x" * 9 + "u" * 7,) * 16))
    evidence = Evidence("differs", "B=1 " * 40, "B1;" + "very_long_recipe_" * 20, measured, pictures, "Traceback " * 30)
    return Outcome(subject, name, dtype, Level.MUST, Verdict.VIOLATED, cases=3, evidence=evidence, worst=measured,
                   repeat="attnspec replay Xt9Kp2")


def made_up_run() -> RunRecord:
    items = tuple(outcome(subject, name, dtype) for subject in SUBJECTS for name in CLAUSES for dtype in DType)
    header = run_started(
        command=("attnspec", "audit", "--html", "x" * 200), items=len(items), environment={"platform": "Linux " * 30},
        clauses=tuple(clause(*each) for each in CLAUSES.items()))
    cards = tuple(
        SubjectKnown(SubjectCard(subject, "a title", "attention", "", "", "", {}, {"hidden_row": "zeros"}, {}, ()))
        for subject in SUBJECTS)
    return RunRecord(header, cards, items, RunFinished("", 1.0, {}, 1))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page([made_up_run()], path)
    return path


@pytest.fixture
def opened(browser: Chrome, page: Path) -> Open:
    """Opens the page afresh."""
    return functools.partial(open_page, browser, page)


def visible(browser: Chrome, selector: str) -> int:
    """How many elements are laid out, closed details aside."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return int(evaluate(browser, f"{found}.filter((each) => each.checkVisibility()).length"))


def test_the_page_opens_from_disk_without_a_complaint(opened: Open) -> None:
    browser = opened()
    assert "attnspec" in browser.title
    assert browser.get_log("browser") == []
    assert evaluate(browser, "performance.getEntriesByType('resource').length") == 0


@pytest.mark.family(1)
@pytest.mark.parametrize("script", [True, False])
def test_nothing_overflows_a_phone(opened: Open, script: bool) -> None:
    browser = opened(width=390, script=script)
    evaluate(browser, "document.querySelectorAll('details').forEach(each => each.open = true)")
    assert evaluate(browser, "document.scrollingElement.scrollWidth") <= 390


def test_search_leaves_only_what_matches(opened: Open) -> None:
    browser = opened()
    assert [visible(browser, each) for each in (".matrix tr[data-c]", ".clause", ".finding")] == [3, 3, 2]
    type_into(browser, "search", "later EARLIER")
    assert [visible(browser, each) for each in (".matrix tr[data-c]", ".clause", ".finding")] == [1, 1, 0]
    assert evaluate(browser, "document.getElementById('shown').textContent") == "1 of 3 clauses"


@pytest.mark.family(2)
@pytest.mark.parametrize(("field", "value", "left"), [
    ("theme", "masking", 2), ("level", "may", 0), ("verdict", "violated", 2), ("verdict", "held", 3),
    ("subject", "2", 3)])
def test_filters_choose_clauses(opened: Open, field: str, value: str, left: int) -> None:
    browser = opened()
    type_into(browser, field, value)
    assert visible(browser, ".matrix tr[data-c]") == visible(browser, ".clause") == left


@pytest.mark.nightly
def test_the_subject_filter_leaves_one_column(opened: Open) -> None:
    browser = opened()
    assert visible(browser, ".matrix tr[data-c='0'] td") == 16
    type_into(browser, "subject", "2")
    assert visible(browser, ".matrix tr[data-c='0'] td") == visible(browser, ".matrix .dtype") == 4
    left = evaluate(browser, "document.querySelector('.who:not([data-hidden])').textContent")
    assert left == "numpy/msa"


@pytest.mark.nightly
def test_clear_brings_everything_back(opened: Open) -> None:
    browser = opened()
    type_into(browser, "search", "no such clause")
    assert visible(browser, ".clause") == 0
    browser.execute_async_script(
        "document.querySelector('#tools [type=reset]').click(); setTimeout(arguments[0], 50)")
    assert visible(browser, ".clause") == 3


def test_a_cell_leads_to_its_row_and_opens_the_clause(opened: Open) -> None:
    browser = opened()
    target = evaluate(browser, "document.querySelector('.matrix a.good').getAttribute('href')")
    browser = opened(fragment=target)
    assert evaluate(browser, f"document.getElementById('{target[1:]}').closest('details').open") is True
    assert visible(browser, f"[id=\"{target[1:]}\"]") == 1


def test_the_page_reads_without_script(opened: Open) -> None:
    browser = opened(script=False)
    assert visible(browser, "#tools") == visible(browser, ".command button") == 0
    assert visible(browser, ".finding[open] .measured") == 2
    assert visible(browser, ".matrix td a") == 48
    assert visible(browser, ".clause summary") == 3


def test_formulas_are_drawn_as_mathematics(opened: Open) -> None:
    browser = opened()
    evaluate(browser, "document.querySelector('.clause').open = true")
    assert evaluate(browser, "document.querySelector('.formula math').getBoundingClientRect().width") > 50


def test_light_and_dark_differ_and_both_have_contrast(opened: Open) -> None:
    seen = {theme: contrasts(opened(theme=theme)) for theme in ("light", "dark")}
    assert seen["light"]["paper"] != seen["dark"]["paper"]
    for theme, found in seen.items():
        assert {name: ratio for name, ratio in found["ratios"].items() if ratio < 4.5} == {}, theme


def contrasts(browser: Chrome) -> Any:  # noqa: ANN401  (a JSON object)
    """The ground of the page and the WCAG contrast of every pair of colours that text is set in."""
    pairs = {name: (name, f"{name}-tint") for name in ("good", "bad", "soft", "known", "open", "odd", "idle")}
    pairs |= {f"{name} on {ground}": (name, ground) for name in (*pairs, "ink", "muted", "accent")
              for ground in ("paper", "card")}
    pairs |= {"ink on code": ("ink", "code"), "on-bad": ("on-bad", "bad-solid"), "ink on bad": ("ink", "bad-tint"),
              "accent on bad": ("accent", "bad-tint"), "muted on hover": ("muted", "idle-tint")}
    return browser.execute_script("""
      const probe = document.body.appendChild(document.createElement("i"));
      const shade = (name) => {
        probe.style.color = `var(--${name})`;
        return getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map(Number);
      };
      const linear = (c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
      const light = (rgb) => rgb.map((c) => linear(c / 255))
        .reduce((sum, c, place) => sum + c * [.2126, .7152, .0722][place], 0);
      const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
      const ratios = Object.entries(arguments[0]);
      return {
        paper: getComputedStyle(document.body).backgroundColor,
        ratios: Object.fromEntries(ratios.map(([name, [ink, ground]]) => [name, ratio(shade(ink), shade(ground))])),
      };
    """, pairs)


@pytest.mark.nightly
def test_numbers_in_pictures_have_contrast(opened: Open) -> None:
    for theme in ("light", "dark"):
        ratios = evaluate(opened(theme=theme), """(() => {
          const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
          const rgb = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                                    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
          const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
          const light = (c) => c.map((v) => linear(v / 255))
            .reduce((sum, v, place) => sum + v * [.2126, .7152, .0722][place], 0);
          const svg = document.querySelector(".picture svg");
          return ["s", "n", "p"].flatMap((arm) => [1, 2, 3, 4, 5, 6, 7, 8].map((step) => {
            svg.insertAdjacentHTML("beforeend", `<g class="${arm}${step}"><rect/><text>1</text></g>`);
            const [ground, ink] = [...svg.lastElementChild.children].map((e) => light(rgb(getComputedStyle(e).fill)));
            return [arm + step, (Math.max(ground, ink) + .05) / (Math.min(ground, ink) + .05)];
          }));
        })()""")
        assert len(ratios) == 24
        assert [pair for pair in ratios if pair[1] < 4.5] == [], theme


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a measurement of power and a campaign."""
    faults = [SubjectPut(f"fault/a_fault_with_quite_a_long_name_{n}", dtype, 0, True, "scale", "", tuple(
        Conviction(rule, n % 3 > 0, 1 + n, clause="masking.a_name_that_is_long", instrument="bound")
        for rule in (SUITE, *(f"a rule with a name of its own, number {m}" for m in range(9)))))
        for n in range(12) for dtype in DType]
    blocks = [BlockJudged(f"lib/subject_{n}", dtype, 0, 9, 9, 0, 0, (3,) * HISTOGRAM_BINS) for n in range(3)
              for dtype in DType]
    path = tmp_path_factory.mktemp("measured") / "page.html"
    whole = made_up_run()
    evaluation.report.page.write_page([replace(whole, outcomes=(), puts=tuple(faults), blocks=tuple(blocks))], path)
    return path


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (390, "narrow")])
def test_charts_fit_desk_and_phone(opened: Open, measured: Path, width: int, shown: str) -> None:
    browser = opened(width=width)
    browser.get(measured.as_uri())
    evaluate(browser, "document.querySelectorAll('details').forEach(each => each.open = true)")
    assert evaluate(browser, "document.scrollingElement.scrollWidth") <= width
    assert visible(browser, f".curves .chart.{shown}") == visible(browser, ".curves .chart") == 1
    assert visible(browser, ".multiples .one svg") == 12
    boxes = evaluate(browser, f"""[...document.querySelectorAll('.chart.{shown} g g')].map((row) =>
      [...row.querySelectorAll('text:not(.letter)')].map(e => e.getBoundingClientRect().toJSON()))""")
    assert all(name["right"] <= figure["left"] and name["height"] > 9 for name, figure, _ in boxes)


@pytest.mark.nightly
def test_colours_of_curves_stand_out_from_their_ground(opened: Open, measured: Path) -> None:
    for theme in ("light", "dark"):
        browser = opened(theme=theme)
        browser.get(measured.as_uri())
        ratios = evaluate(browser, """(() => {
          const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
          const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((v) => linear(v / 255))
            .reduce((sum, v, place) => sum + v * [.2126, .7152, .0722][place], 0);
          const ground = light(getComputedStyle(document.body).backgroundColor);
          return [...document.querySelectorAll(".chart.wide .curve, .chart .colhead")].map((each) => {
            const style = getComputedStyle(each);
            const ink = light(each.matches(".curve") ? style.stroke : style.fill);
            return (Math.max(ground, ink) + .05) / (Math.min(ground, ink) + .05);
          });
        })()""")
        assert len(ratios) > 10
        assert min(ratios) >= 4.5, theme


def test_paper_is_light_and_shows_no_tools(opened: Open) -> None:
    browser = opened(theme="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    assert evaluate(browser, "getComputedStyle(document.body).color") == "rgb(28, 31, 36)"
    assert visible(browser, "#tools") == 0
    assert evaluate(browser, "getComputedStyle(document.querySelector('.grid')).maxHeight") == "none"
