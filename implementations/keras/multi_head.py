"""`keras.layers.MultiHeadAttention` and `GroupQueryAttention` on whatever backend KERAS_BACKEND names.

They are called with (query, value, key). A window reaches equally far to both sides: sliding_window counts the query's
own key, so it is one more than a side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Mapping, Optional, Tuple

import keras
import numpy as np
from keras import layers

Array = Any
Layer = Any
Window = Tuple[Optional[int], Optional[int]]
Params = Mapping[str, Array]

PROJECTIONS = {"query": "query", "key": "key", "value": "value", "out": "attention_output"}


@dataclass(frozen=True)
class Build:
    """What a layer is built from: the widths of the model and of heads, the number of heads, and its switches."""

    M: int
    H: int
    Hkv: int
    D: int
    Dv: int
    dtype: str
    grouped: bool = False
    dropout: float = 0.0
    reach: int | None = None


class Blank(keras.initializers.Initializer):  # type: ignore[misc]  # Keras is not seen by mypy
    """Zeros from NumPy: JAX compiles Keras's own initializers anew for every shape."""

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> Array:  # noqa: ARG002  (Keras's signature)
        """The values; the variable has the dtype."""
        return np.zeros(shape, np.float32)


def mha(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
        causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention without dropout, not asked for scores."""
    layer = _filled(build_of(query, params, heads, window=window), params)
    return layer(query, value, key, attention_mask=mask, use_causal_mask=causal)


def mha_scores(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False, window: Window | None = None, return_weights: bool = False) -> Array:
    """MultiHeadAttention asked for scores: written out in einsums."""
    layer = _filled(build_of(query, params, heads, window=window), params)
    answer = layer(query, value, key, attention_mask=mask, use_causal_mask=causal, return_attention_scores=True)
    return answer if return_weights else answer[0]


def mha_dropout(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention made with dropout, in evaluation."""
    layer = _filled(build_of(query, params, heads, window=window, dropout=0.5), params)
    return layer(query, value, key, attention_mask=mask, use_causal_mask=causal, training=False)


def mha_training(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                 causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention without dropout, in training."""
    layer = _filled(build_of(query, params, heads, window=window), params)
    return layer(query, value, key, attention_mask=mask, use_causal_mask=causal, training=True)


def gqa(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
        causal: bool = False, window: Window | None = None) -> Array:
    """GroupQueryAttention without dropout, not asked for scores."""
    layer = _filled(build_of(query, params, heads, window=window, grouped=True), params)
    return layer(query, value, key, attention_mask=mask, use_causal_mask=causal)


def gqa_scores(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False, window: Window | None = None, return_weights: bool = False) -> Array:
    """GroupQueryAttention asked for scores: written out in einsums."""
    layer = _filled(build_of(query, params, heads, window=window, grouped=True), params)
    answer = layer(query, value, key, attention_mask=mask, use_causal_mask=causal, return_attention_scores=True)
    return answer if return_weights else answer[0]


def gqa_dropout(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                causal: bool = False, window: Window | None = None) -> Array:
    """GroupQueryAttention made with dropout, in evaluation."""
    layer = _filled(build_of(query, params, heads, window=window, grouped=True, dropout=0.5), params)
    return layer(query, value, key, attention_mask=mask, use_causal_mask=causal, training=False)


def filled_for(query: Array, params: Params, heads: int) -> Layer:
    """MultiHeadAttention without dropout, with these parameters."""
    return _filled(build_of(query, params, heads), params)


def build_of(query: Array, params: Params, heads: int, *, window: Window | None = None, grouped: bool = False,
             dropout: float = 0.0) -> Build:
    """What the layer for these parameters is built from."""
    D = params["w_query"].shape[1] // heads
    Hkv = params["w_key"].shape[1] // D
    reach = None if window is None or window[0] is None else window[0] + 1
    return Build(M=query.shape[2], H=heads, Hkv=Hkv, D=D, Dv=params["w_value"].shape[1] // Hkv,
                 dtype=keras.backend.standardize_dtype(query.dtype), grouped=grouped, dropout=dropout, reach=reach)


@lru_cache(maxsize=256)
def built(build: Build) -> Layer:
    """A layer of these sizes; what is in it is put there before each call."""
    switches = {"dropout": build.dropout, "dtype": build.dtype, "kernel_initializer": Blank(),
                "bias_initializer": Blank()}
    if build.reach is not None:  # releases before 3.15 know no window
        switches["sliding_window"] = build.reach
    if build.grouped:
        layer = layers.GroupQueryAttention(build.D, build.H, build.Hkv, **switches)
    else:
        layer = layers.MultiHeadAttention(build.H, build.D, build.Dv, **switches)
    inputs = (None, None, build.M)
    layer.build(inputs, inputs, inputs)
    return layer


def values_of(layer: Layer, params: Params) -> list[Array]:
    """The parameters in the layer's order and shapes: kernels (M,H,D), out (H,Dv,M), biases (H,D), out (M)."""
    named = {f"{theirs}/{kind}": params[f"{letter}_{ours}"] for ours, theirs in PROJECTIONS.items()
             for kind, letter in (("kernel", "w"), ("bias", "b"))}
    variables = [variable for variable in layer.weights if "seed" not in variable.path]
    return [named["/".join(variable.path.split("/")[-2:])].reshape(variable.shape) for variable in variables]


def _filled(build: Build, params: Params) -> Layer:
    layer = built(build)
    variables = [variable for variable in layer.weights if "seed" not in variable.path]
    for variable, value in zip(variables, values_of(layer, params)):
        variable.assign(value)
    return layer
