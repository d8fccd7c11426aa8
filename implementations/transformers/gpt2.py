"""`GPT2Attention`: one matrix for query, key and value, kept as Conv1D (in,out): x @ W, not transposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

from .modes import DROPOUT, SDPA, TRAINING, Mode

Tensor = Any  # torch is not seen by mypy
Module = Any


def _with_weights(mode: Mode, *, upcast: bool = False) -> Callable[..., Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
               mask: Tensor = None, bias: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
        """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
        module = _module(query, params, heads, mode, upcast=upcast)
        with mode.gradient(query):
            output, weights = module(query, attention_mask=mode.attention_mask(query, mask, bias, causal))
        return (output, weights) if return_weights else output
    return attend


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,  # noqa: ARG001  (key and value are the query)
         bias: Tensor = None, causal: bool = False) -> Tensor:
    """With `attn_implementation="sdpa"`: there are no weights."""
    module = _module(query, params, heads, SDPA)
    with SDPA.gradient(query):
        return module(query, attention_mask=SDPA.decoder_mask(query, mask, bias, causal))[0]


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, mode: Mode, *, upcast: bool = False) -> Module:
    module = _empty_module(query.shape[-1], heads, query.dtype, mode, upcast)
    with torch.no_grad():
        for letter, part in (("w", "weight"), ("b", "bias")):
            inner = [params[f"{letter}_{name}"] for name in ("query", "key", "value")]
            getattr(module.c_attn, part).copy_(torch.cat(inner, dim=-1))
            getattr(module.c_proj, part).copy_(params[f"{letter}_out"])
    return module


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, dtype: Any, mode: Mode, upcast: bool) -> Module:  # noqa: ANN401  (a torch.dtype)
    config = GPT2Config(n_embd=width, n_head=heads, attn_pdrop=mode.dropout, resid_pdrop=mode.dropout,
                        reorder_and_upcast_attn=upcast, attn_implementation=mode.implementation)
    return GPT2Attention(config, layer_idx=0).to(dtype).train(mode.training)


eager = _with_weights(Mode())
training = _with_weights(TRAINING)
dropout = _with_weights(DROPOUT)
upcast = _with_weights(Mode(), upcast=True)
