"""As test_questions.py: scale, heads, weights, numbers, purity and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from attnspec.core.declaration import Declaration, Limits
from attnspec.core.errors import Place
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Kind
from attnspec.faults.staged import SOUND, Answer, HandedOver, as_attend, attention
from attnspec.probing import numbers, outputs, shapes
from attnspec.probing.asker import FAILURES
from attnspec.probing.probe import PendingQuestion, probe
from attnspec.problems.problem import Array
from attnspec.record.measurements import Found
from attnspec.subjects.manifest import Library
from attnspec.subjects.subject import Subject

Liar = Callable[[HandedOver], Answer]
TAKEN = frozenset(word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds)


def subject_of(liar: Liar, **declared: Any) -> Subject:  # noqa: ANN401  (a declaration's fields)
    declaration = Declaration(keywords=TAKEN, limits=Limits(broadcasts=True), **declared)
    return Subject("mine", "mine", as_attend(liar), declaration, Place("mine.py", 1), Library("mine"))


def steps(subject: Subject, dtype: DType = DType.FLOAT32) -> Mapping[str, PendingQuestion]:
    return {step.name: step for step in probe(subject, dtype)}


def found(liar: Liar, question: str, dtype: DType = DType.FLOAT32, **declared: Any) -> Found:  # noqa: ANN401
    answer = steps(subject_of(liar, **declared), dtype)[question].take()
    assert answer is not None
    return answer


def sound(call: HandedOver) -> Answer:
    return attention(call)


def with_stages(**stages: Any) -> Liar:  # noqa: ANN401  (as dataclasses.replace)
    return partial(attention, stages=replace(SOUND, **stages))


def changing(change: Callable[[HandedOver], HandedOver]) -> Liar:
    return lambda call: attention(change(call))


def when(condition: Callable[[HandedOver], bool], liar: Liar, otherwise: Liar = sound) -> Liar:
    return lambda call: liar(call) if condition(call) else otherwise(call)


def everywhere(number: float) -> Liar:
    return lambda call: np.full((*call.query.shape[:3], call.value.shape[-1]), number, call.query.dtype)


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
    "zero.queries": {"empty": sound}, "zero.batch": {"empty": sound},
    "zero.keys": {"zeros": sound, "nan": when(lambda call: call.key.shape[2] == 0, everywhere(np.nan))},
}
ASKED = (*numbers.SCALE_QUESTIONS, *shapes.HEAD_QUESTIONS, *outputs.WEIGHT_QUESTIONS, *numbers.NUMBER_QUESTIONS,
         outputs.TWICE, *outputs.PURITY_QUESTIONS, *shapes.SIZE_QUESTIONS)
CASES = [(question, answer) for question, answers in PLANTED.items() for answer in answers]


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_a_planted_liar_gets_its_answer(question: str, answer: str) -> None:
    assert found(PLANTED[question][answer], question).answer == answer


def test_every_answer_is_planted() -> None:
    listed = {question.name: set(question.answers) - set(FAILURES) for question in ASKED if question.answers}
    assert {name: set(answers) for name, answers in PLANTED.items()} == listed
