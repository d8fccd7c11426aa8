"""Wrong projections, splits and merges of layers."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import layer as sound
from attnspec.faults.layer import Params
from attnspec.problems.problem import Array


def query_scaled_before_bias(x: Array, which: str, params: Params) -> Array:
    """The query's projection (B,T,H·D) is scaled, then its bias added: in effect a bias too large by sqrt(D)."""
    return sound.project(x, which, params) + params.get("b_query", np.float32(0)) * np.float32(3)  # 4 b, as for D = 16


def without_bias(x: Array, which: str, params: Params) -> Array:
    """(B,·,M) or, for `out`, (B,T,H·Dv), times the weight alone."""
    return x @ params[f"w_{which}"]


def bias_twice(x: Array, which: str, params: Params) -> Array:
    """The projected value (B,S,Hkv·Dv) or output (B,T,M) with its bias added once more."""
    return sound.project(x, which, params) + params.get(f"b_{which}", np.zeros((), x.dtype))


def bias_subtracted(x: Array, which: str, params: Params) -> Array:
    """The projected query (B,T,H·D) with its bias subtracted."""
    return sound.project(x, which, params) - 2 * params.get(f"b_{which}", np.zeros((), x.dtype))


def as_if(other: str) -> Callable[[Array, str, Params], Array]:
    """(B,·,M) projected with the parameters of another projection where the shapes allow it."""
    def project(x: Array, which: str, params: Params) -> Array:
        """(B,·,M) projected as `other` where both weights have one shape, else as `which`."""
        fits = params[f"w_{which}"].shape == params[f"w_{other}"].shape
        return sound.project(x, other if fits else which, params)
    return project


def transposed(x: Array, which: str, params: Params) -> Array:
    """(B,T,M) or, for `out`, (B,T,H·Dv), by the (out, in) weight of another library, used as (in, out) or misread."""
    weight = params[f"w_{which}"]
    return sound.project(x, which, {**params, f"w_{which}": weight.T.reshape(weight.shape)})


def as_wide_as_query(x: Array, which: str, params: Params) -> Array:
    """Keys (B,S,M) projected by their own weight, read with the shape of the query's, (M,H·D)."""
    weight = params[f"w_{which}"].reshape(params["w_query"].shape)
    return sound.project(x, which, {**params, f"w_{which}": weight})


def skipped_if_square(x: Array, which: str, params: Params) -> Array:
    """The merged heads (B,T,H·Dv), not projected where H·Dv = M."""
    weight = params[f"w_{which}"]
    return x if weight.shape[0] == weight.shape[1] else sound.project(x, which, params)


def split_interleaved(x: Array, heads: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D): head h owns the columns h, h + H, h + 2H, …"""
    B, T, width = x.shape
    return x.reshape(B, T, width // heads, heads).transpose(0, 3, 1, 2)


def split_flat(x: Array, heads: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D) by view(B, H, T, D) without the transpose."""
    B, T, width = x.shape
    return x.reshape(B, heads, T, width // heads)


def merged_flat(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv) by a reshape without transposing back."""
    B, H, T, Dv = x.shape
    return x.reshape(B, T, H * Dv)


def merged_interleaved(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), the heads of each feature side by side."""
    B, H, T, Dv = x.shape
    return x.transpose(0, 2, 3, 1).reshape(B, T, H * Dv)


def merged_reversed(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), last head first."""
    return sound.merge(x[:, ::-1])


def first_head_everywhere(x: Array) -> Array:
    """(B,H,T,Dv) -> (B,T,H·Dv), head 0 in the place of every head."""
    return sound.merge(np.broadcast_to(x[:, :1], x.shape))
