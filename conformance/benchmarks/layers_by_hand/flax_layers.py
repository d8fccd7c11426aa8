"""Layers of Flax, both APIs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx


class LinenSelfAttention(nn.Module):
    """(B, T, features)."""

    features: int
    n_heads: int

    def setup(self):
        self.qkv = nn.Dense(3 * self.features)
        self.proj = nn.Dense(self.features)

    def __call__(self, x):
        B, T, C = x.shape
        q, k, v = jnp.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape(B, T, self.n_heads, C // self.n_heads) for t in (q, k, v))
        s = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(C // self.n_heads).astype(x.dtype)
        o = jnp.einsum("bhts,bshd->bthd", nn.softmax(s, axis=-1), v)
        return self.proj(o.reshape(B, T, C))


class LinenCrossAttention(nn.Module):
    """Projections with an axis of heads, and a mask that is True where a query may look."""

    num_heads: int

    @nn.compact
    def __call__(self, inputs_q, inputs_kv, mask=None):
        width = inputs_q.shape[-1]
        shape = (self.num_heads, width // self.num_heads)
        q = nn.DenseGeneral(shape, name="query")(inputs_q)
        k = nn.DenseGeneral(shape, name="key")(inputs_kv)
        v = nn.DenseGeneral(shape, name="value")(inputs_kv)
        logits = jnp.einsum("...qhd,...khd->...hqk", q, k) / jnp.sqrt(shape[1]).astype(q.dtype)
        if mask is not None:
            logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
        out = jnp.einsum("...hqk,...khd->...qhd", jax.nn.softmax(logits), v)
        return nn.DenseGeneral(width, axis=(-2, -1), name="out")(out)


class NnxAttention(nnx.Module):
    def __init__(self, dim, heads, *, rngs: nnx.Rngs):
        self.heads = heads
        self.to_qkv = nnx.Linear(dim, 3 * dim, use_bias=False, rngs=rngs)
        self.to_out = nnx.Linear(dim, dim, rngs=rngs)

    def __call__(self, x):
        b, n, d = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3) for t in jnp.split(self.to_qkv(x), 3, -1))
        w = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (d // self.heads) ** -0.5, axis=-1)
        return self.to_out((w @ v).transpose(0, 2, 1, 3).reshape(b, n, d))


class NnxCross(nnx.Module):
    def __init__(self, d_model: int, nhead: int, rngs: nnx.Rngs):
        self.nhead = nhead
        self.q, self.k, self.v, self.o = (nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(4))

    def __call__(self, x, memory):
        split = lambda t: t.reshape(*t.shape[:2], self.nhead, -1)  # noqa: E731
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        s = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        o = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(s, -1), v)
        return self.o(o.reshape(x.shape))
