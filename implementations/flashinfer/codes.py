"""FlashInfer on codes in FP8, as its documentation has it: flashinfer/prefill.py, single_prefill_with_kv_cache.

It takes one sequence, with H behind T. Each sequence of a batch is a call.
"""

from __future__ import annotations

from typing import Any, Callable

import flashinfer
import torch

Tensor = Any  # torch is not seen by mypy


def over_cache(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None,
               key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Query (B,H,T,D), codes key and value (B,Hkv,S,D), a scale () of each, to (B,H,T,D): k_scale and v_scale."""
    scales = [None if each is None else float(each) for each in (key_scale, value_scale)]
    return _each_sequence(query, key, value, lambda *arrays: flashinfer.single_prefill_with_kv_cache(
        *arrays, causal=causal, sm_scale=scale, backend="fa2", k_scale=scales[0], v_scale=scales[1]))


def all_codes(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None,
              query_scale: Tensor = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Codes query (B,H,T,D), key and value (B,Hkv,S,D), scales (H,), (Hkv,) and (Hkv,), to (B,H,T,D): scale_q, scale_k
    and scale_v, by the kernels of FlashAttention-3.
    """
    return _each_sequence(query, key, value, lambda *arrays: flashinfer.single_prefill_with_kv_cache(
        *arrays, query_scale, key_scale, value_scale, o_dtype=torch.float16, causal=causal, sm_scale=scale,
        backend="fa3"))


def _each_sequence(query: Tensor, key: Tensor, value: Tensor, attend: Callable[..., Tensor]) -> Tensor:
    """(B,H,L,D) three times to (B,H,T,D), sequence by sequence as (L,H,D)."""
    outputs = [attend(*(array.transpose(0, 1).contiguous() for array in sequence))
               for sequence in zip(query, key, value)]
    return torch.stack(outputs).transpose(1, 2)
