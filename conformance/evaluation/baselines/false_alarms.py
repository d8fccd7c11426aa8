"""How often a rule's comparison, put on attnspec's own problems, accuses a correct attention."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from attnspec.core.nouns import DType, Effort
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.faults.sound import declaration_of_sound, sound_named
from attnspec.faults.subject import sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.choices import MOST_SMALL_LOGITS, Menu, shapes_for
from attnspec.problems.domain import domain
from attnspec.problems.families import random_words
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, count_logits
from attnspec.subjects.subject import SubjectAnswer

from evaluation.baselines.references import ReferencedProblem
from evaluation.baselines.rules import Rule

CASES = 249
"""As many as docs/numerics.md reports on."""

FORMULATION = "fused_blocks"
"""An online softmax that rounds where fused kernels do."""

_DOMAIN = domain(sometimes=("mask", "bias", "causal", "scale"), grouped="maybe")


@dataclass(frozen=True, slots=True)
class AccusedShare:
    """Of `cases` that lie in the domain of the bound, `accused` are called wrong, and `beyond` lie beyond the bound."""

    accused: int
    cases: int
    beyond: int

    @property
    def share(self) -> float:
        """The share of correct answers that are called wrong."""
        return self.accused / self.cases


def false_alarm_share(rule: Rule, dtype: DType, *, formulation: str = FORMULATION, cases: int = CASES,
                      seed: int = 0) -> AccusedShare:
    """What the rule's comparison makes of a sound formulation's answers to adversarial problems."""
    judged = _answer_problems(formulation, dtype, cases, seed)
    with np.errstate(all="ignore"):
        accused = sum(rule.wrong(each.answer.output, each.posed.output) for each in judged)
    return AccusedShare(accused, len(judged), sum(each.is_beyond for each in judged))


@dataclass(frozen=True, slots=True)
class _Judged:
    posed: ReferencedProblem
    answer: SubjectAnswer
    is_beyond: bool


@functools.lru_cache(8)
def _answer_problems(formulation: str, dtype: DType, cases: int, seed: int) -> tuple[_Judged, ...]:
    """The formulation's answers to as many problems in the domain of the bound."""
    found: list[_Judged] = []
    for problem in _problems(dtype, seed):
        if judged := _judge_answer(formulation, problem):
            found.append(judged)
        if len(found) == cases:
            break
    return tuple(found)


def _judge_answer(formulation: str, problem: Problem) -> _Judged | None:
    """None where the bound says nothing of some row."""
    declared = declaration_of_sound(sound_named(formulation)).precision.get(problem.dtype)
    expected = expect(problem, declared_precision(declared, problem.dtype), conventions=RECOMMENDED,
                      parts=frozenset({"output"}))
    if not (expected.claimed | expected.empty).all():
        return None
    with np.errstate(all="ignore"):
        answer = sound_subject(formulation).answer(problem)
    error = np.abs(answer.output.astype(expected.output.dtype) - expected.output)
    is_beyond = ~(error <= expected.output_allowance)
    return _Judged(ReferencedProblem(problem), answer, bool(is_beyond[expected.claimed].any()))


def _problems(dtype: DType, seed: int) -> Iterator[Problem]:
    """Problems as the engine draws them, of small shapes, without end."""
    limits = declaration_of_sound(sound_named(FORMULATION)).limits
    shapes = tuple(sizes for sizes in shapes_for(_DOMAIN, limits, Effort.THOROUGH)
                   if count_logits(sizes) <= MOST_SMALL_LOGITS)
    menu = Menu(_DOMAIN, limits, shapes, tuple(sorted(_DOMAIN.sometimes)))
    number = 0
    while True:
        choices = random_words(seed, f"accused {number}", (menu.length,)).tobytes()[:menu.length]
        yield make_problem(menu.recipe(choices), dtype)
        number += 1
