"""All questions, and what a subject and its variants answer to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from attnspec.ground.nouns import DType
from attnspec.probing import (
    causal,
    gradients,
    heads,
    hidden,
    masks,
    numbers,
    purity,
    scale,
    sizes,
    weights,
    windows,
)
from attnspec.probing.asker import Asker, Failed, NotAsked, Reply
from attnspec.probing.question import Question, When
from attnspec.probing.switches import FLIPS, Pair
from attnspec.record.probed import Found
from attnspec.subjects.subject import Subject

SAFE: tuple[Question, ...] = (
    *masks.QUESTIONS, *causal.QUESTIONS, *windows.QUESTIONS, *hidden.QUESTIONS, *scale.QUESTIONS, *heads.QUESTIONS,
    *weights.QUESTIONS, *numbers.QUESTIONS, *purity.QUESTIONS, *gradients.QUESTIONS)
RISKY: tuple[Question, ...] = (*masks.IN_PLACE, *sizes.QUESTIONS)
"""What native code may die of comes last: what was found before is kept."""
QUESTIONS = (*SAFE, *RISKY)


@dataclass(frozen=True, slots=True)
class Step:
    """A question about to be put."""

    name: str
    asks: str
    ask: Callable[[], Reply]
    claim: str = ""

    def take(self) -> Found | None:
        """What is found out; None where the question cannot be put to the subject."""
        try:
            reply = self.ask()
        except NotAsked:
            return None
        except Failed as failed:
            reply = failed.reply
        return Found(self.name, self.asks, reply.answer, reply.detail, reply.claimed or self.claim)


def probe(subject: Subject, dtype: DType, *, base: Subject | None = None, whole: bool = True) -> Iterator[Step]:
    """Step by step. base: the subject whose variant this is: then it is told, too, where the two differ. whole: all
    questions, not only those that are asked at every dtype.
    """
    asker = Asker(subject, dtype)
    if not whole:
        yield from (_step(question, asker) for question in QUESTIONS if question.when is When.EVERY_DTYPE)
        return
    first, *others = SAFE
    yield _step(first, asker)
    asker = asker.knowing(drops=masks.drops(asker))  # once the first question is over: whoever dies of a mask did so
    yield from (_step(question, asker) for question in others)
    if base is not None:
        pair = Pair(Asker(base, dtype), asker)
        yield from (Step(f"switch.{flip.name}", flip.asks, partial(pair.flipped, flip)) for flip in FLIPS)
    yield from (_step(question, asker) for question in RISKY)


def _step(question: Question, asker: Asker) -> Step:
    claim = question.claim(asker.subject.declaration)
    return Step(question.name, question.asks, lambda: question.ask(asker), claim)
