"""Transforms of how a problem is asked: again, after other calls, from other memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.problems.problem import Array, heads_last, with_gaps
from attnspec.vocabulary.hints import DrawnSeed
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms.axes import ARRAYS, Attention, keep_prefix
from attnspec.vocabulary.transforms.contents import other_content

FULL = 4
"""Axes of the arrays that are laid out otherwise: lengths have one."""


def again(posed: Attention) -> Attention:
    """Make the same call once more; no earlier answer is used again."""
    return replace(posed, fresh=True)


def after_another(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Make the call after one with other arrays of the same shapes; if T = S, also after one of a single position.

    If a scale is given, it is larger by 1 in the earlier calls.
    """
    other = other_content(posed, by=by, arrays=("query", "key", "value"))
    # a scale that is remembered from the call before shows only where it was another
    other = other.but(scale=None if other.one.scale is None else other.one.scale + 1)
    square = other.one.sizes.T == other.one.sizes.S
    shorter = (keep_prefix(other, cut=Drawn(0)).one,) if square else ()
    return replace(posed, fresh=True, before=(other.one, *shorter))


def lay_out(posed: Attention, *, layout: Literal["strided", "transposed", "broadcast"]) -> Attention:
    """Pass the same arrays in another memory layout.

    strided: with gaps along every axis.  transposed: (B,H,T,D) as a view of memory that lies (B,T,H,D), as split heads
    do.  broadcast: heads whose entries are all equal share one head's memory, at stride 0. No claim where
    arrays of such sizes can lie in one way only.
    """
    view = {"strided": with_gaps, "transposed": heads_last, "broadcast": _one_head}[layout]
    arrays = {name: getattr(posed.one, name) for name in ARRAYS}
    laid = {name: view(array) for name, array in arrays.items() if array is not None and array.ndim == FULL}
    if layout != "broadcast" and all(array.flags.c_contiguous for array in laid.values()):
        raise NoClaim("arrays of these sizes have one layout")
    return replace(posed.but(**laid), fresh=True)


def _one_head(array: Array) -> Array:
    """(B,H,T,D) and its like as a view of one head's memory, where all heads are equal; else as it is."""
    # bits, not numbers: NaN is no reason to differ, and -0 is not 0
    is_shared = array.tobytes() == np.broadcast_to(array[:, :1], array.shape).tobytes()
    return np.broadcast_to(array[:, :1].copy(), array.shape) if is_shared else array
