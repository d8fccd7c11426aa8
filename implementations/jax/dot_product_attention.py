"""`jax.nn.dot_product_attention`: op by op, under jit, by the default compiler, vmapped. It puts T before H."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .compiled import hurried_jit

Array = Any


def eager(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
          scale: float | None = None) -> Array:
    """Query (B,H,T,D), key and value (B,Hkv,S,D) to (B,H,T,D)."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    output = jax.nn.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale)
    return output.swapaxes(1, 2)


def _named(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    """The same, with the implementation `xla` asked for by its name."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    output = jax.nn.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale,
                                          implementation="xla")
    return output.swapaxes(1, 2)


def _vmapped(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
             scale: float | None = None) -> Array:
    """The same, mapped over the batch: to the function there is none."""

    def one(query: Array, key: Array, value: Array, mask: Array, bias: Array) -> Array:
        query, key, value = (array.swapaxes(0, 1) for array in (query, key, value))
        output = jax.nn.dot_product_attention(query, key, value, bias=bias, mask=mask, is_causal=causal, scale=scale)
        return output.swapaxes(0, 1)

    shared = [None if array is None or array.shape[0] == 1 else 0 for array in (mask, bias)]
    mask, bias = (array[0] if array is not None and axis is None else array
                  for array, axis in zip((mask, bias), shared))
    return jax.vmap(one, in_axes=(0, 0, 0, *shared))(query, key, value, mask, bias)


def _windowed(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
              window: tuple[int, int] | None = None) -> Array:
    """The same with `local_window_size`, which is two numbers."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    output = jax.nn.dot_product_attention(query, key, value, mask=mask, is_causal=causal, local_window_size=window)
    return output.swapaxes(1, 2)


def _with_lengths(query: Array, key: Array, value: Array, *, mask: Array = None, scale: float | None = None) -> Array:
    """The same with `key_value_seq_lengths`: keys and values that a mask (B,H,T,S) leaves visible, the same for all
    heads and queries, are put first and counted.
    """
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    lengths = None
    if mask is not None:
        order = jnp.argsort(~mask[:, 0, 0], axis=-1)[:, :, None, None]
        key, value = (jnp.take_along_axis(array, order, axis=1) for array in (key, value))
        lengths = mask[:, 0, 0].sum(axis=-1).astype(jnp.int32)
    output = jax.nn.dot_product_attention(query, key, value, scale=scale, key_value_seq_lengths=lengths)
    return output.swapaxes(1, 2)


jitted = hurried_jit(eager, "causal")
default_compiler = jax.jit(eager, static_argnames=("causal",))
named = hurried_jit(_named, "causal")
vmapped = hurried_jit(_vmapped, "causal")
windowed = hurried_jit(_windowed, "causal", "window")
with_lengths = hurried_jit(_with_lengths)
