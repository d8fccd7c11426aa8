"""Questions about axes of length zero. They come last: native code may die of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.probing.asker import FAILURES, Asker, NotAsked, Reply
from attnspec.probing.fit import which
from attnspec.probing.question import Question
from attnspec.problems.problem import Problem


def _without(asker: Asker, axis: str) -> Reply:
    """Whoever sets a least number of scores has said so; 1, the ordinary one, is no limit here."""
    limits = asker.subject.declaration.limits
    if limits.min_scores > 1 or (limits.self_attention_only and axis == "keys"):
        raise NotAsked("a limit forbids it")
    problem = _empty(asker.even(4, 4), axis, is_self=limits.self_attention_only)
    output = asker.without_limits(min_scores=0).output(problem)
    if axis == "keys":
        return which(output, {"zeros": np.zeros(1), "nan": np.full(1, np.nan)})
    return Reply("empty", f"shape {output.shape}")


def _empty(problem: Problem, axis: str, *, is_self: bool) -> Problem:
    query, key, value = problem.query, problem.key, problem.value
    if axis == "batch":
        query, key, value = query[:0], key[:0], value[:0]
    if axis == "queries":
        query = query[:, :, :0]
    if axis == "keys" or (axis == "queries" and is_self):
        key, value = key[:, :, :0], value[:, :, :0]
    return problem.but(query=query.copy(), key=key.copy(), value=value.copy())


_GONE = {"empty": "an empty array of the right shape", **FAILURES}

QUESTIONS = (
    Question("zero.queries", "What comes back where T = 0?", _GONE, partial(_without, axis="queries")),
    Question("zero.batch", "What comes back where B = 0?", _GONE, partial(_without, axis="batch")),
    Question("zero.keys", "What comes back where S = 0?", {"zeros": "zeros", "nan": "NaN", **FAILURES},
             partial(_without, axis="keys")),
)
