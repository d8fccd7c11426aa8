"""Functions of JAX with the signatures of published ones, on arrays and over parameters; plain arithmetic.

`SOURCES` says where each signature is taken from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = Any  # JAX is not seen by mypy
Linear = dict[str, Array]

GITHUB = "https://github.com"
SOURCES = {
    "dot_product_attention": ("flax.linen and flax.nnx", f"{GITHUB}/google/flax/blob/main/flax/nnx/nn/attention.py"),
    "keras_dot_product_attention": ("Keras (ops.dot_product_attention)",
                                    f"{GITHUB}/keras-team/keras/blob/master/keras/src/ops/nn.py"),
    "equinox_dot_product_attention": ("Equinox (dot_product_attention)",
                                      f"{GITHUB}/patrick-kidger/equinox/blob/main/equinox/nn/_attention.py"),
    "mha": ("JAX's Pallas kernel", f"{GITHUB}/jax-ml/jax/blob/main/jax/experimental/pallas/ops/gpu/attention.py"),
    "flash_attention": ("flash-attention-jax",
                        f"{GITHUB}/lucidrains/flash-attention-jax/blob/main/flash_attention_jax/flash_attention.py"),
    "entropix_attention": ("entropix (attention), without its cache",
                           f"{GITHUB}/xjdr-alt/entropix/blob/main/entropix/model.py"),
    "multi_head_attention": ("the form of many teaching repositories: a dict of matrices", ""),
    "cross_attention": ("the same: to a context of its own", ""),
    "attention_of_tuples": ("the same: tuples of weight and bias, taken apart by a helper", ""),
    "attention_of_a_nested_dict": ("the same: a dict of dicts, with an initialiser beside it", ""),
    "attention_of_a_block": ("the same: a part of a larger tree, taken apart in a loop and by a helper inside", ""),
    "attention_of_four_heads": ("the same, whose number of heads is a constant of its module", ""),
    "attention_of_named_kernels": ("Flax's parameters as a function: kernels and biases with an axis of heads", ""),
    "attention_with_kernels": ("Gemma's einsums, (heads, width, head width), as a function",
                               f"{GITHUB}/google-deepmind/gemma/blob/main/gemma/gm/nn/_modules.py"),
}


def _attended(q: Array, k: Array, v: Array, visible: Array = None, added: Array = None, scale: float | None = None) -> Array:
    """Of q (…,T,D), k and v (…,S,D)."""
    logits = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    logits = logits if added is None else logits + added
    logits = logits if visible is None else jnp.where(visible, logits, -1e10)
    return jax.nn.softmax(logits, axis=-1) @ v


def dot_product_attention(query: Array, key: Array, value: Array, bias: Array = None, mask: Array = None,
                          broadcast_dropout: bool = True, dropout_rng: Array = None, dropout_rate: float = 0.0,
                          deterministic: bool = False, dtype: Any = None, precision: Any = None, module: Any = None,  # noqa: ANN401
                          promote_dtype: Any = jnp.promote_types, is_causal: bool = False) -> Array:  # noqa: ANN401
    """(B,T,H,D)."""
    q, k, v = (array.swapaxes(1, 2) for array in (query, key, value))
    k, v = (jnp.repeat(array, q.shape[1] // k.shape[1], axis=1) for array in (k, v))
    triangle = jnp.tri(q.shape[2], k.shape[2], dtype=bool) if is_causal else None
    visible = triangle if mask is None else mask if triangle is None else mask & triangle
    return _attended(q, k, v, visible, bias).swapaxes(1, 2)


def keras_dot_product_attention(query: Array, key: Array, value: Array, bias: Array = None, mask: Array = None,
                                scale: float | None = None, is_causal: bool = False,
                                flash_attention: bool | None = None,
                                attn_logits_soft_cap: float | None = None) -> Array:
    """(B,T,H,D); the cap is for one kernel alone."""
    assert attn_logits_soft_cap is None
    q, k, v = (array.swapaxes(1, 2) for array in (query, key, value))
    triangle = jnp.tri(q.shape[2], k.shape[2], dtype=bool) if is_causal else None
    visible = triangle if mask is None else mask if triangle is None else mask & triangle
    return _attended(q, k, v, visible, bias, scale).swapaxes(1, 2)


def equinox_dot_product_attention(query: Array, key_: Array, value: Array, mask: Array = None,
                                  dropout: Any = None, *, key: Array = None,  # noqa: ANN401  (a layer of Equinox)
                                  inference: bool | None = None) -> Array:
    """(T,D): one head of one sequence; `key` is of random numbers."""
    assert query.ndim == 2
    return _attended(query, key_, value, mask)


@dataclass(frozen=True)
class BlockSizes:
    """Of a kernel."""

    block_q: int = 128
    block_k: int = 128


@partial(jax.jit, static_argnames=("sm_scale", "causal", "block_sizes", "interpret"))
def mha(q: Array, k: Array, v: Array, segment_ids: Array, sm_scale: float = 1.0, causal: bool = False,
        block_sizes: BlockSizes = BlockSizes(), backward_pass_impl: str = "triton", num_warps: int | None = None,
        num_stages: int = 2, interpret: bool = False) -> Array:
    """(B,T,H,D); its own default scale is 1."""
    assert segment_ids is None
    q, k, v = (array.swapaxes(1, 2) for array in (q, k, v))
    visible = jnp.tri(q.shape[2], k.shape[2], dtype=bool) if causal else None
    return _attended(q, k, v, visible, scale=sm_scale).swapaxes(1, 2)


def flash_attention(q: Array, k: Array, v: Array, key_mask: Array) -> Array:
    """(B,H,T,D); a mask (B,S) that has to be given."""
    return _attended(q, k, v, key_mask[:, None, None])


class LayerWeights(NamedTuple):
    """A layer's, of which attention reads four."""

    wq: Array
    wk: Array
    wv: Array
    wo: Array
    w1: Array
    w2: Array
    w3: Array
    ffn_norm: Array
    attention_norm: Array


