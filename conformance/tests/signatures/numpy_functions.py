"""Functions of NumPy with the signatures of published ones, on arrays and over parameters; plain arithmetic.

`SOURCES` says where each signature is taken from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Linear = dict[str, Array]

GITHUB = "https://github.com"
SOURCES = {
    "scaled_dot_product_attention": ("MLX (fast.scaled_dot_product_attention)",
                                     f"{GITHUB}/ml-explore/mlx/blob/main/python/src/fast.cpp"),
    "onnx_attention": ("ONNX (Attention)", f"{GITHUB}/onnx/onnx/blob/main/onnx/reference/ops/op_attention.py"),
    "attention": ("picoGPT", f"{GITHUB}/jaymody/picoGPT/blob/main/gpt2.py"),
    "mha": ("picoGPT", f"{GITHUB}/jaymody/picoGPT/blob/main/gpt2.py"),
    "attention_rows": ("the same, of a single head: (T,D)", ""),
    "attention_into": ("the form of many kernels: the output is written into what they are handed first", ""),
}


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _linear(x: Array, w: Array, b: Array) -> Array:
    return x @ w + b


def scaled_dot_product_attention(q: Array, k: Array, v: Array, *, scale: float, mask: str | Array | None = None,
                                 sinks: Array | None = None) -> Array:
    """(B,H,T,D); one parameter for truth values, for numbers and for a word; a scale that has to be given."""
    logits = q @ k.swapaxes(-1, -2) * scale
    if isinstance(mask, str):
        assert mask == "causal"
        T, S = logits.shape[-2:]
        mask = np.tri(T, S, S - T, dtype=bool)
    if mask is not None:
        logits = np.where(mask, logits, np.finfo(logits.dtype).min) if mask.dtype == bool else logits + mask
    if sinks is None:
        return _softmax(logits) @ v
    sink = np.broadcast_to(sinks.astype(logits.dtype)[:, None, None], (*logits.shape[:-1], 1))
    return _softmax(np.concatenate([logits, sink], -1))[..., :-1] @ v


def onnx_attention(Q: Array, K: Array, V: Array, attn_mask: Array | None = None,
                   past_key: Array | None = None, past_value: Array | None = None, scale: float | None = None,
                   is_causal: bool = False) -> Array:
    """(B,H,T,D); keys and values of earlier calls come before the others, and the diagonal lies behind them."""
    start = 0
    if past_key is not None and past_value is not None:
        start = past_key.shape[2]
        K, V = np.concatenate([past_key, K], axis=2), np.concatenate([past_value, V], axis=2)
    logits = Q @ K.swapaxes(-1, -2) * Q.dtype.type(Q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        T, S = logits.shape[2:]
        logits = np.where(np.tri(T, S, start, dtype=bool), logits, np.finfo(logits.dtype).min)
    if attn_mask is not None:
        is_bool = attn_mask.dtype == bool
        logits = np.where(attn_mask, logits, np.finfo(logits.dtype).min) if is_bool else logits + attn_mask
    return _softmax(logits) @ V


def attention(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """(T,D) and a mask (T,S) that is added and has to be given."""
    return _softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x: Array, c_attn: Linear, c_proj: Linear, n_head: int) -> Array:
    """(T,M), always causal; two dicts of weight and bias."""
    parts = np.split(_linear(x, **c_attn), 3, axis=-1)
    mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    heads = zip(*(np.split(part, n_head, axis=-1) for part in parts), strict=True)
    return _linear(np.hstack([attention(q, k, v, mask) for q, k, v in heads]), **c_proj)


def attention_into(out: Array, q: Array, k: Array, v: Array, scale: float) -> None:
    """(B,H,T,D)."""
    out[...] = _softmax(q @ k.swapaxes(-1, -2) * scale) @ v


def attention_rows(Q: Array, K: Array, V: Array, O: Array, sm_scale: float = 1.0) -> None:  # noqa: E741  (kernels call it so)
    """(T,D)."""
    O[...] = _softmax(Q @ K.T * sm_scale) @ V
