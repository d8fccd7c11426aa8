"""Where a failure begins: in sizes, as a condition on the axes, and in the answer, as ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis import whereabouts
from attnspec.diagnosis.boundaries import describe_ranges, find_boundary
from attnspec.diagnosis.conditions import Boundary, LengthCondition, LengthRule, narrow_condition
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.subject import fault_subject
from attnspec.problems.problem import Array, Recipe, Sizes
from attnspec.record.outcome import Outcome
from attnspec.runner.judge import format_violation, summarise_outcome
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.sizes import Resizer
from attnspec.trials.trial import Trial, describe_case
from helpers.planted import (
    Wrong,
    half_scale,
    last_row_wrong,
    less_with_more_keys,
    plant_mistake,
    raise_refusal,
    some_heads_wrong,
)

SPEC = load_spec()
CHECKS = compile_spec(SPEC)
DEFINITION = CHECKS["attention.definition"]

# what is planted, the sizes of the case that fails, and what is said of it
PLANTED: tuple[tuple[Callable[[Sizes], object], tuple[int, ...], str], ...] = (
    (lambda s: s.T > 64, (2, 4, 4, 129, 77, 64, 48), "T ≥ 65; holds at T = 64"),
    (lambda s: s.T >= 64, (2, 4, 4, 129, 129, 64, 64), "T ≥ 64; holds at T = 63"),
    (lambda s: s.S > 512, (2, 4, 4, 3, 700, 64, 48), "S ≥ 513; holds at S = 512"),
    (lambda s: s.D > 128, (2, 4, 4, 29, 96, 160, 48), "D ≥ 129; holds at D = 128"),
    (lambda s: s.B >= 3, (5, 6, 6, 10, 17, 16, 8), "B ≥ 3; holds at B = 2"),
    (lambda s: s.H > 6, (2, 8, 4, 10, 17, 16, 8), "H ≥ 7; holds at H = 6"),
    (lambda s: s.Hkv > 2, (2, 8, 4, 10, 17, 16, 8), "Hkv ≥ 3; holds at Hkv = 2"),
    (lambda s: s.H // s.Hkv > 2, (2, 8, 2, 10, 17, 16, 8), "H/Hkv ≥ 3; holds at H/Hkv = 2"),
    (lambda s: s.S % 16, (2, 4, 4, 29, 77, 64, 48), "S is not a multiple of 16; holds at S = "),
    (lambda s: s.S % 16 == 0, (2, 4, 4, 29, 96, 64, 48), "S is a multiple of 16; holds at S = "),
    (lambda s: s.S % 64 == 1, (2, 4, 4, 29, 129, 64, 48), "S is one more than a multiple of 64; holds at S = "),
    (lambda s: s.S % 64 == 63, (2, 4, 4, 29, 127, 64, 48), "S is one less than a multiple of 64; holds at S = "),
    (lambda s: s.S > 16 and s.S % 16, (2, 4, 4, 29, 77, 64, 48), "S is not a multiple of 16 and ≥ 17; holds at S = "),
    (lambda s: s.H % 4, (2, 6, 6, 10, 17, 16, 8), "H is not a multiple of 4; holds at H = "),
    (lambda s: s.D & (s.D - 1), (2, 4, 4, 29, 96, 80, 48), "D is not a power of two; holds at D = "),
    (lambda s: s.D == 96, (2, 4, 4, 29, 96, 96, 48), "D = 96; holds at D = 9"),
    (lambda s: s.T == 1, (2, 4, 4, 1, 96, 64, 48), "T = 1; holds at T = 2"),
    (lambda s: s.S < 16, (2, 4, 4, 10, 9, 16, 8), "S ≤ 15; holds at S = 16"),
    (lambda s: 33 <= s.S <= 63, (2, 4, 4, 10, 50, 16, 8), "33 ≤ S ≤ 63; holds at S = 64"),
    (lambda s: s.T > s.S, (2, 6, 6, 40, 17, 16, 8), "T > S; holds at T = S"),
    (lambda s: s.T != s.S, (2, 6, 6, 10, 17, 16, 8), "T ≠ S; holds at T = S"),
    (lambda s: s.T == s.S, (2, 6, 6, 17, 17, 16, 8), "T = S; holds at T ≠ S"),
    (lambda s: s.T == s.S > 128, (2, 6, 6, 150, 150, 16, 8), "T = S and S ≥ 129; holds at T ≠ S and at S = 128"),
    (lambda s: s.T > s.S > 64, (2, 6, 6, 140, 90, 16, 8), "T > S and S ≥ 65; holds at T = S and at S = 64"),
    (lambda s: s.T >= s.S >= 32, (2, 6, 6, 90, 90, 16, 8), "T ≥ S and S ≥ 32; holds at T < S and at S = 31"),
    (lambda s: s.T == s.S and s.T % 16, (2, 6, 6, 45, 45, 16, 8), "T = S and S is not a multiple of 16"),
    (lambda s: s.Dv < s.D, (2, 4, 4, 29, 96, 64, 48), "D > Dv; holds at D = Dv"),
    (lambda s: s.Dv > 64 and s.Dv != s.D, (2, 4, 4, 9, 11, 16, 96), "D ≠ Dv and Dv ≥ 65; holds at D = Dv and at "),
    (lambda s: s.T == 1 and s.S > 32, (2, 4, 4, 1, 96, 64, 48), "T = 1 and S ≥ 33; holds at T = 2 and at S = 32"),
    (lambda s: s.D > 64 and s.T > 32, (2, 4, 4, 60, 77, 80, 48), "D ≥ 65 and T ≥ 33; holds at D = 64 and at T = 32"),
    (lambda s: s.T < s.S > 64, (2, 6, 6, 10, 129, 16, 8), "T < S and S ≥ 65; holds at T = S and at S = 64"),
    (lambda s: s.B * s.H > 12, (4, 6, 6, 10, 17, 16, 8), "B·H ≥ 13; holds at B·H = 12"),
    (lambda s: s.B * s.H > 16 and s.B > 1 and s.H > 1, (4, 8, 8, 10, 17, 16, 8), "B·H ≥ 18; holds at B·H = 16"),
    (lambda s: s.B * s.H > 20 and s.B > 1 and s.H > 1, (4, 8, 8, 10, 17, 16, 8), "B·H ≥ 21; holds at B·H = 20"),
    (lambda s: s.B * s.H > 64, (9, 16, 4, 10, 17, 16, 8), "B·H ≥ 65; holds at B·H = 64"),
    (lambda s: s.B * s.Hkv > 8, (4, 6, 3, 10, 17, 16, 8), "B·Hkv ≥ 9; holds at B·Hkv = 8"),
    (lambda s: s.H * s.D > 512, (2, 12, 12, 29, 77, 64, 48), "H·D ≥ 513; holds at H·D = 512"))


def trial_of(subject: Subject, clause: str = "attention.definition") -> Trial:
    return Trial(CHECKS[clause], Evaluator(subject, DType.FLOAT32), Effort.QUICK, 0, lambda _: None)


def recipe(sizes: tuple[int, ...], families: str = "normal+integers") -> Recipe:
    axes = ",".join(f"{name}{size}" for name, size in zip(("B", "H", "Hkv", "T", "S", "D", "Dv"), sizes, strict=True))
    return Recipe.parse(f"{axes};mask=none;families={families};seed=91")


def resizer(subject: Subject, sizes: tuple[int, ...], *, most: int = 60,
            failure: type[Violated | SubjectRaised] = Violated) -> Resizer:
    trial = trial_of(subject)
    limits = subject.declaration.limits
    return Resizer(trial.judge_recipe, recipe(sizes), DEFINITION.domain, limits, most, 1e9, 60.0, failure, 4)


def located(subject: Subject, sizes: tuple[int, ...]) -> Boundary:
    boundary = find_boundary(resizer(subject, sizes))
    assert boundary
    return boundary


@pytest.mark.family(15)
@pytest.mark.parametrize(("condition", "sizes", "said"), PLANTED, ids=[said for _, _, said in PLANTED])
def test_what_is_planted_is_said(condition: Callable[[Sizes], object], sizes: tuple[int, ...], said: str) -> None:
    assert located(plant_mistake(condition), sizes).sentence.startswith(f"Fails where {said}")


@pytest.mark.family(4)
@pytest.mark.parametrize("wrong", [half_scale, last_row_wrong])
@pytest.mark.parametrize(("condition", "sizes", "said"), [PLANTED[n] for n in (0, 4, 8, 24, 26)])
def test_whatever_is_wrong_there_the_boundary_is_the_same(condition: Callable[[Sizes], object], sizes: tuple[int, ...],
                                                          said: str, wrong: Wrong) -> None:
    assert located(plant_mistake(condition, wrong), sizes).sentence.startswith(f"Fails where {said}")


@pytest.mark.parametrize(("condition", "sizes", "said"), [
    (lambda s: s.T < s.S, (1, 2, 2, 6, 17, 8, 8), "Fails where T < S; holds at T > S."),
    (lambda s: s.T != s.S, (1, 2, 2, 6, 17, 8, 8), "")])
def test_lengths_are_compared_where_a_clause_has_no_case_with_both_alike(
        condition: Callable[[Sizes], object], sizes: tuple[int, ...], said: str) -> None:
    subject, clause = plant_mistake(condition), CHECKS["causal.alignment"]
    case = replace(recipe(sizes, "normal"), features=frozenset({"causal"}))
    trial = trial_of(subject, clause.clause.id)
    boundary = find_boundary(Resizer(trial.judge_recipe, case, clause.domain, subject.declaration.limits, 60, 1e9, 60.0,
                                     Violated, 4))
    assert boundary
    assert boundary.sentence == said


def test_heads_are_counted_as_heads_where_a_clause_has_groups_alone() -> None:
    subject, clause = plant_mistake(lambda s: s.B * s.H > 12), CHECKS["grouped.definition"]
    trial, case = trial_of(subject, clause.clause.id), recipe((4, 8, 4, 3, 5, 4, 4))
    boundary = find_boundary(Resizer(trial.judge_recipe, case, clause.domain, subject.declaration.limits, 60, 1e9, 60.0,
                                     Violated, 4))
    assert boundary
    assert boundary.sentence == "Fails where B·H ≥ 13; holds at B·H = 12."


def test_what_fails_everywhere_begins_nowhere() -> None:
    assert located(plant_mistake(lambda _: True), (2, 4, 4, 29, 77, 64, 48)).sentence == ""


def test_that_few_keys_or_features_show_no_mistake_is_not_said() -> None:
    assert located(plant_mistake(lambda _: True, half_scale), (2, 4, 4, 29, 77, 64, 48)).sentence == ""


def test_a_mistake_that_fades_into_rounding_ends_at_no_length() -> None:
    sizes = (2, 2, 2, 5, 7, 8, 8)
    assert "≤" not in located(plant_mistake(lambda _: True, less_with_more_keys), sizes).sentence
    ends = plant_mistake(lambda s: s.S < 64, less_with_more_keys)
    assert located(ends, sizes).sentence == "Fails where S ≤ 63; holds at S = 64."


def test_a_length_that_holds_by_chance_makes_no_rule() -> None:
    cases: list[int] = []

    def is_wrong(sizes: Sizes) -> bool:
        cases.append(sizes.S)
        return sizes.S > 512 and not (sizes.S == 1536 and cases.count(1536) <= 2)  # the first two happen to hold

    sentence = located(plant_mistake(is_wrong), (2, 2, 2, 3, 700, 4, 4)).sentence
    assert sentence == "Fails where S ≥ 513; holds at S = 512."


@pytest.mark.family(2)
@pytest.mark.parametrize("seed", range(6))
def test_that_few_heads_happen_to_hold_is_not_said(seed: int) -> None:
    often = replace(recipe((6, 8, 8, 9, 11, 8, 8), "normal"), seed=seed)
    boundary = find_boundary(replace(resizer(plant_mistake(lambda _: True, some_heads_wrong), (6, 8, 8, 9, 11, 8, 8)),
                                     recipe=often))
    assert boundary is None or boundary.sentence == ""


def test_an_exception_that_begins_at_a_size_is_located_too() -> None:
    boundary = find_boundary(resizer(plant_mistake(lambda s: s.T > 64, raise_refusal), (2, 4, 4, 129, 77, 64, 48),
                                     failure=SubjectRaised))
    assert boundary
    assert boundary.sentence == "Fails where T ≥ 65; holds at T = 64."


def test_a_wrong_answer_is_not_located_by_exceptions() -> None:
    def either(sizes: Sizes) -> bool:
        if sizes.T < 32:
            raise RuntimeError("no block so short")
        return sizes.T > 64

    boundary = located(plant_mistake(either), (2, 4, 4, 129, 77, 64, 48))
    assert boundary.sentence == "Fails where T ≥ 65; holds at T = 64."


def test_a_case_that_does_not_fail_again_is_not_located() -> None:
    assert find_boundary(resizer(plant_mistake(lambda _: False), (2, 4, 4, 29, 77, 64, 48))) is None


@pytest.mark.parametrize("most", [4, 9, 16, 30])
def test_no_more_sizes_are_put_than_allowed_and_no_rule_is_claimed_of_them(most: int) -> None:
    few = resizer(plant_mistake(lambda s: s.D == 96), (2, 4, 4, 29, 96, 96, 48), most=most)
    boundary = find_boundary(few)
    assert few.tried_count <= most
    assert boundary
    assert "≥" not in boundary.sentence


def test_a_boundary_found_with_few_sizes_says_so() -> None:
    boundary = find_boundary(resizer(plant_mistake(lambda s: s.T > 64), (2, 4, 4, 129, 77, 64, 48), most=11))
    assert boundary
    assert boundary.sentence == "Fails at T = 65; holds at T = 64 (few other sizes were tried)."


def test_no_sizes_are_put_that_cost_more_than_is_left() -> None:
    poor = resizer(plant_mistake(lambda _: True), (2, 4, 4, 29, 77, 64, 48))
    poor.work_left = 1e5
    assert poor.fails(Sizes(2, 4, 4, 29, 76, 64, 48)) is None
    assert poor.fails(Sizes(1, 1, 1, 4, 4, 4, 4)) is True


def test_lengths_that_no_rule_explains_are_told_as_they_are() -> None:
    known = {8: False, 9: True, 10: True, 11: False, 12: True}
    assert narrow_condition(known, 9, 12, lambda _: None) is None


def test_the_likeliest_rule_is_found_by_few_lengths() -> None:
    put: list[int] = []

    def fails(length: int) -> bool:
        put.append(length)
        return length % 48 == 0

    assert narrow_condition({96: True, 95: False, 4: False}, 96, 512, fails) == LengthCondition(LengthRule.MULTIPLE, 48)
    assert len(put) < 16


# Ranges


def wrong(*shape: int, at: Any) -> Array:  # noqa: ANN401  (any index of NumPy's)
    entries: Array = np.zeros(shape, bool)
    entries[at] = True
    return entries


ALL = slice(None)


@pytest.mark.parametrize(("entries", "said"), [
    (wrong(2, 4, 129, 8, at=(ALL, ALL, slice(64, None))), "rows 64 to 128 of every head"),
    (wrong(2, 4, 9, 8, at=(ALL, 3, -1)), "the last row of the last head"),
    (wrong(2, 4, 9, 8, at=(1,)), "the last batch entry"),
    (wrong(5, 4, 9, 8, at=([2, 3],)), "batch entries 2 to 3"),
    (wrong(2, 4, 9, 8, at=(ALL, 1)), "head 1"),
    (wrong(2, 4, 9, 160, at=(..., slice(128, None))), "columns 128 to 159 of every head"),
    (wrong(2, 4, 9, 8, at=(ALL, ALL, slice(0, None, 2))), "every second row from 0 to 8 of every head"),
    (wrong(2, 4, 9, 8, at=(0, 1, slice(3, 5), 7)), "the last column of rows 3 to 4 of head 1 of batch entry 0"),
    (wrong(2, 4, 9, 8, at=(ALL, ALL, [1, 4, 5])), "rows 1, 4 and 5 of every head"),
    (wrong(2, 1, 40, 8, at=(ALL, ALL, [1, 4, 5, 9, 30])), "5 of 40 rows, 1 to 30"),
    (wrong(2, 4, 9, 8, at=(ALL,)), "every entry"),
    (np.eye(9, dtype=bool)[None, None], "some entries, spread over all of it")])
def test_wrong_entries_are_told_as_ranges(entries: Array, said: str) -> None:
    assert describe_ranges(entries, ("B", "H", "T", "Dv")) == said


def test_ranges_of_a_layer_speak_of_no_heads() -> None:
    assert describe_ranges(wrong(2, 9, 8, at=(ALL, slice(4, None))), ("B", "T", "M")) == "rows 4 to 8"


# In a finding


def outcome(subject: Subject, *, effort: Effort = Effort.QUICK, clause: str = "attention.definition") -> Outcome:
    plan = Plan(targets=(subject.id,), effort=effort)
    return SubjectRun(subject, plan, lambda _: None).replay(
        CHECKS[clause], DType.FLOAT32, recipe((1, 2, 2, 33, 17, 16, 8)).text)


def test_a_finding_says_first_where_it_begins() -> None:
    found = outcome(plant_mistake(lambda s: s.T > 16, last_row_wrong))
    lines = format_violation(found, says="", where="here").split("\n")
    assert found.verdict is Verdict.VIOLATED
    assert lines[1] == "  begins: Fails where T ≥ 17; holds at T = 16."
    assert lines[2] == "  wrong: At B=2 H=2 Hkv=2 T=34 S=6 D=6 Dv=6: the last row of every head."
    assert summarise_outcome(found).startswith(
        "attention.definition is violated: Fails where T ≥ 17; holds at T = 16. output")


def test_at_a_glance_the_first_failure_alone_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    # however busy the machine is
    monkeypatch.setattr(whereabouts, "BRIEF_BUDGET", replace(whereabouts.BRIEF_BUDGET, seconds=inf))
    subject = plant_mistake(lambda s: s.T > 16)
    run = SubjectRun(subject, Plan(targets=(subject.id,), effort=Effort.GLANCE), lambda _: None)
    case = recipe((1, 2, 2, 33, 17, 16, 8)).text
    first, second = (run.replay(CHECKS[clause], DType.FLOAT32, case)
                     for clause in ("attention.definition", "attention.convex_hull"))
    assert first.evidence
    assert second.evidence
    assert first.evidence.begins == "Fails where T ≥ 17; holds at T = 16."
    assert second.evidence.begins == ""


def test_a_failure_that_begins_at_known_sizes_costs_a_few_cases() -> None:
    calls: list[Sizes] = []

    def counted(sizes: Sizes) -> bool:
        calls.append(sizes)
        return sizes.T > 16

    subject = plant_mistake(counted)
    place = whereabouts.FailureLocator().locate_failure
    trial, case = trial_of(subject), recipe((1, 2, 2, 33, 17, 16, 8))
    first = place(trial, case, Violated)
    before = len(calls)
    again = place(trial_of(subject), replace(case, seed=5), Violated)
    assert first.begins == again.begins == "Fails where T ≥ 17; holds at T = 16."
    assert len(calls) - before < 12 < before


@pytest.mark.parametrize(("condition", "sizes"), [
    (lambda s: s.B * s.H > 12, (4, 6, 6, 10, 17, 16, 8)), (lambda s: s.T > s.S, (2, 6, 6, 40, 17, 16, 8)),
    (lambda s: s.T > s.S + 3, (2, 6, 6, 40, 17, 16, 8))])
def test_two_sizes_are_not_told_of_what_fails_everywhere(
        condition: Callable[[Sizes], object], sizes: tuple[int, ...]) -> None:
    found, case = whereabouts.FailureLocator(), recipe(sizes)
    assert found.locate_failure(trial_of(plant_mistake(condition)), case, Violated).begins.startswith("Fails where")
    assert found.locate_failure(trial_of(plant_mistake(lambda _: True)), case, Violated).begins == ""


def test_what_goes_wrong_in_locating_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.diagnosis.whereabouts.find_boundary", lambda _: 1 / 0)
    found = outcome(plant_mistake(lambda s: s.T > 16))
    assert found.verdict is Verdict.VIOLATED
    assert found.evidence
    assert found.evidence.begins == ""


def test_a_case_says_how_long_a_past_is_and_which_lengths_there_are() -> None:
    case = recipe((3, 2, 2, 2, 7, 4, 4))
    used = replace(case, features=frozenset({"past_key", "past_value", "key_lengths", "sinks"}),
                   values={"past_key": "half", "key_lengths": "first_full", "sinks": "zero"})
    subject = fault_subject("past_not_in_lengths")
    outcome = SubjectRun(subject, Plan(targets=(subject.id,), effort=Effort.GLANCE), lambda _: None).replay(
        CHECKS["past.lengths_count_it"], DType.FLOAT32, used.text)
    assert outcome.evidence
    assert "float32 key_lengths=first_full (7, " in outcome.evidence.case
    assert " past_key=half (P=3 of S) past_value sinks=zero, entries " in outcome.evidence.case


def test_a_case_writes_out_eight_lengths_and_no_more() -> None:
    case = replace(recipe((10, 2, 2, 2, 7, 4, 4)), features=frozenset({"key_lengths"}), values={"key_lengths": "full"})
    subject = fault_subject("key_lengths_ignored")
    trial = trial_of(subject, "lengths.definition")
    assert "key_lengths=full (7, 7, 7, 7, 7, 7, 7, 7, …), entries" in describe_case(trial, case)
