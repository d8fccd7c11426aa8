"""Transforms of the optional keywords."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, CACHED, OFF, acting_on
from attnspec.numerics.expectation import visible_keys
from attnspec.problems.problem import Array, Problem
from attnspec.vocabulary.hints import DrawnCount, KeywordLeftOut
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention, score_shape


def hide_keys(posed: Attention, *, kept: DrawnCount) -> Attention:
    """Mask every key from position `kept` on, for all queries."""
    problem = posed.one
    mask = np.ones(score_shape(problem), bool) if problem.mask is None else problem.mask.copy()
    mask[..., kept:] = False
    return posed.but(mask=mask)


def show_all(posed: Attention) -> Attention:
    """Pass a mask that keeps every key."""
    return posed.but(mask=np.ones(score_shape(posed.one), bool))


def drop_mask(posed: Attention) -> Attention:
    """Pass no mask."""
    return posed.but(mask=None)


def share_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Give all entries of an axis the mask of the first, still at full shape."""
    return posed.but(mask=np.ascontiguousarray(np.broadcast_to(_first(posed.one, over), score_shape(posed.one))))


def broadcast_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Pass the mask of `share_mask` with that axis of length 1, to be broadcast."""
    return posed.but(mask=np.ascontiguousarray(_first(posed.one, over)))


def _first(problem: Problem, over: str) -> Array:
    """The mask (B,H,T,S) with one axis cut to its first entry and length 1. Raises NoClaim without a mask."""
    if problem.mask is None:
        raise NoClaim("there is no mask")
    return np.take(problem.mask, [0], axis={"batch": 0, "heads": 1, "queries": 2}[over])


def hide_by_mask(posed: Attention) -> Attention:
    """Hand over an explicit mask in place of all that hides keys, but a bias. It is no word; words are made of it."""
    mask = visible_keys(posed.one.but(bias=None), posed.conventions)
    return posed.but(**{**acting_on(Acts.VISIBILITY), "mask": mask})


def zero_bias(posed: Attention) -> Attention:
    """Pass a bias of zeros."""
    return posed.but(bias=np.zeros(score_shape(posed.one), posed.one.query.dtype))


def mask_as_bias(posed: Attention) -> Attention:
    """Pass the mask as an additive bias, with -inf for every masked key."""
    problem = posed.one
    if problem.mask is None:
        raise NoClaim("there is no mask")
    bias = np.zeros(score_shape(problem), problem.query.dtype) if problem.bias is None else problem.bias
    return posed.but(mask=None, bias=np.where(problem.mask, bias, np.array(-np.inf, bias.dtype)))


def causal_as_mask(posed: Attention) -> Attention:
    """Pass the causal flag as an explicit mask, combined with the given mask as the conventions say."""
    problem = posed.one
    # what else hides keys stays a keyword of its own, so only the flag goes into the mask
    others = {name: off for name, off in OFF.items() if name not in ("mask", "causal")}
    return posed.but(causal=False, mask=visible_keys(problem.but(**others), posed.conventions))


def leave_out(posed: Attention, *, keyword: KeywordLeftOut) -> Attention:
    """Make the same call without this keyword, and without what is given together with it. Without past keys, mask and
    bias have no columns of them.
    """
    problem = posed.one
    left_out = {name: OFF[name] for name in (keyword, BESIDE.get(keyword, keyword))}
    columns = {name: np.ascontiguousarray(array[..., problem.past:]) for name in ("mask", "bias")
               if keyword in CACHED and (array := getattr(problem, name)) is not None}
    return posed.but(**{**columns, **left_out})


def ask_weights(posed: Attention) -> Attention:
    """Ask for the weights as well."""
    return posed.but(return_weights=True)
