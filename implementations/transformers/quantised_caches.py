"""QuantizedCache behind the eager attention of decoders: each call stores its keys and values, and reads others back.

The first call attends to what it is handed, and later ones to their own tokens as they are: codes of a token are read
from the next call on. With `residual_length=1` no token waits in full precision. Groups of D neighbours are the tokens
of a head: `q_group_size` counts along the array (B,Hkv,S,D) as it lies in memory.
"""

from __future__ import annotations

from typing import Any, Callable, Tuple

import torch
from transformers import LlamaConfig, QuantizedCache
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

from . import masks
from .functions import _module

Tensor = Any  # torch is not seen by mypy
Cache = Any
Step = Callable[..., Tuple[Tensor, ...]]


def _behind(backend: str, axis: int | None, bits: int | None) -> Step:
    """A decoder behind a cache of that backend. axis: along which the entries of a group lie."""
    def step(query: Tensor, key: Tensor, value: Tensor, cache: Cache = None, *, mask: Tensor = None,
             bias: Tensor = None, causal: bool = False, scale: float | None = None,
             return_weights: bool = False) -> tuple[Tensor, ...]:
        """Query (B,H,T,D), key (B,Hkv,S,D) and value (B,Hkv,S,D) to (B,H,T,D), weights (B,H,T,P+S) if asked for, and
        the cache.
        """
        cache = _cache(backend, axis, bits, query.shape[3]) if cache is None else cache
        stored = cache.get_seq_length()
        with torch.no_grad():
            keys, values = cache.update(key, value, 0)
            seen = mask
            if causal:
                earlier = sdpa_mask(query.shape[0], query.shape[2], keys.shape[2], q_offset=stored,
                                    allow_is_causal_skip=False)
                seen = earlier if mask is None else earlier & mask
            output, weights = eager_attention_forward(
                _module(query, key), query, keys, values, masks.added(seen, bias, query.dtype),
                scaling=query.shape[3] ** -0.5 if scale is None else scale)
        output = output.transpose(1, 2)
        return (output, weights, cache) if return_weights else (output, cache)
    return step


def _cache(backend: str, axis: int | None, bits: int | None, width: int) -> Cache:
    """An empty cache of one layer, whose groups are tokens of a head."""
    config = LlamaConfig(num_hidden_layers=1)
    if axis is None:
        return QuantizedCache(backend, config)
    return QuantizedCache(backend, config, nbits=bits, axis_key=axis, axis_value=axis, q_group_size=width,
                          residual_length=1)


quanto_int4 = _behind("quanto", 0, 4)
hqq_int4 = _behind("hqq", 1, 4)
hqq_int8 = _behind("hqq", 1, 8)
float8 = _behind("fp8", None, None)
