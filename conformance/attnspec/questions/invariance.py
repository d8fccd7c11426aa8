"""Questions about bits: whether those of a row depend on what else is computed in the same call.

Whoever claims `batch_invariant` is judged by clauses; of everybody else it is only told.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np

from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.questions.asker import FAILURES, Asker, Question, Reply, promised
from attnspec.questions.numbers import LONG

_BATCH, _SEED = 3, 1
_SAME = {"same": "no, not one bit", "differs": "yes", **FAILURES}


def _compare_with_parts(asker: Asker, *, along: Literal["batch", "queries"]) -> Reply:
    """One call of everything, and one of each batch entry, or of each query."""
    problem = _problem(asker)
    together = asker.put(problem).output
    outputs = [asker.put(part).output for part in _parts(problem, along)]
    apart = np.concatenate(outputs, axis=0 if along == "batch" else 2)
    many = int((_bits(together) != _bits(apart)).sum())
    return Reply("differs" if many else "same", f"{many} of {together.size} entries" if many else "")


def _problem(asker: Asker) -> Problem:
    """Three batch entries of entries from N(0, 1)."""
    sizes = Sizes(_BATCH, asker.heads, asker.heads, *LONG, asker.width, asker.width)
    return make_problem(Recipe(sizes, ("normal",), "none", frozenset(), _SEED), asker.dtype)


def _parts(problem: Problem, along: str) -> Iterator[Problem]:
    """The batch entries, each alone, or the queries."""
    if along == "batch":
        arrays = {name: getattr(problem, name) for name in ("query", "key", "value")}
        yield from (problem.but(**{name: array[at:at + 1] for name, array in arrays.items()}) for at in range(_BATCH))
    else:
        yield from (problem.but(query=problem.query[:, :, at:at + 1]) for at in range(problem.sizes.T))


def _bits(array: Array) -> Array:
    """The entries of an array of any shape as whole numbers."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


BIT_QUESTIONS = (
    Question("bits.batch", "Do the bits of a batch entry's output depend on the other entries of the batch?", _SAME,
             partial(_compare_with_parts, along="batch"), promised("same", "batch_invariant")),
    Question("bits.queries", "Do the bits of a query's output depend on the other queries of the call?", _SAME,
             partial(_compare_with_parts, along="queries"), promised("same", "batch_invariant")),
)
