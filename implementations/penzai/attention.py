"""Penzai's attention, put together from its layers as `llamalike_common` does, without projections and positions.

It takes arrays with named axes: an axis of length 1 of a mask is a name that the mask does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional, Tuple

import jax.numpy as jnp
from penzai import pz

from ..jax.compiled import hurried_jit

Array = Any
Window = Optional[Tuple[int, int]]

HIDDEN = -2.3819763e38  # what `llamalike_common` puts in the place of a hidden logit
HEADS = {"heads": "h", "projection": "p"}
POSITIONS = {"query_positions_input_name": "queries", "kv_positions_input_name": "keys"}


def _attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
                 window: Window = None, softcap: float | None = None, scale: float | None = None,
                 return_weights: bool = False) -> Array:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for.

    The sliding window of w keys ends at the query itself, and is causal: (w - 1, 0).
    """
    dtype, D = query.dtype, query.shape[-1]
    rescale = pz.nn.ConstantRescale(by=jnp.array(D**-0.5 if scale is None else scale, dtype))
    to_weights = pz.nn.Sequential(list(_to_weights(dtype, mask is not None, causal, window, softcap)))
    side = {"queries": _named(jnp.arange(query.shape[2]), "seq"), "keys": _named(jnp.arange(key.shape[2]), "seq"),
            "mask": None if mask is None else _mask(mask)}
    query, key, value = (_named(array, "batch", "heads", "seq", "projection") for array in (query, key, value))
    weights = to_weights((rescale(query), key), **side)
    to_output = pz.nn.NamedEinsum(({"seq": "q", "heads": "h", "kv_seq": "k"}, {"seq": "k", **HEADS}),
                                  {"seq": "q", **HEADS})
    output = to_output((weights, value)).unwrap("batch", "heads", "seq", "projection")
    return (output, weights.unwrap("batch", "heads", "seq", "kv_seq")) if return_weights else output


def _to_weights(dtype: object, masked: bool, causal: bool, window: Window,
                softcap: float | None) -> Iterator[pz.nn.Layer]:
    """Queries and keys to weights: einsum, cap, masks, softmax."""
    hidden = {"masked_out_value": jnp.array(HIDDEN, dtype)}
    yield pz.nn.NamedEinsum(({"seq": "q", **HEADS}, {"seq": "k", **HEADS}), {"seq": "q", "heads": "h", "kv_seq": "k"})
    if softcap is not None:
        yield pz.nn.TanhSoftCap(soft_cap=jnp.array(softcap, dtype))
    if masked:
        yield pz.nn.ApplyExplicitAttentionMask(mask_input_name="mask", **hidden)
    if window is not None:
        yield pz.nn.ApplyCausalSlidingWindowAttentionMask(sliding_window_size=window[0] + 1, **hidden, **POSITIONS)
    elif causal:
        yield pz.nn.ApplyCausalAttentionMask(**hidden, **POSITIONS)
    yield pz.nn.Softmax("kv_seq")


def _named(array: Array, *names: str) -> pz.nx.NamedArray:
    return pz.nx.wrap(array).tag(*names)


def _mask(mask: Array) -> pz.nx.NamedArray:
    names = ("batch", "heads", "seq", "kv_seq")
    varied = [name for name, length in zip(names, mask.shape) if length > 1]
    return _named(mask.reshape([length for length in mask.shape if length > 1]), *varied)


attend = hurried_jit(_attend, "causal", "window", "return_weights")
