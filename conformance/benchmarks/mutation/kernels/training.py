"""Attention with its backward pass: the weights are formed anew from the logits."""

import numpy as np


def attend(query, key, value, *, bias=None, causal=False, scale=None, softcap=None):
    wide = np.promote_types(query.dtype, np.float32)
    weights, _ = weights_of(query, key, bias, causal, scale, softcap)
    output = weights @ spread(value.astype(wide), query.shape[1])
    return output.astype(query.dtype)


def attend_backward(query, key, value, grad_output, *, bias=None, causal=False, scale=None, softcap=None):
    H, D = query.shape[1], query.shape[3]
    wide = np.promote_types(query.dtype, np.float32)
    q, k, v = query.astype(wide), spread(key.astype(wide), H), spread(value.astype(wide), H)
    grad = grad_output.astype(wide)
    weights, slope = weights_of(query, key, bias, causal, scale, softcap)
    of_value = weights.swapaxes(-1, -2) @ grad
    of_weights = grad @ v.swapaxes(-1, -2)
    delta = (grad * (weights @ v)).sum(axis=-1, keepdims=True)
    of_logits = weights * (of_weights - delta)
    of_dots = of_logits * slope * wide.type(1 / np.sqrt(D) if scale is None else scale)
    of_query = of_dots @ k
    of_key = of_dots.swapaxes(-1, -2) @ q
    gradients = {"query": of_query, "key": gather(of_key, key.shape[1]), "value": gather(of_value, value.shape[1])}
    if bias is not None:
        gradients["bias"] = of_logits
    return {name: gradient.astype(query.dtype) for name, gradient in gradients.items()}


def weights_of(query, key, bias, causal, scale, softcap):
    """The weights (B,H,T,S), and the derivative of a capped logit by the logit."""
    H, T, D = query.shape[1:]
    wide = np.promote_types(query.dtype, np.float32)
    dots = query.astype(wide) @ spread(key.astype(wide), H).swapaxes(-1, -2)
    logits = dots * wide.type(1 / np.sqrt(D) if scale is None else scale)
    slope = np.ones_like(logits)
    if softcap is not None:
        capped = np.tanh(logits / wide.type(softcap))
        logits, slope = capped * wide.type(softcap), 1 - capped * capped
    if bias is not None:
        logits = logits + bias.astype(wide)
    if causal:
        logits = np.where(np.tri(T, key.shape[2], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True), slope


def spread(array, heads):
    """(B,Hkv,S,D) to (B,H,S,D)."""
    return np.repeat(array, heads // array.shape[1], axis=1)


def gather(array, heads):
    """(B,H,S,D) to (B,Hkv,S,D): the sum over each group of heads."""
    B, H, S, D = array.shape
    return array.reshape(B, heads, H // heads, S, D).sum(axis=2)


attend.conventions = {"causal_alignment": "top_left"}
