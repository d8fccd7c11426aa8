"""Spec words and a question about sinks: how they join the sum of weights."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, acting_on
from attnspec.core.nouns import DType
from attnspec.numerics.operands import visible_keys
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.problem import Array
from attnspec.questions.asker import FAILURES, Asker, Reply, keyword_question, name_candidate, promised_answer
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention


def with_sinks(posed: Attention, *, to: Literal["minus infinity"]) -> Attention:  # noqa: ARG001  (so that clauses read)
    """Hand over sinks of -inf."""
    problem = posed.one
    return posed.but(sinks=keyword_array("sinks", "minus_infinity", 0, problem.sizes, problem.dtype))


def sinks_as_keys(posed: Attention) -> Attention:
    """Give every head one more key, a value of zeros with it, and the sink as the bias of that
    key; what hides other keys becomes a mask. No claim where the dtype does not hold the sinks.
    """
    problem = posed.one
    if problem.sinks is None:
        raise NoClaim("there are no sinks")
    stored = problem.sinks.astype(problem.query.dtype)
    if not np.array_equal(stored.astype(np.float64), problem.sinks.astype(np.float64)):
        raise NoClaim("the change is not exact in the dtype")
    visible = visible_keys(problem.but(bias=None), posed.conventions)
    shape = (*visible.shape[:3], 1)
    bias = np.zeros(visible.shape, stored.dtype) if problem.bias is None else problem.bias
    bias = np.concatenate([bias, np.broadcast_to(stored[:, None, None], shape)], axis=-1)
    mask = np.concatenate([visible, np.ones(shape, bool)], axis=-1)
    hiding = {name: off for name, off in acting_on(Acts.VISIBILITY).items() if KEYWORDS[name].hides}
    return posed.but(**{**hiding, "sinks": None, "mask": mask, "bias": bias, "key": _longer(problem.key),
                        "value": _longer(problem.value)})


def _longer(array: Array) -> Array:
    """An array (B,Hkv,S,·) with one more row of zeros."""
    return np.pad(array, [(0, 0), (0, 0), (0, 1), (0, 0)])


TRANSFORMS = (with_sinks, sinks_as_keys)


_KEYS = 4
"""T and S of the problem that is asked."""

_SUMS = np.array([1.0, 4.0])
"""Exponentials of the sinks of the first two heads."""


def _form(asker: Asker) -> Reply:
    """Asks what a sink does to even weights, which are 1 over 4 and its exponential."""
    problem = asker.make_even(_KEYS, _KEYS)
    grown = _SUMS[: problem.sizes.H]
    sinks = np.log(grown).astype(np.float64 if asker.dtype is DType.FLOAT64 else np.float32)
    seen = asker.ask_output(problem.but(sinks=sinks))[..., :_KEYS]
    scaled = grown ** (1 / np.sqrt(asker.subject.scale_width(problem)))
    by_row = grown[np.arange(_KEYS) % len(grown)]
    return name_candidate(seen, {
        "joins": _weights(grown[:, None]), "of_first": _weights(np.full((1, 1), grown[0])),
        "by_row": _weights(by_row[None]), "scaled": _weights(scaled[:, None]), "base_two": _weights(
            (grown ** np.log(2))[:, None]), "ignored": np.full((1, 1, _KEYS), 1 / _KEYS)})


def _weights(grown: Array) -> Array:
    """The weight of each key, (H,T,S) or axes of length 1, by the sinks' exponentials (H,T)."""
    return np.asarray((1 / (_KEYS + grown))[..., None] * np.ones(_KEYS))


QUESTIONS = (
    keyword_question("sinks.form", {
        "joins": "exp(s) joins the sum that they are divided by", "of_first": "all heads have that of the first",
        "by_row": "it is read by row, not by head", "scaled": "it is multiplied by the scale first",
        "base_two": "2^s joins the sum", "ignored": "nothing", **FAILURES}, _form, promised_answer("joins", "sinks")),
)
