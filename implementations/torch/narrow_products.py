"""Attention whose products of queries and keys PyTorch takes in the narrow format itself: FP8 by `torch._scaled_mm`,
INT8 by `torch._int_mm`, each for matrices, head by head. Weights and values meet in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


def by_scaled_mm(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, query_scale: Tensor | None = None,
                 key_scale: Tensor | None = None, value_scale: Tensor | None = None) -> Tensor:
    """Codes query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,Dv), a scale () of each, to (B,H,T,Dv)."""
    one = torch.ones((), device=query.device)
    scales = [one if each is None else each for each in (query_scale, key_scale)]

    def product(row: Tensor, column: Tensor) -> Tensor:
        """Codes (T,D) and (S,D) to logits (T,S)."""
        return torch._scaled_mm(row, column.t(), *scales, out_dtype=torch.float32)

    logits = _each_head(product, query, _repeated(key, query))
    output = _weights(logits * query.shape[-1] ** -0.5, causal=causal) @ _repeated(value, query).to(torch.float32)
    return output if value_scale is None else output * value_scale


def by_int_mm(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, query_scale: Tensor | None = None,
              key_scale: Tensor | None = None, value_scale: Tensor | None = None) -> Tensor:
    """The same in INT8, with scales (B,H,T) of the query, (B,Hkv,S) of the key and (Hkv,Dv) of the value."""
    logits = _each_head(torch._int_mm, query, _repeated(key, query).transpose(-1, -2).contiguous())
    logits = logits.to(torch.float32)
    if query_scale is not None:
        logits = logits * query_scale[..., None]
    if key_scale is not None:
        logits = logits * _repeated(key_scale, query)[:, :, None]
    numbers = value.to(torch.float32) if value_scale is None else value.to(torch.float32) * value_scale[:, None]
    return _weights(logits * query.shape[-1] ** -0.5, causal=causal) @ _repeated(numbers, query)


def by_quantized_tensor(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
                        key_scale: Tensor | None = None, value_scale: Tensor | None = None) -> Tensor:
    """Keys and values are quantised tensors of PyTorch, INT8 with a scale (Hkv,) for each head, and are dequantised."""
    numbers = [_repeated(_dequantised(codes, scales), query)
               for codes, scales in ((key, key_scale), (value, value_scale))]
    logits = query.to(torch.float32) @ numbers[0].transpose(-1, -2) * query.shape[-1] ** -0.5
    return (_weights(logits, causal=causal) @ numbers[1]).to(query.dtype)


def _dequantised(codes: Tensor, scales: Tensor | None) -> Tensor:
    """Codes (B,Hkv,S,D) times the scales (Hkv,) of their heads, by a quantised tensor."""
    if scales is None:
        return codes.to(torch.float32)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    return torch._make_per_channel_quantized_tensor(codes, scales, zeros, 1).dequantize()


def _each_head(product: object, query: Tensor, key: Tensor) -> Tensor:
    """A product of matrices for each head of each batch entry: (B,H,T,D) and (B,H,…) to (B,H,T,S)."""
    assert callable(product)
    return torch.stack([torch.stack([product(row, column) for row, column in zip(rows, columns)])
                        for rows, columns in zip(query, key)])


def _weights(logits: Tensor, *, causal: bool) -> Tensor:
    """Softmax of logits (B,H,T,S) over the visible keys."""
    if causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        logits = logits.masked_fill(~visible, -torch.inf)
    return torch.softmax(logits, -1)


def _repeated(array: Tensor, query: Tensor) -> Tensor:
    """(B,Hkv,…) -> (B,H,…): each head of keys and values serves H / Hkv neighbouring queries."""
    return array.repeat_interleave(query.shape[1] // array.shape[1], 1)
