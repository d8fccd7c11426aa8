"""Words of `draw`: from what a value is drawn, simplest first. An empty range means that the case says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attnspec.vocabulary.hints import COUNT, HEAD, ROW, SEED, STEP, Meaning
from attnspec.vocabulary.scene import AnyProblem

SEEDS = range(2**16)


def row_before_last(problem: AnyProblem) -> Sequence[int]:
    """Any query row but the last."""
    return range(problem.sizes.T - 1)


def any_query(problem: AnyProblem) -> Sequence[int]:
    """Any query row."""
    return range(problem.sizes.T)


def key_count(problem: AnyProblem) -> Sequence[int]:
    """How many keys to keep: from one to all."""
    return range(1, problem.sizes.S + 1)


def one_key(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """The number 1: a single key or head is kept."""
    return (1,)


def one_query(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """Position 0: a single query is left if everything after it is cut off."""
    return (0,)


def any_head(problem: AnyProblem) -> Sequence[int]:
    """Any query head."""
    return range(problem.sizes.H)


def shuffle(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """A seed for a permutation or for other content."""
    return SEEDS


def small_step(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """A small whole number that is not zero."""
    return (1, -1, 2, -2, 3, -3, 4, -4)


MEANINGS: Mapping[str, Meaning] = {
    "row_before_last": ROW, "any_query": ROW, "one_query": ROW, "key_count": COUNT, "one_key": COUNT,
    "any_head": HEAD, "shuffle": SEED, "small_step": STEP,
}
"""What the numbers of each word stand for."""

DRAWS: Mapping[str, Callable[[AnyProblem], Sequence[int]]] = {
    word.__name__: word for word in (row_before_last, any_query, key_count, one_key, one_query, any_head, shuffle,
                                      small_step)
}