def entropix_attention(x: Array, layer_weights: LayerWeights, n_heads: int, attn_mask: Array = None) -> tuple[Array, Array]:
    """(B,T,M) to a pair of output and logits; matrices (M,H,D)."""
    heads = [layer_weights.wq, layer_weights.wk, layer_weights.wv]
    q, k, v = (jnp.einsum("btm,mhd->bhtd", x, each) for each in heads)
    logits = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
    weights = jax.nn.softmax(logits if attn_mask is None else logits + attn_mask, axis=-1)
    return (weights @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ layer_weights.wo, logits


def _heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def _merged(x: Array) -> Array:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def multi_head_attention(params: Linear, X: Array, num_heads: int, *, causal: bool = True) -> Array:
    """(B,T,M); a dict of four matrices; causal by default."""
    q, k, v = (_heads(each, num_heads) for each in (X @ params["W_q"], X @ params["W_k"], X @ params["W_v"]))
    triangle = jnp.tri(X.shape[1], dtype=bool) if causal else None
    return _merged(_attended(q, k, v, triangle)) @ params["W_o"]


def _affine(params: tuple[Array, Array], x: Array) -> Array:
    w, b = params
    return jnp.dot(x, w) + b


def attention_of_tuples(params: tuple[Any, Any], x: Array, mask: Array, n_head: int) -> Array:
    """(B,T,M); the mask has to be given and may be None, 0 hides."""
    wqkv, wo = params
    q, k, v = (_heads(each, n_head) for each in jnp.split(_affine(wqkv, x), 3, axis=-1))
    return _affine(wo, _merged(_attended(q, k, v, None if mask is None else mask != 0)))


def init_attention(key: Array, d_model: int) -> dict[str, Linear]:
    """Four dicts of kernel and bias."""
    keys = jax.random.split(key, 4)
    return {name: {"kernel": jax.random.normal(each, (d_model, d_model)), "bias": jnp.zeros(d_model)}
            for name, each in zip(("query", "key", "value", "out"), keys, strict=True)}


def attention_of_a_nested_dict(params: dict[str, Linear], x: Array, num_heads: int, mask: Array = None) -> Array:
    """(B,T,M)."""
    def dense(name: str, x: Array) -> Array:
        return x @ params[name]["kernel"] + params[name]["bias"]

    q, k, v = (_heads(dense(name, x), num_heads) for name in ("query", "key", "value"))
    return dense("out", _merged(_attended(q, k, v, mask)))


def attention_of_a_block(params: dict[str, dict[str, Linear]], x: Array, num_heads: int, causal: bool = False) -> Array:
    """(B,T,M)."""
    def linear(p: Linear, y: Array) -> Array:
        return y @ p["w"] + p["b"]

    block = params["attn"]
    q, k, v = (_heads(linear(block[f"{name}_proj"], x), num_heads) for name in "qkv")
    triangle = jnp.tri(x.shape[1], dtype=bool) if causal else None
    return linear(block["o_proj"], _merged(_attended(q, k, v, triangle)))


def cross_attention(params: dict[str, Array], x: Array, context: Array, num_heads: int, mask: Array = None) -> Array:
    """(B,T,M), the context (B,S,M), a mask (B,1,T,S)."""
    q, k, v = (_heads(each @ params[name], num_heads) for each, name in ((x, "wq"), (context, "wk"), (context, "wv")))
    return _merged(_attended(q, k, v, mask)) @ params["wo"]


HEADS = 4


def attention_of_four_heads(params: dict[str, Array], x: Array) -> Array:
    """(B,T,M)."""
    q, k, v = (_heads(x @ params[f"W{name}"], HEADS) for name in "qkv")
    return _merged(_attended(q, k, v)) @ params["Wo"]


def _projected(params: dict[str, Linear], name: str, x: Array) -> Array:
    return jnp.einsum("btm,mhd->bhtd", x, params[name]["kernel"]) + params[name]["bias"][:, None]


def attention_of_named_kernels(params: dict[str, dict[str, Linear]], x: Array, mask: Array = None) -> Array:
    """(B,T,M); its kernels tell the number of heads."""
    own = params["params"]
    q, k, v = map(lambda name: _projected(own, name, x), ("query", "key", "value"))  # noqa: C417  (as some write it)
    return jnp.einsum("bhtd,hdm->btm", _attended(q, k, v, mask), own["out"]["kernel"]) + own["out"]["bias"]


def attention_with_kernels(params: dict[str, Linear], x: Array, mask: Array = None) -> Array:
    """(B,T,M); its kernels tell the number of heads."""
    q, k, v = jnp.einsum("btm,phmd->pbhtd", x, params["qkv_einsum"]["w"])
    return jnp.einsum("bhtd,hdm->btm", _attended(q, k, v, mask), params["attn_vec_einsum"]["w"])
