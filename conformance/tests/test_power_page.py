"""The page and the picture of a measurement of power: what they show of made-up measurements."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.codec import to_line
from attnspec.record.events import SUITE, Conviction, RunFinished, SubjectPut
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord
from attnspec.report.figures import group_digits
from evaluation import PROGRAM
from evaluation.cli import main
from evaluation.report.curves import NARROW, WIDE, chart, shorten_text, spread
from evaluation.report.drawing import write_picture, write_power_picture
from evaluation.report.page import render
from evaluation.report.power_figures import percent
from evaluation.report.power_view import markdown_table
from helpers.pages import spaced_words
from helpers.records import run_started

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
F32, BF16 = DType.FLOAT32, DType.BFLOAT16
RULES = ({"name": "gauss", "title": "Five Gaussian draws", "source": "https://example.org/gauss",
          "meaning": "Draws five times. Then compares with allclose."},)
FAULTS = (
    {"name": "unscaled", "stage": "scale", "story": "The division by the root is forgotten.", "reach": "any input",
     "link": "https://github.com/example/attention/issues/12"},
    {"name": "late", "stage": "mask", "story": "The mask comes late.", "reach": "a mask", "link": ""})
Changes: TypeAlias = Any  # fields of the header, by name
Cases: TypeAlias = int  # to the conviction; negative: tried in vain


def said(rule: str, cases: Cases) -> Conviction:
    instrument = "worst-case rounding bound" if rule == SUITE and cases > 0 else ""
    return Conviction(rule, cases > 0, abs(cases), clause="scale.default" if instrument else "", instrument=instrument)


def put(subject: str, suite: Cases, gauss: Cases, dtype: DType = F32) -> SubjectPut:
    convictions = (said(SUITE, suite), said("gauss", gauss))
    if not subject.startswith("fault/"):
        return SubjectPut(subject, dtype, 0, False, "", "", convictions)
    return SubjectPut(subject, dtype, 0, True, "scale", "", convictions, named=subject.removeprefix("fault/"))


PUTS = (
    put("fault/unscaled", 1, 2), put("fault/late", -40, -5), put("sound/plain", -40, 3),
    put("fault/unscaled", 4, -5, BF16), put("fault/late", 1, -5, BF16))


def record_of(*puts: SubjectPut, **changes: Changes) -> RunRecord:
    header = run_started(command=(PROGRAM, "power"), items=len(puts), rules=RULES, faults=FAULTS)
    footer = RunFinished("2026-01-02T03:05:05+00:00", 60.0, {}, 0)
    return RunRecord(replace(header, **changes), (), (), footer, puts=puts)


def shown(*puts: SubjectPut) -> str:
    return spaced_words(render([record_of(*puts)]))


def test_the_headline_says_how_much_is_convicted_and_who_is_accused() -> None:
    assert "75.0 % of 2 faults detected, false alarms for none of 1 correct implementation" in shown(*PUTS)
    assert "All 1 fault detected, no correct implementation tested" in shown(put("fault/unscaled", 1, 1))
    assert "false alarms for 1 of 1 correct implementation" in shown(*PUTS, put("sound/plain", 3, 1, BF16))


def test_a_table_tells_convictions_cases_and_false_alarms_at_each_dtype() -> None:
    page = shown(*PUTS)
    assert "float32 50.0 % 1 / 2 1 / 2 1 1 1 0 of 1" in page
    assert "bfloat16 100 % 2 / 2 2 / 2 1 4 4 none tested" in page


def test_every_rule_stands_in_the_table_with_its_source_and_what_it_does() -> None:
    page = render([record_of(*PUTS)])
    assert '<a href="https://example.org/gauss" rel="noreferrer noopener">Five Gaussian draws</a>' in page
    assert "Draws five times. Then compares with allclose. 50.0 % 1 / 2 0 % 0 / 2 25.0 % 1 / 4 2 · 2 · 2 1 of 1" in (
        spaced_words(page))
    assert "false alarms, by rule Five Gaussian draws : f32 plain" in spaced_words(page)


def test_an_escapee_comes_with_its_story_its_reach_and_its_link() -> None:
    missed = render([record_of(put("fault/unscaled", -40, -5), put("fault/late", -40, -5))])
    assert "unscaled scale f32 1 of 1 seed The division by the root is forgotten. Reached by: any input example/" in (
        spaced_words(missed))
    assert 'href="https://github.com/example/attention/issues/12"' in missed
    found = shown(put("fault/late", 1, 1))
    assert "No fault was missed: every fault whose error is larger than rounding was detected" in found


def test_equivalents_have_their_reason_and_convicted_ones_stand_out() -> None:
    blank = SubjectPut("fault/late", F32, 0, True, "mask", "it rounds alike", ())
    page = shown(*PUTS[:1], blank, replace(PUTS[1], dtype=BF16, equivalent="exact here", convictions=(said(SUITE, 1),)))
    assert "No larger than rounding (2)" in page
    assert "late bf16 exact here The suite detected it nevertheless." in page
    assert "late f32 it rounds alike" in page


def test_stages_instruments_clauses_and_cases_are_counted() -> None:
    page = shown(*PUTS)
    assert "scale 3 / 4 1 / 4" in page
    assert "attnspec and Five Gaussian draws, the best of the others" in page
    assert "worst-case rounding bound 3" in page
    assert "scale. default 3" in page
    assert "4–5 1" in page
    assert "not detected 1" in page


def test_the_diagnosis_tells_its_share_and_what_it_took_for_something_else() -> None:
    page = shown(*PUTS, replace(put("fault/late", 1, 1, DType.FLOAT16), named="unscaled"),
                 replace(put("fault/unscaled", 1, 1, DType.FLOAT16), named=""))
    assert "named first for 60.0 % of 5 detected faults: 3 by its own name, 0 by the name of another fault" in page
    assert "late f16 was taken for unscaled" in page
    assert "unscaled f16 was not named" in page


def test_lost_runs_are_told_and_count_as_not_convicted() -> None:
    page = shown(*PUTS, SubjectPut("fault/gone", F32, 0, True, "mask", "", (), lost="the worker died"))
    assert "1 run lost. They count as not detected: fault/gone f32, the worker died." in page
    assert "float32 33.3 % 1 / 3" in page


def test_a_record_without_a_measurement_says_so() -> None:
    page = shown()
    assert "No power was measured" in page
    assert "nothing was tested" in page
    assert "Nothing was executed" not in page


def test_an_accusation_is_told_with_its_clause_and_what_was_seen() -> None:
    accused = Conviction(SUITE, True, 2, clause="core.a", sentence="1 against 2")
    page = shown(*PUTS, SubjectPut("sound/odd", BF16, 3, False, "", "", (accused,)))
    assert "The suite fails correct implementations. odd bf16, seed 3, by core.a : 1 against 2" in page
    assert "The suite fails correct" not in shown(*PUTS)


def test_a_measurement_is_good_if_whole_without_escapees_and_accusations() -> None:
    right, sound = put("fault/unscaled", 1, 1), put("sound/plain", -40, -5)
    lost = SubjectPut("sound/other", F32, 0, False, "", "", (), lost="the worker died")
    colours = [re.findall('<h1 class="verdict (.*?)"', render([record]))[0] for record in (
        record_of(right, sound), record_of(right), record_of(*PUTS), record_of(right, sound, lost),
        replace(record_of(right, sound), footer=None), record_of(right, put("sound/plain", 2, 2)))]
    assert colours == ["good", "idle", "idle", "idle", "idle", "bad"]


def test_a_page_of_power_has_no_empty_sections_of_verdicts() -> None:
    page = render([record_of(*PUTS)])
    assert re.findall(r'<section id="(\w+)"', page) == ["power", "environment", "glossary"]
    targets = set(re.findall(r'href="#([\w-]+)"', page))
    assert targets <= set(re.findall(r'id="([\w-]+)"', page))


def test_rules_may_be_measured_without_the_suite() -> None:
    page = shown(SubjectPut("fault/late", F32, 0, True, "mask", "", (said("gauss", 2),)))
    assert "No power was measured" in page
    assert "Five Gaussian draws Draws five times. Then compares with allclose. 100 % 1 / 1" in page


def test_verdicts_and_power_share_a_page() -> None:
    judged = replace(record_of(), outcomes=(Outcome("lib/a", "core.a", F32, Level.MUST, Verdict.HELD, cases=3),))
    page = render([replace(judged, header=replace(judged.header, rules=())), record_of(*PUTS)])
    assert "lib/a conforms" in spaced_words(page)
    assert "Power : 75.0 % of 2 faults detected" in spaced_words(page)
    assert 'id="matrix"' in page
    assert "sound/plain was not judged" not in spaced_words(page)


def test_what_a_measurement_holds_cannot_break_out_of_the_page() -> None:
    evil = {"name": HOSTILE, "title": HOSTILE, "source": "javascript:alert(3)", "meaning": HOSTILE}
    conviction = Conviction(HOSTILE, True, 1, clause=HOSTILE, instrument=HOSTILE)
    told = (said(SUITE, -3), conviction)
    fault = SubjectPut(f"fault/{HOSTILE}", F32, 0, True, HOSTILE, "", told, HOSTILE, lost=HOSTILE)
    faults = ({"name": HOSTILE, "story": HOSTILE, "reach": HOSTILE, "link": "javascript:alert(4)"},)
    record = record_of(fault, replace(fault, dtype=BF16, equivalent=HOSTILE), rules=(evil,), faults=faults)
    page = render([record])
    assert "<img" not in page
    assert page.count("<script>") == 1
    assert "javascript:" not in page


def test_a_curve_goes_from_its_first_case_to_the_last_that_its_rule_puts() -> None:
    drawn = chart(PUTS, {"gauss": "Five draws"}, WIDE)
    suite, gauss = drawn.curves
    assert (suite.css, gauss.css, gauss.title) == ("suite", "peer0", "Five draws")
    assert (gauss.convicted.part, gauss.accused.convicted) == (0.25, 1)
    assert suite.end[1] == WIDE.bottom - 0.75 * (WIDE.bottom - WIDE.top)
    width = WIDE.right - WIDE.left
    assert gauss.end[0] == round(WIDE.left + width * math.log(5) / math.log(150), 1)
    assert suite.d.startswith(f"M{WIDE.left}.0 {WIDE.bottom - 0.5 * (WIDE.bottom - WIDE.top)}H")
    assert [tick.text for tick in drawn.cases] == ["1", "2", "5", "10", "20", "50", "100"]


def test_a_curve_that_has_everybody_goes_on_level() -> None:
    (curve,) = chart((SubjectPut("fault/a", F32, 0, True, "scale", "", (said(SUITE, 1),)),), {}, WIDE).curves
    assert curve.end == (WIDE.right, WIDE.top)


def test_an_axis_grows_with_what_a_rule_needs() -> None:
    drawn = chart((put("fault/unscaled", 1, 400),), {}, WIDE)
    assert [tick.text for tick in drawn.cases][-1] == "200"
    assert "H500.0V40.0" in drawn.curves[1].d


def test_on_a_phone_rows_stand_below_the_curves_and_letters_tell_them() -> None:
    drawn = chart(PUTS, {}, NARROW)
    assert [(curve.letter, curve.row_y) for curve in drawn.curves] == [("A", 300), ("B", 322)]
    assert drawn.height == 344
    assert not drawn.is_wide


@pytest.mark.parametrize(("wanted", "placed"), [
    ([10, 50], [10, 50]), ([10, 12, 14], [10, 30, 50]), ([95, 97, 99], [60, 80, 100]), ([-5], [0]), ([], [])])
def test_labels_keep_their_distance_and_stay_inside(wanted: list[float], placed: list[float]) -> None:
    assert spread(wanted, 20, 0, 100) == placed


def test_a_long_name_is_cut_with_an_ellipsis() -> None:
    assert [shorten_text("a name", letters) for letters in (6, 5, 2)] == ["a name", "a na…", "a…"]


def test_the_picture_stands_alone_and_says_in_words_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "power.svg"
    write_power_picture(record_of(*PUTS), path)
    drawn = ElementTree.parse(path).getroot()
    text = " ".join(drawn.itertext())
    assert "75.0 % of 2 faults detected" in text
    assert "2 wrong implementations at float32, bfloat16; 1 seed, effort quick" in text
    assert "Five Gaussian draws: 25.0 % detected, 1 of 1 false alarms" in text
    assert "For attnspec, a case is one problem tested with the clause that detects the fault first." in text
    assert drawn.find("{*}rect[@class='ground']") is not None
    assert "prefers-color-scheme: dark" in text
    assert "http" not in path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")


def test_a_record_without_power_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no measurement of power, so there is nothing to draw"):
        write_power_picture(record_of(), tmp_path / "power.svg")


def test_a_readme_gets_its_table_from_the_record() -> None:
    assert markdown_table(record_of(*PUTS)).splitlines() == [
        "| detected by | float32 | bfloat16 | cases: median, 95 %, worst | false alarms |",
        "|---|---|---|---|---|",
        "| **attnspec** | 50.0 % | 100 % | 1, 4, 4 | 0 of 1 |",
        "| [Five Gaussian draws](https://example.org/gauss) | 50.0 % | 0 % | 2, 2, 2 | 1 of 1 |"]
    assert markdown_table(record_of()) == ""


SIZED = tuple(replace(each, shows_at="S = 16 n + 1") if each.subject == "fault/late" else each for each in PUTS)


def test_a_readme_has_a_column_for_faults_that_show_at_certain_sizes() -> None:
    assert markdown_table(record_of(*SIZED)).splitlines() == [
        "| detected by | float32 | bfloat16 | shows only at certain sizes | cases: median, 95 %, worst "
        "| false alarms |",
        "|---|---|---|---|---|---|",
        "| **attnspec** | 50.0 % | 100 % | 50.0 % | 1, 4, 4 | 0 of 1 |",
        "| [Five Gaussian draws](https://example.org/gauss) | 50.0 % | 0 % | 0 % | 2, 2, 2 | 1 of 1 |"]


def test_the_page_has_the_column_only_where_there_are_such_faults() -> None:
    assert "shows only at certain sizes" not in shown(*PUTS)
    page = shown(*SIZED)
    assert "bfloat16 shows only at certain sizes all runs" in page
    assert "50.0 % 1 / 2 0 % 0 / 2 0 % 0 / 2 25.0 % 1 / 4 2 · 2 · 2 1 of 1" in page


def test_the_command_writes_page_picture_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, page, picture = (tmp_path / f"power.{kind}" for kind in ("jsonl", "html", "svg"))
    run = record_of(*PUTS)
    lines = (to_line(run.header), *map(to_line, run.puts))
    record.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert main(["report", str(record), "--picture", str(picture), "--table"]) == 0
    said = capsys.readouterr().out
    assert f"{record}: the run was interrupted; 5 of 5 items are known" in said
    assert f"picture: {picture}" in said
    assert markdown_table(run) in said
    assert "Interrupted. The run is incomplete: it did not finish" in spaced_words(page.read_text(encoding="utf-8"))
    assert "75.0 % of 2 faults detected" in picture.read_text(encoding="utf-8")


def test_a_table_of_several_records_counts_them_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = replace(PUTS[0], subject="fault/another")
    for name, puts in (("one", PUTS), ("more", (more,))):
        lines = map(to_line, (record_of(*puts).header, *puts))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert main(["report", str(tmp_path / "one"), str(tmp_path / "more"), "--table"]) == 0
    assert markdown_table(record_of(*PUTS, more)) in capsys.readouterr().out


def test_verdicts_alone_are_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pictures are drawn of power and of campaigns for false alarms"):
        write_picture(record_of(), tmp_path / "power.svg")


@pytest.mark.nightly
def test_a_page_of_power_stays_small() -> None:
    rules = [said(f"rule{number}", 3) for number in range(9)]
    puts = [SubjectPut(f"fault/a_fault_number_{number}", dtype, seed, True, f"stage{number % 18}", "",
                       (said(SUITE, 1), *rules), "x") for number in range(300) for dtype in DType for seed in range(3)]
    assert len(render([record_of(*puts)]).encode()) < 300_000


@pytest.mark.parametrize(("part", "text"), [
    (0.0, "0 %"), (1.0, "100 %"), (0.5, "50.0 %"), (0.99999, "99.99 %"), (0.9994, "99.94 %"), (0.00001, "0.01 %"),
    (0.0801, "8.01 %"), (0.998, "99.8 %")])
def test_only_all_is_a_hundred_percent(part: float, text: str) -> None:
    assert percent(part) == text


def test_thousands_stand_apart() -> None:
    assert [group_digits(number) for number in (999, 9999, 1_024_000)] == ["999", "9999", "1\u202f024\u202f000"]
