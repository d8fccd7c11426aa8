"""A condition on sizes that is told holds in every case of the run, or it is not told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.whereabouts import FailurePlace, check_place
from attnspec.engine.evidence import calls_at_other_sizes
from attnspec.engine.subject_run import SubjectRun
from attnspec.problems.problem import Recipe
from attnspec.record.boundaries import (
    ConditionStanding,
    condition_standing,
    conditions_needed_alone,
    keywords_in,
    lengths_in,
    meets_condition,
    weaken_boundary,
)
from attnspec.report.bugs import explain_bugs
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.outcomes import evidence, outcome
from helpers.planted import plant_mistake

LENGTHS = {"B": 2, "H": 6, "Hkv": 3, "T": 5, "S": 64, "D": 8, "Dv": 4}


@pytest.mark.parametrize(("condition", "is_met"), [
    ("S ≥ 64", True), ("S ≥ 65", False), ("33 ≤ S ≤ 63", False), ("33 ≤ S ≤ 64", True), ("S ≤ 15", False),
    ("T = 5", True), ("T (= S) = 5", None), ("T (= S) ≥ 6", False), ("D (= D) ≥ 8", True), ("T < S", True),
    ("T ≠ S", True), ("D > Dv + 3", True),
    ("D > Dv + 4", False), ("B·H ≥ 13", False), ("B·H ≥ 12", True), ("H/Hkv ≥ 2", True), ("Hkv ≥ 4", False),
    ("S is a multiple of 16", True), ("S is not a multiple of 16", False), ("T is one more than a multiple of 4", True),
    ("T is one less than a multiple of 4", False), ("T mod 4 = 1", True), ("D is not a power of two", False),
    ("T is not a multiple of 4 and ≥ 6", False), ("the moon is full", None)])
def test_a_condition_is_read_as_it_is_written(condition: str, is_met: bool | None) -> None:
    assert meets_condition(condition, LENGTHS) is is_met


def test_a_recipe_tells_its_lengths_and_what_is_given() -> None:
    text = "B1,H2,Hkv2,T3,S4,D5,Dv6;mask=random;families=normal;with=causal+bias;seed=1"
    assert lengths_in(text) == {"B": 1, "H": 2, "Hkv": 2, "T": 3, "S": 4, "D": 5, "Dv": 6}
    assert keywords_in(text) == {"causal", "bias", "mask"}
    assert keywords_in("B1,H2;mask=none;seed=1") == frozenset()


@pytest.mark.parametrize(("failing", "passing", "found"), [
    ([{"S": 65}, {"S": 90}], [{"S": 64}], ConditionStanding.DECIDES),
    ([{"S": 65}], [{"S": 90}], ConditionStanding.IS_NEEDED),
    ([{"S": 65}, {"S": 2}], [], ConditionStanding.CONTRADICTED)])
def test_a_boundary_stands_where_no_case_speaks_against_it(failing: list[dict[str, int]],
                                                           passing: list[dict[str, int]],
                                                           found: ConditionStanding) -> None:
    assert condition_standing("Fails where S ≥ 65; holds at S = 64.", failing, passing) is found


def test_what_holds_somewhere_within_is_told_as_needed_alone() -> None:
    words = weaken_boundary("Fails where S ≥ 65; holds at S = 64.")
    assert words == "Fails only where S ≥ 65 (not in every case); holds at S = 64."
    assert condition_standing(words, [{"S": 65}], []) is ConditionStanding.DECIDES
    assert conditions_needed_alone("Fails where D ≥ 5 and S ≥ 65; holds at S = 64.",
                                   [[{"S": 70, "D": 3}]]) == "fails where S ≥ 65"


def failure(clause: str, begins: str, sizes: str, given: str = "", calls: tuple[str, ...] = ()) -> object:
    recipe = f"{sizes};mask=none;families=normal;with={given};seed=1"
    seen = replace(evidence(10.0), begins=begins, calls=calls, recipe=recipe)
    return outcome(Verdict.VIOLATED, clause, seen=seen)


@pytest.mark.parametrize(("begins", "case", "says"), [
    ("Fails where S ≥ 5; holds at S = 4.", "B1,H1,Hkv1,T1,S2,D4,Dv4", ""),
    ("Fails where T is one more than a multiple of 16; holds at T = 16.", "B1,H1,Hkv1,T12,S2,D4,Dv4", ""),
    ("Fails where S ≥ 2 and D ≥ 5; holds at S = 1 and at D = 4.", "B1,H1,Hkv1,T1,S2,D4,Dv4", "fails where S ≥ 2")])
def test_no_cause_is_contradicted_by_a_case_of_its_own(begins: str, case: str, says: str) -> None:
    [group] = explain_bugs([failure("a.b", begins, case)])  # type: ignore[list-item]  # an outcome
    assert (group.cause.says if group.cause else "") == says


def test_a_case_of_another_group_that_is_given_no_more_contradicts_too() -> None:
    first = failure("a.b", "Fails where S ≥ 40; holds at S = 39.", "B1,H1,Hkv1,T1,S41,D4,Dv4", "causal")
    plain, other = (failure(f"a.{given}", "", "B1,H1,Hkv1,T1,S3,D4,Dv4", given) for given in ("", "bias"))
    assert [group.cause and group.cause.says for group in explain_bugs([first, other])] == [  # type: ignore[list-item]
        "fails where S ≥ 40", None]
    assert all(group.cause is None for group in explain_bugs([first, plain]))  # type: ignore[list-item]  # as above


def test_a_contradicted_boundary_is_told_as_far_as_it_stands() -> None:
    found = FailurePlace("Fails where S ≥ 65 and T ≥ 9; holds at S = 64 and at T = 8.")
    failing = "B1,H1,Hkv1,T9,S65,D4,Dv4;mask=none;families=normal;with=causal;seed=1"
    within = Recipe.parse(failing.replace("S65", "S90"))
    assert check_place(found, failing, []) == found
    assert check_place(found, failing,
                       [within]).begins.startswith("Fails only where S ≥ 65 and T ≥ 9 (not in every case")
    less = [within.text.replace(*each) for each in (("causal", "bias"), ("normal", "constant"), ("D4,Dv4", "D1,Dv1"))]
    assert check_place(found, failing, [Recipe.parse(each) for each in less]) == found  # these show less
    assert check_place(found, failing.replace("T9", "T3"), []).begins == "Fails where S ≥ 65."


@pytest.mark.parametrize(("clause", "calls"), [
    ("attention.definition", ()),
    ("masking.padding_is_truncation", ("B1 H1 Hkv1 T2 S6 D3 Dv3", "B1 H1 Hkv1 T2 S3 D3 Dv3"))])
def test_a_failure_says_which_calls_of_other_sizes_its_clause_makes(clause: str, calls: tuple[str, ...]) -> None:
    trial = Trial(checks()[clause], Evaluator(plant_mistake(lambda _: True), DType.FLOAT32), Effort.GLANCE, 0,
                  lambda _: None)
    case = "B1,H1,Hkv1,T2,S6,D3,Dv3;mask=none;families=normal;seed=1" + (";kept=2" if calls else "")
    assert calls_at_other_sizes(trial, Recipe.parse(case)) == calls


@pytest.mark.parametrize(("other", "begins"), [
    ("numerics.cancellation", "Fails only where S ≥ 17 (not in every case)"),
    ("attention.shape", "Fails where S ≥ 17")])
def test_a_case_that_holds_of_another_clause_weakens_a_boundary(
        other: str, begins: str) -> None:
    """The mistake comes with some calls only, which no case of the clause that fails shows."""
    is_wrong = [False]
    subject = plant_mistake(lambda sizes: is_wrong[0] and sizes.S > 16)
    run = SubjectRun(subject, Plan((subject.id,), effort=Effort.QUICK), lambda _: None, checks)
    holds, fails = (f"B1,H1,Hkv1,T4,S40,D5,Dv5;mask=none;families=normal;seed={seed}" for seed in (1, 2))
    assert run.replay(checks()[other], DType.FLOAT32, holds).verdict is Verdict.HELD
    is_wrong[0] = True
    evidence = run.replay(checks()["attention.definition"], DType.FLOAT32, fails).evidence
    assert evidence
    assert evidence.begins.partition(";")[0].rstrip(".") == begins


def test_a_case_of_a_clause_that_calls_at_other_sizes_contradicts_nothing() -> None:
    begins = "Fails where D ≥ 65; holds at D = 64."
    first = failure("scale.read_out", begins, "B1,H1,Hkv1,T1,S2,D65,Dv1")
    for clause, calls, says in (("scale.inverse_root_width", ("B1 H1 Hkv1 T1 S2 D66 Dv1",), "fails where D ≥ 65"),
                                ("scale.explicit", (), None)):
        wider = failure(clause, "", "B1,H1,Hkv1,T1,S2,D33,Dv1", calls=calls)
        groups = explain_bugs([first, wider])  # type: ignore[list-item]  # outcomes
        assert (groups[0].cause and groups[0].cause.says) == says
