"""flax.linen: `dot_product_attention` as a function, which puts T before H, and `MultiHeadDotProductAttention`.

It has no causal flag: the triangle is a mask, made by the library's `make_attention_mask` as `make_causal_mask` does
for squares, and joined by `combine_masks`. Weights come from `dot_product_attention_weights`, or are sown.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import jax.numpy as jnp
from flax import linen

from ..jax.compiled import hurried_jit
from .parameters import kernels

Array = Any
Params = Mapping[str, Array]


def _function(**switches: object) -> Callable[..., Array]:
    """`linen.dot_product_attention`, with these of its keywords set."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
               return_weights: bool = False) -> Array:
        """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for."""
        query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
        given = {"bias": bias, "mask": with_triangle(mask, query.shape[1], key.shape[1], causal), **switches}
        output = linen.dot_product_attention(query, key, value, **given).swapaxes(1, 2)
        return (output, linen.dot_product_attention_weights(query, key, **given)) if return_weights else output

    return attend


def _layer(*, dropout_rate: float = 0.0, **switches: object) -> Callable[..., Array]:
    """`linen.MultiHeadDotProductAttention` with these attributes; what it drops out, it does not when deterministic."""

    def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None,
               causal: bool = False, return_weights: bool = False) -> Array:
        """Query (B,T,M), key and value (B,S,M) to (B,T,M), and weights (B,H,T,S) if asked for."""
        features = {"qkv_features": params["w_query"].shape[1], "out_features": params["w_out"].shape[1]}
        layer = linen.MultiHeadDotProductAttention(num_heads=heads, dropout_rate=dropout_rate, **features, **switches)
        output, sown = layer.apply({"params": kernels(params, heads)}, query, key, value, deterministic=True,
                                   mask=with_triangle(mask, query.shape[1], key.shape[1], causal),
                                   sow_weights=return_weights, mutable=["intermediates"])
        return (output, sown["intermediates"]["attention_weights"][0]) if return_weights else output

    return attend


def with_triangle(mask: Array, T: int, S: int, causal: bool) -> Array:
    """The mask, and the triangle if `causal`: query i sees keys 0 … i."""
    if not causal:
        return mask
    triangle = linen.make_attention_mask(jnp.arange(T)[None], jnp.arange(S)[None], jnp.greater_equal)
    return linen.combine_masks(mask, triangle)


function_eager = _function()
function = hurried_jit(function_eager, "causal", "return_weights")
function_wide_softmax = hurried_jit(_function(force_fp32_for_softmax=True), "causal", "return_weights")
function_dropout_off = hurried_jit(_function(dropout_rate=0.5, deterministic=True), "causal", "return_weights")
layer = hurried_jit(_layer(), "heads", "causal", "return_weights")
layer_wide_softmax = hurried_jit(_layer(force_fp32_for_softmax=True), "heads", "causal", "return_weights")
layer_dropout_off = hurried_jit(_layer(dropout_rate=0.5), "heads", "causal", "return_weights")
