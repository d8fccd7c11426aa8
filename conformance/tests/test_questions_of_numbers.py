"""As test_questions.py: scale, heads, weights, numbers, purity and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from attnspec.faults.staged import attention
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.faults.state import Parts, sum_by_parts, whole
from attnspec.problems.problem import Array
from attnspec.questions import inputs, numbers
from helpers.liars import Liar, answers_to, changing, everywhere, find_answer, sound, when, with_stages


def is_huge(call: HandedOver) -> bool:
    return bool(call.query.size and np.abs(call.query).max() > 50)


HUGE = {"right": sound, "nan": when(is_huge, everywhere(np.nan)), "infinite": when(is_huge, everywhere(np.inf))}


def scaled(factor: Callable[[float], float]) -> Liar:
    return with_stages(scale=lambda work: factor(work.query.shape[-1]) if work.scale is None else work.scale)


def given(change: Callable[[float], float | None]) -> Liar:
    return changing(lambda call: call if call.scale is None else call.but(scale=change(call.scale)))


SCALES = {"honoured": sound, "ignored": given(lambda _: None), "nan": given(lambda _: np.nan)}


def no_groups(call: HandedOver) -> Answer:
    if call.key.shape[1] != call.query.shape[1]:
        raise ValueError("as many heads, please")
    return attention(call)


def tied(call: HandedOver) -> Answer:
    return attention(call)[..., :1] * np.ones(call.value.shape[-1])  # type: ignore[call-overload]  # no weights here


def tiled(array: Array, H: int) -> Array:
    return np.concatenate([array] * (H // array.shape[1]), axis=1)


def reporting(change: Callable[[Array], Array]) -> Liar:
    def answer(call: HandedOver) -> Answer:
        given = attention(call)
        return (given[0], change(given[1])) if call.return_weights else given

    return answer


def dropping_values(call: HandedOver) -> Answer:
    answer = attention(call)
    return (answer[0] * np.array([2, 0] * 4, np.float32), answer[1]) if call.return_weights else answer


def turns() -> Liar:
    calls = iter(range(1000))
    return lambda call: np.asarray(attention(call)) + next(calls)


def remembering() -> Liar:
    """Every answer depends on how many queries the call before had."""
    before = [4]

    def answer(call: HandedOver) -> Answer:
        before.append(call.query.shape[2])
        return np.asarray(attention(call)) + 0.1 * before[-2]

    return answer


def overwriting() -> Liar:
    buffers: dict[tuple[int, ...], Array] = {}

    def answer(call: HandedOver) -> Answer:
        output = np.asarray(attention(call))
        buffer = buffers.setdefault(output.shape, output)
        buffer[...] = output
        return buffer

    return answer


def parted(parts: Parts) -> Liar:
    return lambda call: sum_by_parts(call, parts)


PLANTED: Mapping[str, Mapping[str, Liar]] = {
    "scale.default": {
        "1/sqrt(D)": sound, "1": scaled(lambda _: 1.0), "1/D": scaled(lambda D: 1 / D),
        "sqrt(D)": scaled(lambda D: D**0.5),
        "1/sqrt(H·D)": scaled(lambda D: (2 * D) ** -0.5), "-1/sqrt(D)": scaled(lambda D: -(D**-0.5)),
        "0": scaled(lambda _: 0.0)},
    "scale.positive": SCALES, "scale.zero": SCALES, "scale.negative": {**SCALES, "size_only": given(abs)},
    "grouped": {"yes": sound, "no": no_groups},
    "grouped_heads": {"repeat": sound, "tile": with_stages(group_key=tiled, group_value=tiled)},
    "value_width": {"yes": sound, "no": when(lambda call: call.value.shape[-1] != call.key.shape[-1], everywhere(9.0))},
    "weights.heads": {"per_head": sound, "averaged": reporting(lambda weights: weights.mean(axis=1))},
    "weights.sum": {"yes": sound, "no": reporting(lambda weights: 2 * weights)},
    "weights.effect": {"in_effect": sound, "before_dropout": dropping_values},
    "huge_logits.exponential": HUGE, "huge_logits.largest": HUGE,
    "mutated": {"none": sound}, "aliased": {"none": sound},
    "determinism.twice": {"same": sound, "differs": turns()},
    "determinism.after_another": {"same": sound, "differs": remembering()},
    "determinism.kept": {"kept": sound, "overwritten": overwriting()},
    "bits.batch": {"same": parted(whole), "differs": parted(lambda work: (2 * len(work.query), work.shape[3]))},
    "bits.queries": {"same": parted(whole), "differs": parted(lambda work: (work.shape[2] // 3, work.shape[3]))},
    "zero.queries": {"empty": sound}, "zero.batch": {"empty": sound},
    "zero.keys": {"zeros": sound, "nan": when(lambda call: call.key.shape[2] == 0, everywhere(np.nan))},
}
ASKED = (*numbers.SCALE_QUESTIONS, *inputs.HEAD_QUESTIONS, *numbers.WEIGHT_QUESTIONS, *numbers.NUMBER_QUESTIONS,
         numbers.DETERMINISM_QUESTION, *numbers.PURITY_QUESTIONS, *numbers.BIT_QUESTIONS, *inputs.SIZE_QUESTIONS)
CASES = [(question, answer) for question, answers in PLANTED.items() for answer in answers]


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_a_planted_liar_gets_its_answer(question: str, answer: str) -> None:
    assert find_answer(PLANTED[question][answer], question).answer == answer


def test_every_answer_is_planted() -> None:
    assert {name: set(answers) for name, answers in PLANTED.items()} == answers_to(ASKED)
