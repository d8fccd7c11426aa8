"""Subjects that are made to answer a question of a probe in one way: sound attention with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.staged import SOUND, as_attend, attention
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.probing.probe import PendingQuestion, probe_subject
from attnspec.questions.asker import FAILURES, Question
from attnspec.record.events import Found
from attnspec.subjects.subject import Subject

from helpers.subjects import ATTENTION_KEYWORDS, subject_of

Liar = Callable[[HandedOver], Answer]


def liar_subject(liar: Liar, **declared: Any) -> Subject:  # noqa: ANN401  (a declaration's fields)
    """The liar as a subject that takes every keyword."""
    return subject_of(as_attend(liar), ATTENTION_KEYWORDS, limits=Limits(broadcasts=True), **declared)


def steps(subject: Subject, dtype: DType = DType.FLOAT32) -> Mapping[str, PendingQuestion]:
    """Every question of a probe, by its name."""
    return {step.name: step for step in probe_subject(subject, dtype)}


def find_answer(liar: Liar, question: str, dtype: DType = DType.FLOAT32, **declared: Any) -> Found:  # noqa: ANN401
    """What a probe finds out about the liar by this question."""
    answer = steps(liar_subject(liar, **declared), dtype)[question].ask_question()
    assert answer is not None
    return answer


def answers_to(questions: Iterable[Question]) -> dict[str, set[str]]:
    """What can be answered to each question, by its name, but for failures; what is open to any answer is left out."""
    return {question.name: set(question.answers) - set(FAILURES) for question in questions if question.answers}


def sound(call: HandedOver) -> Answer:
    """Tells no lie."""
    return attention(call)


def with_stages(**stages: Any) -> Liar:  # noqa: ANN401  (as dataclasses.replace)
    """Other stages."""
    return partial(attention, stages=replace(SOUND, **stages))


def changing(change: Callable[[HandedOver], HandedOver]) -> Liar:
    """Attention of another call than the one that was made."""
    return lambda call: attention(change(call))


def when(condition: Callable[[HandedOver], bool], liar: Liar, otherwise: Liar = sound) -> Liar:
    """Lies where the condition holds."""
    return lambda call: liar(call) if condition(call) else otherwise(call)


def everywhere(number: float) -> Liar:
    """Answers one number in every entry."""
    return lambda call: np.full((*call.query.shape[:3], call.value.shape[-1]), number, call.query.dtype)
