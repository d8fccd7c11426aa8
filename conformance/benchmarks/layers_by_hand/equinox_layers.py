"""Layers of Equinox: one sequence, (T, width)."""

import equinox as eqx
import jax
import jax.numpy as jnp


class EqxSelfAttention(eqx.Module):
    wq: eqx.nn.Linear
    wk: eqx.nn.Linear
    wv: eqx.nn.Linear
    wo: eqx.nn.Linear
    n_heads: int = eqx.field(static=True)

    def __init__(self, dim_model, n_heads, *, key):
        a, b, c, d = jax.random.split(key, 4)
        self.wq, self.wk = eqx.nn.Linear(dim_model, dim_model, key=a), eqx.nn.Linear(dim_model, dim_model, key=b)
        self.wv, self.wo = eqx.nn.Linear(dim_model, dim_model, key=c), eqx.nn.Linear(dim_model, dim_model, key=d)
        self.n_heads = n_heads

    def __call__(self, x):
        T, C = x.shape
        q, k, v = (jax.vmap(f)(x).reshape(T, self.n_heads, C // self.n_heads) for f in (self.wq, self.wk, self.wv))
        w = jax.nn.softmax(jnp.einsum("thd,shd->hts", q, k) / (C // self.n_heads) ** 0.5, axis=-1)
        out = jnp.einsum("hts,shd->thd", w, v).reshape(T, C)
        return jax.vmap(self.wo)(out)


class EqxCausal(eqx.Module):
    """Always causal, fused projection."""

    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width, heads, key):
        k1, k2 = jax.random.split(key)
        self.qkv = eqx.nn.Linear(width, 3 * width, use_bias=False, key=k1)
        self.proj = eqx.nn.Linear(width, width, use_bias=False, key=k2)
        self.heads = heads

    def __call__(self, x):
        T, C = x.shape
        q, k, v = jax.vmap(self.qkv)(x).reshape(T, 3, self.heads, C // self.heads).transpose(1, 2, 0, 3)
        s = q @ k.swapaxes(1, 2) / (C // self.heads) ** 0.5
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf)
        return jax.vmap(self.proj)((jax.nn.softmax(s, -1) @ v).transpose(1, 0, 2).reshape(T, C))
