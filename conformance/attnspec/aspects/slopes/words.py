"""The words of the spec language that are about slopes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.aspects.slopes.mathematics import alibi
from attnspec.numerics.operands import own_places
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention


def slopes_as_bias(posed: Attention) -> Attention:
    """Hand slopes over as the bias that they stand for, added to the given one. No claim where the dtype does not hold
    it.
    """
    problem = posed.one
    if problem.alibi_slopes is None:
        raise NoClaim("there are no slopes")
    bias, _ = alibi(problem, own_places(problem, posed.conventions))
    bias = bias if problem.bias is None else bias + problem.bias.astype(np.float64)
    with np.errstate(over="ignore"):
        stored = bias.astype(problem.query.dtype)
    if not np.array_equal(stored.astype(np.float64), bias):
        raise NoClaim("the change is not exact in the dtype")
    return posed.but(alibi_slopes=None, bias=stored)


def with_slopes(posed: Attention, *, to: Literal["zero"]) -> Attention:
    """Hand over slopes of zero."""
    problem = posed.one
    return posed.but(alibi_slopes=keyword_array("alibi_slopes", to, 0, problem.sizes, problem.dtype))


TRANSFORMS = (slopes_as_bias, with_slopes)
