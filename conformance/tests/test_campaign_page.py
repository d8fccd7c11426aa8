"""The page and the picture of a campaign for false alarms: what they show of made-up blocks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged, RunFinished, SubjectKnown
from attnspec.record.outcome import Measured, SubjectCard
from attnspec.record.read import RunRecord
from evaluation import PROGRAM
from evaluation.false_alarms.bins import ACCUSING, bin_of
from evaluation.report.drawing import write_campaign_picture
from evaluation.report.false_alarms import BIN, HEIGHT, LIMIT, columns, margins
from evaluation.report.page import render
from helpers.pages import spaced_words
from helpers.records import run_started

F32, F16 = DType.FLOAT32, DType.FLOAT16


def counted(*worst: float) -> tuple[int, ...]:
    """A histogram of these margins."""
    bins = [bin_of(margin) for margin in worst]
    return tuple(bins.count(place) for place in range(HISTOGRAM_BINS))


def closest(margin: float) -> Measured:
    return Measured("agree", "they agree", margin, 1e-7, 2e-7, 1.0, 1.0, (0, 0), 9, 9)


def block(number: int = 0, *worst: float, subject: str = "lib/plain", dtype: DType = F32) -> BlockJudged:
    found = worst or (0.25, 0.5)
    return BlockJudged(
        subject, dtype, number, cases=len(found), slices=8 * len(found), no_claims=1,
        violations=sum(margin > 1 for margin in found), histogram=counted(*found), worst=closest(max(found)),
        clause=f"core.at_{number}", recipe=f"B{number}")


def record_of(*blocks: BlockJudged) -> RunRecord:
    header = run_started(command=(PROGRAM, "campaign"), effort="thorough", items=len(blocks))
    card = SubjectKnown(SubjectCard("lib/plain", "", "attention", "lib", "1.5", "", {}, {}, {}, ()))
    return RunRecord(header, (card,), (), RunFinished("", 60.0, {}, 0), blocks=blocks)


def shown(*blocks: BlockJudged) -> str:
    return spaced_words(render([record_of(*blocks)]))


def test_blocks_of_a_subject_and_dtype_add_up_to_their_closest_call() -> None:
    (row,) = margins((block(0, 0.2, 0.4), block(1, 0.9, 0.1), block(2, 0.3)))
    assert (row.blocks, row.cases, row.slices, row.no_claims, row.violations) == (3, 5, 40, 3, 0)
    assert (row.margin, row.clause, row.recipe) == (0.9, "core.at_1", "B1")
    assert row.histogram == counted(0.2, 0.4, 0.9, 0.1, 0.3)


def test_a_margin_that_is_not_a_number_is_the_closest_call_of_all() -> None:
    (row,) = margins((block(0, 0.9), replace(block(1), worst=closest(math.nan))))
    assert (row.margin, row.clause) == (math.inf, "core.at_1")


def test_a_block_that_was_lost_adds_nothing_and_is_told() -> None:
    lost = BlockJudged("lib/plain", F32, 1, 0, 0, 0, 0, (), lost="the worker died")
    (row,) = margins((block(0, 0.9), lost))
    assert (row.cases, row.lost) == (1, ("the worker died",))
    page = render([record_of(block(0, 0.9), lost, replace(lost, dtype=F16))])
    assert "Blocks of these could not be judged: the worker died 1 implementation lib/plain f32 f16" in (
        spaced_words(page))
    assert '<h1 class="verdict idle">0 violations in 1 case<' in page
    assert page.count('<path class="fine"') == 1


def test_the_headline_counts_violations_and_cases() -> None:
    page = shown(block(0, 0.2, 0.4), block(0, 0.9, dtype=F16), replace(block(0, 0.1, subject="z/other"), cases=12_345))
    assert "0 violations in 12 348 cases" in page
    assert "closest 0.9, lib/plain at f16" in page
    assert "1 violation in 2 cases" in shown(block(0, 0.2, 3.0))


def test_only_a_whole_campaign_is_called_good() -> None:
    whole = record_of(block())
    assert '<h1 class="verdict good">' in render([whole])
    assert '<h1 class="verdict bad">' in render([record_of(block(0, 3.0))])
    assert '<h1 class="verdict idle">' in render([replace(whole, footer=None)])


def test_an_accusation_comes_with_the_line_that_repeats_it() -> None:
    accused = replace(block(0, 3.0), accused=("attnspec replay 'lib/plain core.a float32 B1'",))
    page = render([record_of(accused)])
    assert "lib/plain at float32: 1 violation." in spaced_words(page)
    assert "attnspec replay &#39;lib/plain core.a float32 B1&#39;" in page


def test_known_findings_stand_apart_from_accusations() -> None:
    listed = (replace(block(number), known={"a scale of 0 or below": 3}, problems=5) for number in range(2))
    page = shown(*listed)
    assert "lib/plain f32: a scale of 0 or below (6 cases)" in page
    assert "0 violations in 4 cases" in page
    assert "problems at least 10 distinct" in page


def test_every_subject_has_a_histogram_a_dtype_and_a_line_in_the_table() -> None:
    page = render([record_of(block(), block(dtype=F16), block(0, 0.9, subject="z/other"))])
    assert page.count('<path class="fine"') == 3
    assert 'aria-label="z/other float32: 1 case, closest 0.9"' in page
    assert "lib/ plain lib 1.5" in spaced_words(page)
    assert "not judged" in spaced_words(page)
    assert "z/other f32 0.9 core.at_0 B0 1 8 1 0" in spaced_words(page)


def test_a_block_told_in_two_records_counts_once() -> None:
    assert "0 violations in 2 cases" in spaced_words(render([record_of(block()), record_of(block())]))


def test_a_histogram_is_drawn_on_both_sides_of_the_line() -> None:
    drawn = counted(0.0, 0.0, 0.99, 1.0, 1.01, math.nan)
    fine, beyond = (columns(drawn, 2, beyond=which) for which in (False, True))
    assert fine == f"M0 {HEIGHT}v-36.0h4v36.0zM{LIMIT - BIN} {HEIGHT}v-36.0h4v36.0z"
    assert beyond == f"M{LIMIT} {HEIGHT}v-7.2h4v7.2zM{(HISTOGRAM_BINS - 1) * BIN} {HEIGHT}v-7.2h4v7.2z"
    assert ACCUSING * BIN == LIMIT


def test_what_a_campaign_holds_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    page = render([record_of(replace(block(0, 3.0, subject=evil), clause=evil, recipe=evil, accused=(evil,), lost=evil,
                                 known={evil: 1}))])
    assert "<img" not in page
    assert page.count("<script>") == 1


def test_the_picture_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "campaign.svg"
    write_campaign_picture(record_of(block(0, 0.2, 0.9), block(dtype=F16)), path)
    drawn = ElementTree.parse(path).getroot()
    text = " ".join(drawn.itertext())
    assert "0 violations in 4 cases" in text
    assert "lib/plain float32: 2 cases, closest 0.9." in text
    assert len(drawn.findall(".//{*}path[@class='fine']")) == 2


def test_a_record_without_a_campaign_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no campaign for false alarms, so there is nothing to draw"):
        write_campaign_picture(record_of(), tmp_path / "campaign.svg")
