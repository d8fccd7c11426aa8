"""Functions of JAX arrays: masks, vmap, dicts of parameters, scans, caches, a backward pass of their own."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def attend(q, k, v, mask=None):
    """(B, T, H, D); mask is True where a query may look, (B, 1, T, S)."""
    logits = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1]).astype(q.dtype)
    if mask is not None:
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits, axis=-1), v)


def single_head(q, k, v):
    s = q @ k.T * q.shape[-1] ** -0.5
    return jax.nn.softmax(s, axis=-1) @ v


def mapped_attention(queries, keys, values):
    """(B, H, T, D), one head at a time."""
    return jax.vmap(jax.vmap(single_head))(queries, keys, values)


def init_mha(rng, d_model):
    keys = jax.random.split(rng, 4)
    shape = (d_model, d_model)
    return {name: jax.random.normal(key, shape) * d_model ** -0.5 for name, key in zip(("wq", "wk", "wv", "wo"), keys, strict=True)}


def mha_apply(params, x, n_heads):
    """(B, T, C) with a dict of four matrices."""
    B, T, C = x.shape
    q, k, v = (jnp.reshape(x @ params[n], (B, T, n_heads, C // n_heads)).transpose(0, 2, 1, 3) for n in ("wq", "wk", "wv"))
    w = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (C // n_heads) ** 0.5, axis=-1)
    o = (w @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return o @ params["wo"]


def gqa(q, k, v, is_causal=True):
    """(B, H, T, D) and (B, Hkv, S, D)."""
    n_rep = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, n_rep, axis=1), jnp.repeat(v, n_rep, axis=1)
    s = jnp.einsum("bhtd,bhsd->bhts", q, k) * (q.shape[-1] ** -0.5)
    if is_causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], dtype=bool)), s, -jnp.inf)
    return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(s, axis=-1), v)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def attention_core(q, k, v, scale):
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale, axis=-1) @ v


def _forward(q, k, v, scale):
    p = jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale, axis=-1)
    return p @ v, (q, k, v, p)


def _backward(scale, saved, g):
    q, k, v, p = saved
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True))
    dq = ds @ k * scale
    dk = ds.swapaxes(-1, -2) @ q * scale
    return dq, dk, p.swapaxes(-1, -2) @ g


attention_core.defvjp(_forward, _backward)


def attention_with_vjp(q, k, v):
    """(B, H, T, D)."""
    return attention_core(q, k, v, q.shape[-1] ** -0.5)


def scanned_attention(q, k, v):
    """(B, H, T, D): one key after the other, in a scan that holds the running maximum."""

    def step(carry, pair):
        top, total, acc = carry
        key, value = pair
        s = jnp.sum(q * key[:, :, None, :], axis=-1) * q.shape[-1] ** -0.5
        new = jnp.maximum(top, s)
        shrink, e = jnp.exp(top - new), jnp.exp(s - new)
        total = total * shrink + e
        acc = acc * shrink[..., None] + e[..., None] * value[:, :, None, :]
        return (new, total, acc), None

    start = (jnp.full(q.shape[:-1], -jnp.inf, q.dtype), jnp.zeros(q.shape[:-1], q.dtype),
             jnp.zeros((*q.shape[:-1], v.shape[-1]), q.dtype))
    (_, total, acc), _ = lax.scan(step, start, (jnp.moveaxis(k, 2, 0), jnp.moveaxis(v, 2, 0)))
    return acc / total[..., None]


def attend_and_cache(params, x, cache, n_heads):
    """Causal; cache is a dict of k and v, (B, positions, H, D), and of the index of the next position."""
    B, T, C = x.shape
    q, k, v = (jnp.reshape(x @ params[n], (B, T, n_heads, C // n_heads)) for n in ("q", "k", "v"))
    index = cache["index"]
    keys = lax.dynamic_update_slice(cache["k"], k, (0, index, 0, 0))
    values = lax.dynamic_update_slice(cache["v"], v, (0, index, 0, 0))
    places = jnp.arange(keys.shape[1])
    visible = places[None, :] <= index + jnp.arange(T)[:, None]
    s = jnp.einsum("bthd,bshd->bhts", q, keys) / (C // n_heads) ** 0.5
    w = jax.nn.softmax(jnp.where(visible, s, -jnp.inf), axis=-1)
    out = jnp.einsum("bhts,bshd->bthd", w, values).reshape(B, T, C) @ params["o"]
    return out, {"k": keys, "v": values, "index": index + T}
