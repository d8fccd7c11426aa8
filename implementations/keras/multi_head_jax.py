"""The layers of `multi_head` on JAX, under jit, as Keras itself runs a model: parameters go in as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from ..jax.compiled import hurried_jit
from .multi_head import Build, build_of, built, values_of

Array = Any
Window = Tuple[Optional[int], Optional[int]]
Params = Mapping[str, Array]


@dataclass(frozen=True)
class Mode:
    """How a layer is called: the causal flag, whether in training, whether asked for scores."""

    causal: bool
    training: bool = False
    scores: bool = False


def mha(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
        causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention without dropout, not asked for scores."""
    return _called(build_of(query, params, heads, window=window), Mode(causal), (query, value, key, mask), params)


def mha_scores(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False, window: Window | None = None, return_weights: bool = False) -> Array:
    """MultiHeadAttention asked for scores: written out in einsums."""
    build = build_of(query, params, heads, window=window)
    answer = _called(build, Mode(causal, scores=True), (query, value, key, mask), params)
    return answer if return_weights else answer[0]


def mha_dropout(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention made with dropout, in evaluation."""
    build = build_of(query, params, heads, window=window, dropout=0.5)
    return _called(build, Mode(causal), (query, value, key, mask), params)


def mha_training(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                 causal: bool = False, window: Window | None = None) -> Array:
    """MultiHeadAttention without dropout, in training."""
    build = build_of(query, params, heads, window=window)
    return _called(build, Mode(causal, training=True), (query, value, key, mask), params)


def gqa(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
        causal: bool = False, window: Window | None = None) -> Array:
    """GroupQueryAttention without dropout, not asked for scores."""
    build = build_of(query, params, heads, window=window, grouped=True)
    return _called(build, Mode(causal), (query, value, key, mask), params)


def gqa_scores(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False, window: Window | None = None, return_weights: bool = False) -> Array:
    """GroupQueryAttention asked for scores: written out in einsums."""
    build = build_of(query, params, heads, window=window, grouped=True)
    answer = _called(build, Mode(causal, scores=True), (query, value, key, mask), params)
    return answer if return_weights else answer[0]


def gqa_dropout(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
                causal: bool = False, window: Window | None = None) -> Array:
    """GroupQueryAttention made with dropout, in evaluation."""
    build = build_of(query, params, heads, window=window, grouped=True, dropout=0.5)
    return _called(build, Mode(causal), (query, value, key, mask), params)


def _called(build: Build, mode: Mode, inputs: tuple[Array, ...], params: Params) -> Array:
    """The layer's answer. It is built out here: variables made under jit could not be kept."""
    layer = built(build)
    state = [variable.value for variable in layer.non_trainable_variables]
    return _stateless(params, state, inputs, build=build, mode=mode)


def _call(params: Params, state: list[Array], inputs: tuple[Array, ...], *, build: Build, mode: Mode) -> Array:
    query, value, key, mask = inputs
    layer = built(build)
    return layer.stateless_call(
        values_of(layer, params), state, query, value, key, attention_mask=mask, use_causal_mask=mode.causal,
        training=mode.training, return_attention_scores=mode.scores)[0]


_stateless = hurried_jit(_call, "build", "mode")
