"""What a probe asks about sinks: how they join the sum that weights are divided by."""

from __future__ import annotations

import numpy as np

from attnspec.core.nouns import DType
from attnspec.problems.problem import Array
from attnspec.questions.asker import FAILURES, Asker, Reply, keyword_question, promised, which

_KEYS = 4
"""T and S of the problem that is asked."""

_SUMS = np.array([1.0, 4.0])
"""Exponentials of the sinks of the first two heads."""


def _form(asker: Asker) -> Reply:
    """Of even weights, so that each key's is 1 over 4 and the exponential of the sink."""
    problem = asker.even(_KEYS, _KEYS)
    grown = _SUMS[: problem.sizes.H]
    sinks = np.log(grown).astype(np.float64 if asker.dtype is DType.FLOAT64 else np.float32)
    seen = asker.output(problem.but(sinks=sinks))[..., :_KEYS]
    scaled = grown ** (1 / np.sqrt(asker.subject.scale_width(problem)))
    by_row = grown[np.arange(_KEYS) % len(grown)]
    return which(seen, {
        "joins": _weights(grown[:, None]), "of_first": _weights(np.full((1, 1), grown[0])),
        "by_row": _weights(by_row[None]), "scaled": _weights(scaled[:, None]), "base_two": _weights(
            (grown ** np.log(2))[:, None]), "ignored": np.full((1, 1, _KEYS), 1 / _KEYS)})


def _weights(grown: Array) -> Array:
    """(H,T,S), or with axes of length 1: each key's, given the exponential of the sink (H,T)."""
    return np.asarray((1 / (_KEYS + grown))[..., None] * np.ones(_KEYS))


QUESTIONS = (
    keyword_question("sinks.form", {
        "joins": "exp(s) joins the sum that they are divided by", "of_first": "all heads have that of the first",
        "by_row": "it is read by row, not by head", "scaled": "it is multiplied by the scale first",
        "base_two": "2^s joins the sum", "ignored": "nothing", **FAILURES}, _form, promised("joins", "sinks")),
)
