"""The words of the spec language that are about sinks."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, acting_on
from attnspec.numerics.expectation import visible_keys
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.problem import Array
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention


def with_sinks(posed: Attention, *, to: Literal["minus infinity"]) -> Attention:  # noqa: ARG001  (so that clauses read)
    """Hand over sinks of -inf."""
    problem = posed.one
    return posed.but(sinks=keyword_array("sinks", "minus_infinity", 0, problem.sizes, problem.dtype))


def sinks_as_keys(posed: Attention) -> Attention:
    """Give every head one more key, a value of zeros with it, and the sink as the bias of that key; what hides other
    keys becomes a mask. No claim where the dtype does not hold the sinks.
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
    """(B,Hkv,S,·) with one more row of zeros."""
    return np.pad(array, [(0, 0), (0, 0), (0, 1), (0, 0)])


TRANSFORMS = (with_sinks, sinks_as_keys)
