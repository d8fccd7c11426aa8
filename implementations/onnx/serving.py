"""The operator Attention with past keys and values, and with the number of keys of each batch entry."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from . import attention
from .model import LENGTHS, Node, feeds, heads_apart, heads_side_by_side, node_of

Array = Any
Window = Optional[Tuple[Optional[int], Optional[int]]]
Run = Callable[[Node, Dict[str, Array]], Array]


def with_past(run: Run, query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
              past_key: Array = None, past_value: Array = None, three_axes: bool = False, **settings: Any) -> Array:  # noqa: ANN401  (a node's)
    """The operator run on these inputs; `three_axes`: on (B,L,H·D) instead of (B,H,L,D), but for the past."""
    heads = (query.shape[1], key.shape[1]) if three_axes else None
    node = node_of(query, mask, bias, past=past_key is not None, heads=heads, **settings)
    if three_axes:
        query, key, value = (heads_side_by_side(array) for array in (query, key, value))
    inputs = feeds(query, key, value, mask, bias)
    if past_key is not None:
        inputs = {**inputs, "past_key": past_key, "past_value": past_value}
    answer = run(node, inputs)
    if heads is None:
        return answer
    return (heads_apart(answer[0], heads[0]), answer[1]) if node.weights else heads_apart(answer, heads[0])


def with_lengths(run: Run, query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                 key_lengths: Array = None, **settings: Any) -> Array:  # noqa: ANN401  (a node's)
    """The operator run on these inputs and always with numbers of keys: the causal flag counts from them."""
    B, S = key.shape[0], key.shape[2]
    node = node_of(query, mask, bias, lengths=True, **settings)
    lengths = np.full(B, S, np.int64) if key_lengths is None else key_lengths.astype(np.int64)
    return run(node, {**feeds(query, key, value, mask, bias), LENGTHS: lengths})


def bounds(window: Window) -> tuple[int, int] | None:
    """The window's attributes: -1 for no bound."""
    return None if window is None else (-1 if window[0] is None else window[0], -1 if window[1] is None else window[1])


def past(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
         scale: float | None = None, softcap: float | None = None, past_key: Array = None, past_value: Array = None,
         return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,H,L,D), past keys (B,Hkv,P,D) and past values (B,Hkv,P,Dv)."""
    return with_past(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                     softcap=softcap, past_key=past_key, past_value=past_value, weights=return_weights)


def past_24(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """The same by Attention-24."""
    return with_past(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                     softcap=softcap, past_key=past_key, past_value=past_value, weights=return_weights, opset=24)


def past_3d(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """The same of inputs (B,L,H·D)."""
    return with_past(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                     softcap=softcap, past_key=past_key, past_value=past_value, weights=return_weights,
                     three_axes=True)


def past_25(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, window: Window = None, past_key: Array = None,
            past_value: Array = None, return_weights: bool = False) -> Array:
    """Attention-25, which has a window, of inputs (B,H,L,D) and a past."""
    return with_past(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                     softcap=softcap, past_key=past_key, past_value=past_value, window=bounds(window),
                     weights=return_weights, opset=25)


def lengths(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
            scale: float | None = None, softcap: float | None = None, key_lengths: Array = None,
            return_weights: bool = False) -> Array:
    """Attention-24 of inputs (B,H,L,D) and numbers of keys (B,)."""
    return with_lengths(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                        softcap=softcap, key_lengths=key_lengths, weights=return_weights, opset=24)


def lengths_25(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False, scale: float | None = None, softcap: float | None = None, window: Window = None,
               key_lengths: Array = None, return_weights: bool = False) -> Array:
    """Attention-25, which has a window, of inputs (B,H,L,D) and numbers of keys (B,)."""
    return with_lengths(attention.evaluated, query, key, value, mask=mask, bias=bias, causal=causal, scale=scale,
                        softcap=softcap, key_lengths=key_lengths, window=bounds(window), weights=return_weights,
                        opset=25)
