"""What decides beside lengths is told as itself: a place behind a past, a given length, pages, a window, a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.diagnosis.whereabouts import FailureLocator, ProblemNumber, ProblemOutcome, find_number_condition
from attnspec.faults import staged
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.faults.subject import own_subject
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe
from attnspec.report.bugs import likely_words
from attnspec.subjects.callee import InProcess
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.planted import one_more
from test_kinds import judge_clause


def place_of_last(call: HandedOver) -> int:
    return int(call.query.shape[2]) - 1 + (0 if call.past_key is None else int(call.past_key.shape[2]))


def longest(call: HandedOver) -> int:
    return 0 if call.key_lengths is None else int(np.max(call.key_lengths))


def sink_over_lse(call: HandedOver) -> float:
    if call.sinks is None:
        return 0.0
    logits = call.query.astype(np.float64) @ call.key.swapaxes(-1, -2).astype(np.float64) / call.query.shape[-1]**0.5
    return float((call.sinks[:, None] - np.logaddexp.reduce(logits, axis=-1)).max())


def told(is_wrong: Callable[[HandedOver], object], clause: str, text: str) -> str:
    """What is told of where a function goes wrong that is sound elsewhere."""
    def answer(call: HandedOver) -> Answer:
        return one_more(call) if is_wrong(call) else staged.attention(call)

    subject = replace(own_subject("sound/naive"), id="planted", callee=InProcess(staged.as_attend(answer)))
    trial = Trial(checks()[clause], Evaluator(subject, DType.FLOAT32), Effort.QUICK, 0, lambda _: None)
    recipe = Recipe.parse(text)
    assert isinstance(trial.judge_recipe(recipe).failure, Violated)
    return FailureLocator().locate_failure(trial, recipe, Violated).begins


CASE = "B2,H2,Hkv2,T4,S40,D4,Dv4;mask=none;families=normal"


@pytest.mark.parametrize(("is_wrong", "clause", "text", "said"), [
    (lambda call: call.past_key is not None and place_of_last(call) >= 20, "past.definition",
     f"{CASE};with=past_key+past_value;past_key=half;seed=3", "P + i ≥ 20; holds at P + i = 19."),
    (lambda call: longest(call) > 16, "lengths.definition", f"{CASE};with=key_lengths;key_lengths=first_full;seed=3",
     "the largest key length ≥ 17; holds at the largest key length = 16."),
    (lambda call: call.query_lengths is not None and np.max(call.query_lengths) > 5, "lengths.definition",
     f"{CASE.replace('T4', 'T9')};with=query_lengths;query_lengths=first_full;seed=3",
     "the largest query length ≥ 6; holds at the largest query length = "),
    (lambda call: call.window is not None and (call.window[1] is None or call.window[1] > 2), "window.definition",
     f"{CASE};with=window;window=0+3;seed=3", "the window to the right ≥ 3; holds at the window to the right = "),
    (lambda call: call.softcap is not None and call.softcap > 4, "softcap.definition",
     f"{CASE};with=softcap;softcap=30.0;seed=3", "softcap ≥ 8; holds at softcap = 2."),
    (lambda call: call.window is not None and (call.window[0] is None or call.window[0] > 2), "window.definition",
     f"{CASE};with=window;window=3+0;seed=3", "the window to the left ≥ 3; holds at the window to the left = "),
    (lambda call: sink_over_lse(call) > 0.2, "sinks.definition",
     f"{CASE};with=sinks;sinks=rising;seed=3", "sink - lse ≥ 0."),
    (lambda call: call.mask is not None and not call.mask.any(axis=-1).all(), "masking.definition",
     f"{CASE};mask=with_empty_rows;with=mask;seed=3".replace("mask=none;", ""), "a query sees no key; holds at sizes")])
def test_what_decides_is_told(is_wrong: Callable[[HandedOver], object], clause: str, text: str, said: str) -> None:
    assert told(is_wrong, clause, text).startswith(f"Fails where {said}")


@pytest.mark.nightly
def test_pages_of_one_length_are_told_as_such() -> None:
    outcome = judge_clause("pages.py:slots_lost_in_pages_of_64", "paged.every_slot_is_read")
    assert likely_words([outcome]) == "Likely one bug: fails where the slots of a page = 64 (explains 1 of 1)"


def test_an_exception_of_a_mask_that_hides_everything_is_told() -> None:
    outcome = judge_clause("accidents.py:mask_that_hides_everything", "masking.hidden_row_convention")
    assert likely_words([outcome]) == (
        "Likely one bug: fails where no query sees a key, and raises IndexError (explains 1 of 1)")


@pytest.mark.parametrize(("facts", "said"), [
    ([(1, False), (2, False), (3, True), (4, True)], "P + i ≥ 3"), ([(2, False), (3, True), (4, True)], ""),
    ([(1, False), (3, False), (2, True), (4, True)], ""), ([(1, True), (2, True), (3, False), (9, False)], "P + i ≤ 2"),
    ([(1, False), (2, True), (3, False), (4, False)], "P + i = 2"), ([(1, False), (None, True), (3, False)], "")])
def test_a_number_is_told_where_enough_cases_speak_for_it(facts: list[tuple[float | None, bool]], said: str) -> None:
    problem = make_problem(Recipe.parse(f"{CASE};seed=1"), DType.FLOAT32)
    numbers = iter([number for number, _ in facts])
    variable = ProblemNumber("P + i", lambda _: next(numbers))
    told = find_number_condition(variable, [ProblemOutcome(problem, fails) for _, fails in facts])
    assert (told.words if told else "") == said
