"""A multi-head layer with its backward pass, as the definition reads: gradients of its inputs and of its parameters.

Of a projection Y = X W + b they are dX = dY W^T, dW = X^T dY and db = dY, the last two summed over the batch and all
places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .attention import Array, wide_of
from .training import attend, attend_backward

PARTS = ("query", "key", "value")


def layer(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, mask: Array | None = None,
          bias: Array | None = None, causal: bool = False, window: tuple[int | None, int | None] | None = None,
          softcap: float | None = None) -> Array:
    """Query (B,T,M), key and value (B,S,M) to (B,T,M)."""
    weights = wide(params, query)
    handed = projected(wide(dict(zip(PARTS, (query, key, value))), query), weights, heads)
    attended = merged(attend(*handed, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap))
    output: Array = (attended @ weights["w_out"] + weights["b_out"]).astype(query.dtype)
    return output


def layer_backward(query: Array, key: Array, value: Array, grad_output: Array, *, params: Mapping[str, Array],
                   heads: int, mask: Array | None = None, bias: Array | None = None, causal: bool = False,
                   window: tuple[int | None, int | None] | None = None,
                   softcap: float | None = None) -> dict[str, Array]:
    """The gradients of query (B,T,M), key and value (B,S,M), of a bias, and of each parameter, w_query (M,H·D), b_query
    (H·D,) and their like, where that of the output is grad_output (B,T,M).
    """
    inputs, weights = wide(dict(zip(PARTS, (query, key, value))), query), wide(params, query)
    handed, grad = projected(inputs, weights, heads), grad_output.astype(wide_of(query))
    keywords: dict[str, Any] = {"mask": mask, "bias": bias, "causal": causal, "window": window, "softcap": softcap}
    of_heads = attend_backward(*handed, split(grad @ weights["w_out"].T, heads), **keywords)
    back = {name: merged(of_heads.pop(name)) for name in PARTS}
    given = {**inputs, "out": merged(attend(*handed, **keywords))}
    results = {**of_heads, **{name: back[name] @ weights[f"w_{name}"].T for name in PARTS}}
    for name, of_projected in (*back.items(), ("out", grad)):
        results[f"w_{name}"] = np.einsum("bli,blo->io", given[name], of_projected)
        results[f"b_{name}"] = of_projected.sum(axis=(0, 1))
    return {name: array.astype(query.dtype) for name, array in results.items()}


def wide(arrays: Mapping[str, Array], query: Array) -> dict[str, Array]:
    """Arrays of any shape in the dtype that is computed in for a query (B,T,M)."""
    return {name: array.astype(wide_of(query)) for name, array in arrays.items()}


def projected(inputs: Mapping[str, Array], weights: Mapping[str, Array], heads: int) -> tuple[Array, Array, Array]:
    """Query (B,T,M), key and value (B,S,M) to those of the heads, (B,H,T,D), (B,Hkv,S,D) and (B,Hkv,S,Dv)."""
    kv_heads = weights["w_key"].shape[1] * heads // weights["w_query"].shape[1]
    query, key, value = (split(inputs[name] @ weights[f"w_{name}"] + weights[f"b_{name}"], count)
                         for name, count in zip(PARTS, (heads, kv_heads, kv_heads)))
    return query, key, value


def split(array: Array, heads: int) -> Array:
    """(B,T,H·D) to (B,H,T,D)."""
    return array.reshape(*array.shape[:2], heads, -1).swapaxes(1, 2)


def merged(array: Array) -> Array:
    """(B,H,T,D) to (B,T,H·D)."""
    B, heads, T, width = array.shape
    return array.swapaxes(1, 2).reshape(B, T, heads * width)
