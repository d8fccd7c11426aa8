"""What the relations of a clause measure makes a verdict on the case: the worst decides, beyond 1 it is violated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Recipe
from attnspec.record.outcome import Measured
from attnspec.subjects.call import UnusableAnswer
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import CaseJudge, Tally, Violated
from attnspec.vocabulary.scene import Scene
from helpers.law import checks

CASE = Recipe.parse("B1,H2,Hkv2,T3,S4,D4,Dv4;mask=none;families=normal;seed=1")


def measured(margin: float, claimed: int = 1) -> Measured:
    return Measured("stub", f"margin {margin}", margin, margin, 1.0, 0.0, 0.0, (), 1, claimed)


def judged(*answers: Measured | Exception) -> Tally:
    """The tally of one case, by a clause whose relations measure this or raise that."""
    def relation(answer: Measured | Exception) -> Any:  # noqa: ANN401  (it stands for a bound word)
        def measure(scene: Scene, drawn: Mapping[str, object]) -> Measured:  # noqa: ARG001  (a relation's)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return measure

    check = replace(checks()["attention.definition"], then=tuple(map(relation, answers)))
    evaluator = Evaluator(own_subject("sound/naive"), DType.FLOAT32)
    return CaseJudge(check, evaluator, Effort.QUICK, 0, lambda _: None).judge_recipe(CASE)


def test_a_case_without_others_has_the_whole_rate_of_false_alarms() -> None:
    evaluator = Evaluator(own_subject("sound/naive"), DType.FLOAT32)
    judging = CaseJudge(checks()["attention.definition"], evaluator, Effort.QUICK, 0, lambda _: None)
    assert judging.scene(CASE).cases == 1


@pytest.mark.parametrize("margin", [0.0, 0.5, 1.0])
def test_what_lies_within_its_allowance_holds(margin: float) -> None:
    tally = judged(measured(margin))
    assert tally.failure is None
    assert (tally.cases, tally.held_recipes) == (1, [CASE])


@pytest.mark.parametrize("margin", [math.nextafter(1, 2), 1.5, math.inf])
def test_what_lies_beyond_is_violated(margin: float) -> None:
    tally = judged(measured(margin))
    assert isinstance(tally.failure, Violated)
    assert tally.failure.measured.margin == margin
    assert (tally.cases, tally.held_recipes) == (1, [])


@pytest.mark.parametrize("margins", [(0.5, 3.0, 2.0), (3.0, 0.5, 2.0), (0.5, 2.0, 3.0)])
def test_the_worst_of_several_relations_decides_wherever_it_stands(margins: tuple[float, ...]) -> None:
    failure = judged(*map(measured, margins)).failure
    assert isinstance(failure, Violated)
    assert failure.measured.margin == 3.0


def test_a_case_of_which_nothing_is_claimed_is_none_that_held() -> None:
    tally = judged(measured(0.0, claimed=0))
    assert (tally.cases, tally.no_claims, tally.held_recipes) == (0, 1, [])


def test_an_answer_that_cannot_be_used_is_violated() -> None:
    failure = judged(UnusableAnswer("a string")).failure
    assert isinstance(failure, Violated)
    assert failure.measured.sentence == "a string"
