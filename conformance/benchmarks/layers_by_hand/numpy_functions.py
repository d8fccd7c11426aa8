"""Functions and a class of NumPy arrays, as exercises have them."""

import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def masked_attention(Q, K, V, mask=None):
    """(B, H, T, D); mask is 0 where a query must not look."""
    scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(Q.shape[-1]).astype(Q.dtype)
    if mask is not None:
        scores = np.where(mask == 0, np.finfo(scores.dtype).min, scores)
    return softmax(scores) @ V


def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    """(T, d_model) and four matrices."""
    T, d_model = x.shape
    d_k = d_model // num_heads
    q, k, v = ((x @ W).reshape(T, num_heads, d_k).transpose(1, 0, 2) for W in (W_q, W_k, W_v))
    weights = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(d_k))
    return (weights @ v).transpose(1, 0, 2).reshape(T, d_model) @ W_o


class NumpyMultiHead:
    """Without a framework."""

    def __init__(self, d_model, n_heads, seed=0):
        rng = np.random.default_rng(seed)
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (rng.normal(0, d_model ** -0.5, (d_model, d_model)) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = ((x @ w).reshape(B, T, self.n_heads, self.d_head).transpose(0, 2, 1, 3) for w in (self.W_q, self.W_k, self.W_v))
        a = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.d_head))
        return (a @ v).transpose(0, 2, 1, 3).reshape(B, T, C) @ self.W_o


def self_attention(Q, K, V):
    """(T, d): one head of one sequence."""
    scores = Q @ K.T / np.sqrt(K.shape[1])
    scores = scores - scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights @ V


def sloped_attention(q, k, v, slopes):
    """(B, T, H, D) with ALiBi, causal."""
    pos = np.arange(q.shape[1])
    behind = (pos[:, None] - pos[None, :]).astype(q.dtype)
    s = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    s = s - slopes[None, :, None, None] * behind
    s = np.where(behind < 0, -np.inf, s)
    return np.einsum("bhts,bshd->bthd", softmax(s), v).astype(q.dtype)


def causal_attention(q, k, v):
    """(T, H, D), always causal."""
    T = q.shape[0]
    s = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[-1])
    hidden = np.triu(np.ones((T, T), dtype=bool), k=1)
    s[:, hidden] = -np.inf
    return np.einsum("hts,shd->thd", softmax(s), v).astype(q.dtype)
