"""The benchmark of bugs: a seed draws them, a first line is held against the bug and against every case of its run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attnspec.core.nouns import DType, Verdict
from attnspec.record.outcome import Likeness
from bugs import BugJudged, drawn_targets, is_borne_out, read_line
from held_against import Case, Posed, contradictions
from helpers.outcomes import evidence, outcome
from mistakes import TRUTHS

CASE = "B1,H1,Hkv1,T3,S70,D4,Dv4;mask=none;families=normal;with=causal;seed=1"
SEEN = replace(evidence(10.0), recipe=CASE)


def test_a_seed_draws_the_same_bugs_always_and_one_in_four_is_of_sizes() -> None:
    drawn = drawn_targets(100, 1)
    assert drawn == drawn_targets(100, 1) != drawn_targets(100, 2)
    assert [at % 4 for at, target in enumerate(drawn) if "@" in target] == [3] * 25
    assert len(drawn) == 100 + len(TRUTHS)


def case(**lengths: int) -> Case:
    names = {"B": 1, "H": 1, "Hkv": 1, "T": 3, "S": 70, "D": 4, "Dv": 4, **lengths}
    return Case(f"{','.join(f'{axis}{size}' for axis, size in names.items())};{CASE.partition(';')[2]}", DType.FLOAT32,
                clause="attention.definition")


@pytest.mark.parametrize(("words", "failing", "passing", "contradicted"), [
    ("Likely one bug: fails where S ≥ 65 (explains 1 of 1)", case(), case(S=64), 0),
    ("Likely one bug: fails where S ≥ 65 (explains 1 of 1)", case(S=9), case(S=64), 1),
    ("Likely one bug: fails where S ≥ 65 and T = 3 (explains 1 of 1)", case(), case(S=99), 1),
    ("Likely one bug: fails only where S ≥ 65 (explains 1 of 1)", case(), case(S=99), 0),
    ("Likely one bug: fails where S > T + 66, with causal (explains 1 of 1)", case(), case(S=64), 0),
    ("Likely one bug: fails where S > T + 67, with mask (explains 1 of 1)", case(), case(S=64), 2),
    ("Likely one bug: all is lost, where B ≥ 2 (`lost`, explains 1 of 1)", case(), case(), 1),
    ("Likely: the answer is wrong here, and right once mask or causal is left out", case(), case(), 1),
    ("Likely: the answer is wrong where the largest logit is 900 or more, and right", case(), case(), 1),
    ("Likely: the answer is wrong where the largest logit is 0.1 or more, and right", case(), case(), 0)])
def test_a_first_line_is_held_against_every_case(words: str, failing: Case, passing: Case, contradicted: int) -> None:
    assert len(list(contradictions(words, [failing], [passing]))) == contradicted


def test_a_case_speaks_for_a_boundary_if_any_call_of_it_does() -> None:
    halves = replace(case(S=40), calls=(Posed({"S": 40}, ()), Posed({"S": 80}, ("mask",))))
    assert not list(contradictions("Likely one bug: fails where S ≥ 65, with mask (explains 1 of 1)", [halves], []))


def test_a_clause_that_asks_less_speaks_against_what_it_says_itself_alone() -> None:
    words, begins = "Likely one bug: fails where S ≥ 65 (explains 1 of 1)", "Fails where S ≥ 65; holds at S = 64."
    failed, held = (replace(each, clause="attention.additive_in_values") for each in (case(), case(S=99)))
    assert not list(contradictions(words, [failed], [held]))
    assert list(contradictions(words, [replace(failed, begins=begins)], [held]))


def judge_bug(fault: str, *like: Likeness, target: str = "fault/mask_of_first_batch") -> BugJudged:
    seen = replace(SEEN, like=(Likeness(fault, "mask", "The mask is lost.", "", 2, 2), *like))
    return BugJudged(target, (outcome(Verdict.VIOLATED, "a.b", seen=seen),))


def test_a_bug_is_named_by_its_fault_or_by_one_that_answers_as_it_does() -> None:
    alike = Likeness("mask_of_first_batch", "mask", "The mask is dropped.", "", 2, 2)
    assert judge_bug("mask_of_first_batch").is_named
    assert judge_bug("mask_inverted", alike).is_named
    assert not judge_bug("mask_inverted", replace(alike, agreed=1)).is_named
    assert not judge_bug("mask_inverted").is_named


def test_a_bug_of_sizes_is_named_by_what_was_planted() -> None:
    begins = "Fails where D is not a multiple of 64 and ≥ 65; holds at D = 128."
    [found] = judge_bug("size_scale_of_tiles", target="fault/size_scale_of_tiles").outcomes
    seen = replace(found.evidence or SEEN, begins=begins, recipe=CASE.replace("D4", "D65"))
    told = BugJudged("fault/size_scale_of_tiles", (replace(found, evidence=seen),))
    assert told.is_named
    assert not BugJudged("fault/size_scale_of_tiles", (found,)).is_named


def test_a_record_gives_back_what_was_judged_and_is_held_to_the_claim() -> None:
    right, wrong = judge_bug("mask_of_first_batch"), judge_bug("mask_inverted")
    assert read_line(right.as_line()) == right
    assert is_borne_out([right] * 9 + [wrong])
    assert not is_borne_out([right] * 8 + [wrong] * 2)
