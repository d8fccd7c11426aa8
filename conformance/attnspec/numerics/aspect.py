"""What an aspect of attention adds to the mathematics: keys that it hides, a bend of the scaled dot products, and what
is added to them.

The definition and the bounds know no aspect: they ask all of them, or the bend of a problem.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Protocol

import numpy as np

from attnspec.core.keywords import keywords_of_aspect, load_parts
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import EXACT_INPUTS, InputErrors, Roundings
from attnspec.problems.problem import Array, Problem


class LogitBend(Protocol):
    """A monotone function of one scaled dot product, whose slope is nowhere more than 1. All arrays are (B,H,T,S)."""

    @property
    def growth(self) -> float:
        """By how much a number may grow on its way through, where it is formed: a quotient may be larger than x."""

    def bend(self, products: Array, real: type[np.floating]) -> Array:
        """Scaled dot products (B,H,T,S), bent, in the arithmetic of `real`."""

    def derivative(self, products: Array) -> Array:
        """The slope at each scaled dot product (B,H,T,S), in their own arithmetic."""

    def steepest(self, size: Array, error: Array | float) -> Array:
        """By how much, at most, an error of scaled dot products of this size (B,H,T,S) is multiplied."""

    def bent_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """The error behind the bend (B,H,T,S), given that before it, and the sizes before and behind."""

    def own_variance(self, size: Array, bent: Array, steepness: Array, r: Roundings) -> Array:
        """The squared roundings (B,H,T,S) of the bend itself, where the slope is at most `steepness`."""

    def shared_error(self, r: Roundings) -> float:
        """The relative error of a constant by which all dot products are multiplied or divided."""

    def derivative_error(self, error: Array, size: Array, bent: Array, r: Roundings) -> Array:
        """How far the slope that a backward pass forms may be off (B,H,T,S); arguments as of `bent_error`."""


class Mathematics:
    """What one aspect adds to the definition; each method does nothing by default. Problems that have no keyword of the
    aspect do not ask it.
    """

    def bend_of(self, problem: Problem) -> LogitBend | None:
        """How a problem bends its scaled dot products; None where it does not."""
        del problem
        return None

    def visible_keys(self, problem: Problem, ahead: Array) -> Array | None:
        """Which keys a query may attend to, (T,S) or (B,1,T,S), where a key lies so far `ahead` of the query's own
        place (the same shape); None where the problem hides nothing by this aspect.
        """
        del problem, ahead
        return None

    def attending(self, problem: Problem) -> Problem:
        """The problem with the numbers that attend in the place of what stands for them; else the problem itself."""
        return problem

    def input_errors(self, problem: Problem, precision: Precision) -> InputErrors:
        """What a subject of this class may do to the entries on the way from what it is handed to what attends."""
        del problem, precision
        return EXACT_INPUTS

    def own_keys(self, problem: Problem, rows: Array | None) -> Array | None:
        """Which keys a query may attend to wherever it stands, (B,1,1,S) or (B,1,T,S), of the judged `rows` (T,) or of
        all; None where the problem hides nothing by this aspect.
        """
        del problem, rows
        return None

    def added_logits(self, problem: Problem, own: Array) -> tuple[Array, Array] | None:
        """What is added to the logits of queries that stand at their own places (T,1) or (B,1,T,1), and the largest
        number that this may be made from, (B,H,T,S) each; None where the problem adds nothing by this aspect.
        """
        del problem, own
        return None

    def extra_key(self, problem: Problem) -> Array | None:
        """(H,): the logit of one more key for each head, which every query sees, of value zero; None without."""
        del problem
        return None

    def counts_places(self, problem: Problem) -> bool:
        """Whether `visible_keys` needs to know how far ahead each key lies."""
        del problem
        return False


@functools.cache
def _all_mathematics() -> tuple[tuple[frozenset[str], Mathematics], ...]:
    """The mathematics of every aspect that has some, in order, each with the keywords of the aspect."""
    return tuple((keywords_of_aspect(part), part.MATHEMATICS) for part in load_parts("mathematics"))


def given_mathematics(problem: Problem) -> tuple[Mathematics, ...]:
    """The mathematics of the aspects of which the problem has a keyword, in order."""
    given = problem.keywords
    return tuple(mathematics for keywords, mathematics in _all_mathematics() if not given.isdisjoint(keywords))


def extra_key(problem: Problem) -> Array | None:
    """(H,): the logit of one more key for each head; None without. Raises NotImplementedError for two such keys."""
    extra = [key for aspect in given_mathematics(problem) if (key := aspect.extra_key(problem)) is not None]
    if len(extra) > 1:
        raise NotImplementedError("two aspects give one problem a further key, and the bounds know of one only")
    return extra[0] if extra else None


def bend_of(problem: Problem) -> LogitBend | None:
    """How a problem bends its scaled dot products; None where it does not. Raises NotImplementedError for two bends at
    once: an aspect that brings a second one says here which goes first.
    """
    bends = [bend for aspect in given_mathematics(problem) if (bend := aspect.bend_of(problem)) is not None]
    if len(bends) > 1:
        raise NotImplementedError("two aspects bend the logits of one problem, and nothing says which goes first")
    return bends[0] if bends else None


def attending(problem: Problem) -> Problem:
    """The problem with the numbers that attend in the place of what stands for them, by every aspect."""
    return functools.reduce(lambda posed, aspect: aspect.attending(posed), given_mathematics(problem), problem)


def input_errors(problem: Problem, precision: Precision) -> InputErrors:
    """What a subject of this class may do to the entries before they meet, by every aspect together."""
    errors = [aspect.input_errors(problem, precision) for aspect in given_mathematics(problem)]
    return InputErrors(
        *(math.prod(1 + getattr(each, name) for each in errors) - 1 for name in ("of_logits", "of_values")),
        *(math.prod(getattr(each, name) for each in errors) for name in ("logit_growth", "value_growth")),
        *(sum(getattr(each, name) for each in errors) for name in ("query_offset", "key_offset", "value_offset")))


def with_inputs(r: Roundings, errors: InputErrors) -> Roundings:
    """The numbers of a class with what may happen to the entries first."""
    return r if errors == EXACT_INPUTS else replace(r, inputs=errors)
