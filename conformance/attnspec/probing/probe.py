"""All questions, what a subject and its variants answer to them, and the worker that puts them, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.plan import Plan
from attnspec.engine.summon import summon
from attnspec.probing.subjects import first
from attnspec.probing.switches import FLIPS, VariantPair
from attnspec.questions import (
    caches,
    decoder,
    dropout,
    invariance,
    masks,
    mismatch,
    numbers,
    outputs,
    ranges,
    rotary,
    serving,
    shapes,
    visibility,
)
from attnspec.questions.asker import Asker, Question, Reply, When, reply_to
from attnspec.record.measurements import Found, SubjectProbed
from attnspec.subjects.subject import Subject

PLAIN: tuple[Question, ...] = (
    outputs.TWICE, *numbers.SCALE_QUESTIONS, *shapes.HEAD_QUESTIONS, *outputs.WEIGHT_QUESTIONS,
    *numbers.NUMBER_QUESTIONS, *numbers.DEVICE_QUESTIONS, *ranges.RANGE_QUESTIONS, *visibility.CAUSAL_QUESTIONS,
    *(question for part in load_parts("questions") for question in part.QUESTIONS),
    *serving.SERVING_QUESTIONS, *caches.CACHE_QUESTIONS,
    *decoder.DECODER_QUESTIONS, *dropout.DROPOUT_QUESTIONS,
    *masks.MASK_QUESTIONS[:1])
MASKED: tuple[Question, ...] = (
    *masks.MASK_QUESTIONS[1:], *masks.HIDDEN_QUESTIONS, *outputs.PURITY_QUESTIONS, *invariance.BIT_QUESTIONS,
    *outputs.GRADIENT_QUESTIONS)
RISKY: tuple[Question, ...] = (*masks.IN_PLACE, *shapes.SIZE_QUESTIONS, *mismatch.MISMATCH_QUESTIONS)
"""Native code may die: of masks first of all, of what nobody has tried last. What was found before is kept."""
QUESTIONS = (*PLAIN, *MASKED, *RISKY)


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question about to be put. `is_chance`: the answer will be one, so that nothing is claimed of it."""

    name: str
    asks: str
    ask: Callable[[], Reply]
    claim: str = ""
    is_chance: bool = False

    def take(self) -> Found | None:
        """What is found out; None where the question cannot be put to the subject."""
        reply = reply_to(self.ask)
        if reply is None:
            return None
        claimed = "" if self.is_chance else reply.claimed or self.claim
        return Found(self.name, self.asks, reply.answer, reply.detail, claimed)


def probe(subject: Subject, dtype: DType, *, base: Subject | None = None, whole: bool = True,
          brief: bool = False) -> Iterator[PendingQuestion]:
    """Step by step. base: the subject whose variant this is: then it is told, too, where the two differ. whole: all
    questions, not only those that are asked at every dtype.  brief: of a variant only where the two differ.
    """
    asker = Asker(subject, dtype)
    if subject.declaration.kind is Kind.ROTARY:
        yield from (_step(question, asker) for question in rotary.ALL if whole or question.when is When.EVERY_DTYPE)
        return
    if brief and base is not None:
        yield from _flips(base, asker.knowing(drops=masks.drops(asker)), brief=True)
        return
    if not whole:
        yield from (_step(question, asker) for question in QUESTIONS if question.when is When.EVERY_DTYPE)
        return
    first, *plain = PLAIN
    yield _step(first, asker)
    is_chance = not outputs.is_steady(asker)  # once the question is over: whoever dies of a call has done so
    yield from (replace(_step(question, asker), is_chance=is_chance) for question in plain)
    asker = asker.knowing(drops=masks.drops(asker))  # likewise, of a mask
    more = [*(_step(question, asker) for question in MASKED), *_flips(base, asker),
            *(_step(question, asker) for question in RISKY)]
    yield from (replace(step, is_chance=is_chance) for step in more)


def _flips(base: Subject | None, asker: Asker, *, brief: bool = False) -> Iterator[PendingQuestion]:
    if base is not None:
        pair = VariantPair(Asker(base, asker.dtype), asker)
        flips = [flip for flip in FLIPS if not (brief and flip.is_implied)]
        yield from (PendingQuestion(f"switch.{flip.name}", flip.asks, partial(pair.flipped, flip)) for flip in flips)


def _step(question: Question, asker: Asker) -> PendingQuestion:
    claim = question.claim(asker.subject.declaration)
    return PendingQuestion(question.name, question.asks, lambda: question.ask(asker), claim)


class ProbeWorker:
    """Remembers the subjects that it has loaded."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._subjects: dict[str, Subject] = {}

    def subject(self, target: str) -> Subject:
        """The subject of this name. Raises AttnspecError where it cannot be had."""
        if target not in self._subjects:
            self._subjects[target] = summon(target, self._plan)
        return self._subjects[target]

    def probe(self, target: str, variant: str, dtype: DType) -> SubjectProbed:
        """All that is found out at this dtype; nothing where the subject does not support it."""
        began = time.perf_counter()
        base = self.subject(target)
        subject = base.variant(variant) if variant else base
        found: list[Found] = []
        if dtype in subject.declaration.dtypes:
            is_first = dtype is first(base.declaration, self._plan)
            is_brief = self._plan.effort is Effort.GLANCE
            for step in probe(subject, dtype, base=base if variant else None, whole=is_first, brief=is_brief):
                found += filter(None, [step.take()])
        seconds = round(time.perf_counter() - began, 3)
        return SubjectProbed(target, variant, dtype, tuple(found), seconds)
