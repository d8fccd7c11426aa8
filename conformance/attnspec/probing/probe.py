"""All questions, and what a subject answers to them."""

from __future__ import annotations

from collections.abc import Iterator

from attnspec.ground.nouns import DType
from attnspec.probing import causal, heads, hidden, masks, numbers, purity, scale, sizes, weights
from attnspec.probing.asker import Asker, Failed, NotAsked
from attnspec.probing.question import Question, When
from attnspec.record.probed import Found
from attnspec.subjects.subject import Subject

QUESTIONS: tuple[Question, ...] = (
    *masks.QUESTIONS, *causal.QUESTIONS, *hidden.QUESTIONS, *scale.QUESTIONS, *heads.QUESTIONS, *weights.QUESTIONS,
    *numbers.QUESTIONS, *purity.QUESTIONS, *masks.IN_PLACE, *sizes.QUESTIONS)
"""In this order: what native code may die of comes last."""


def questions(*, whole: bool) -> Iterator[Question]:
    """All of them, or those that are asked at every dtype."""
    return (each for each in QUESTIONS if whole or each.when is When.EVERY_DTYPE)


def asked(question: Question, subject: Subject, dtype: DType) -> Found | None:
    """What is found out; None where the question cannot be put to the subject."""
    try:
        reply = question.ask(Asker(subject, dtype))
    except NotAsked:
        return None
    except Failed as failed:
        reply = failed.reply
    return Found(question.name, question.asks, reply.answer, reply.detail, question.claim(subject.declaration))
