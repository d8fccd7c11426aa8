"""Plain mistakes: attentions that no precision class may acquit, and the small problems that show them.

Each is the definition's own answer to another problem, or its answer changed, rounded once. So nothing but the mistake
is wrong with it. A class under which one of them conforms says nothing: see `width.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed
from attnspec.problems.make import as_dtype, make_problem
from attnspec.problems.problem import Array, Problem, Sizes
from attnspec.problems.recipe import Recipe

SHOWS_FROM = 64
"""Keys, from which on the mistake in the number of keys is made."""

_FAMILIES = ("normal", "spread_logits", "log_normal", "uniform")
SMALL = Sizes(2, 4, 4, 8, 8, 8, 8)
MANY_KEYS = Sizes(2, 4, 4, 16, 64, 32, 32)
SLICED = (Sizes(30, 4, 4, 32, 32, 16, 16), Sizes(30, 4, 4, 16, 4, 16, 16))
"""Head slices for the score test, a quarter of those that a run has: with all keys, and with so few that none is lost
in a sum."""

Answer = Callable[[Problem], Array]


@dataclass(frozen=True, slots=True)
class Mistake:
    """name: as a sentence says it ("…, conforms").  answer: what it gives to a problem, in float64.  sizes, causal: of
    the problem on which single entries show it.  of_empty_row: whether it shows in a row without keys.
    is_everywhere: whether it moves all outputs, so that their mean shows
    it, too.
    """

    name: str
    answer: Answer
    sizes: Sizes = SMALL
    causal: bool = False
    of_empty_row: bool = False
    is_everywhere: bool = False

    @property
    def is_of_plain_calls(self) -> bool:
        """Whether a call without a keyword shows it: those alone are surely held against what is typical, too."""
        return not self.causal and not self.of_empty_row


def define(problem: Problem) -> Array:
    """(B,H,T,Dv): the output by definition."""
    found = expect(problem, assumed(problem.dtype), conventions={}, parts=frozenset({"output"}))
    return np.asarray(found.output, np.float64)


def _scale_wrongly(problem: Problem) -> Array:
    """(B,H,T,Dv): the scale is 2 % too large."""
    return define(problem.but(scale=1.02 / math.sqrt(problem.sizes.D)))


def _gain(problem: Problem) -> Array:
    """(B,H,T,Dv): the output is 1 % too large."""
    return 1.01 * define(problem)


def _see_one_ahead(problem: Problem) -> Array:
    """(B,H,T,Dv): each query sees one later key."""
    T, S = problem.sizes.T, problem.sizes.S
    return define(problem.but(causal=False, mask=np.tri(T, S, 1, dtype=bool)))


def _drop_last_key(problem: Problem) -> Array:
    """(B,H,T,Dv): the last key is not seen."""
    sizes = problem.sizes
    seen = np.arange(sizes.S) < sizes.S - 1
    return define(problem.but(mask=np.broadcast_to(seen, (sizes.T, sizes.S))))


def _average(problem: Problem) -> Array:
    """(B,H,T,Dv): all visible keys weigh the same."""
    return define(problem.but(query=np.zeros_like(problem.query)))


def _exchange_halves(problem: Problem) -> Array:
    """(B,H,T,Dv): the halves of the output are exchanged."""
    return np.roll(define(problem), problem.sizes.Dv // 2, axis=-1)


def _take_first_value(problem: Problem) -> Array:
    """(B,H,T,Dv): every query gets the value of the first key."""
    return np.broadcast_to(problem.value[:, :, :1].astype(np.float64), define(problem).shape)


MISTAKES = (
    Mistake("a scale that is off by 2 %", _scale_wrongly, is_everywhere=True),
    Mistake("an output that is off by 1 %", _gain, is_everywhere=True),
    Mistake("a causal flag that is off by one", _see_one_ahead, causal=True),
    Mistake(f"a key that is dropped from S = {SHOWS_FROM} on", _drop_last_key, sizes=MANY_KEYS),
    Mistake("the mean of all values in place of a softmax", _average, is_everywhere=True),
    Mistake("halves of the output that are exchanged", _exchange_halves, is_everywhere=True),
    Mistake("the first key's value in a row without keys whose mean is declared", _take_first_value, of_empty_row=True),
)


@dataclass(frozen=True, slots=True, eq=False)
class MistakeExample:
    """A problem that shows a mistake, and what the mistake answers to it, in the dtype of the problem."""

    problem: Problem
    answer: Array


@functools.cache
def shown_by(mistake: Mistake, dtype: DType) -> MistakeExample:
    """The problem whose single entries show a mistake."""
    problem = _make_shown(mistake.sizes, dtype)
    if mistake.causal:
        problem = problem.but(causal=True)
    if mistake.of_empty_row:  # its mean is held like that of a query of zeros
        problem = problem.but(query=np.zeros_like(problem.query))
    return MistakeExample(problem, as_dtype(mistake.answer(problem), dtype))


@functools.cache
def sliced(dtype: DType, sizes: Sizes) -> Problem:
    """Head slices with draws of their own, as the clauses of drift have them."""
    return make_problem(_recipe(sizes, ("spread_logits",)), dtype)


@functools.cache
def answered(mistake: Mistake, dtype: DType, sizes: Sizes) -> Array:
    """(n,1,T,Dv): what a mistake answers to the head slices."""
    return as_dtype(mistake.answer(sliced(dtype, sizes)), dtype)


@functools.cache
def _make_shown(sizes: Sizes, dtype: DType) -> Problem:
    return make_problem(_recipe(sizes, _FAMILIES), dtype)


def _recipe(sizes: Sizes, families: tuple[str, ...]) -> Recipe:
    return Recipe(sizes, families, mask="none", features=frozenset(), seed=0)
