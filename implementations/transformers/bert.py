"""`BertSelfAttention`: query, key and value projections, and no output projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertSelfAttention

from .modes import DROPOUT, SDPA, TRAINING, Mode
from .parameters import copy_into

Tensor = Any  # torch is not seen by mypy
Module = Any


def _with_weights(mode: Mode) -> Callable[..., Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
               mask: Tensor = None, bias: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
        """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
        module = _module(query, params, heads, mode)
        with mode.gradient(query):
            output, weights = module(query, mode.attention_mask(query, mask, bias, causal))
        return (output, weights) if return_weights else output
    return attend


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,  # noqa: ARG001  (key and value are the query)
         bias: Tensor = None, causal: bool = False) -> Tensor:
    """With `attn_implementation="sdpa"`: there are no weights."""
    module = _module(query, params, heads, SDPA)
    with SDPA.gradient(query):
        return module(query, SDPA.attention_mask(query, mask, bias, causal))[0]


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, mode: Mode) -> Module:
    module = _empty_module(query.shape[-1], heads, query.dtype, mode)
    for name in ("query", "key", "value"):
        copy_into(getattr(module, name), params, name)
    return module


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, dtype: Any, mode: Mode) -> Module:  # noqa: ANN401  (a torch.dtype)
    config = BertConfig(hidden_size=width, num_attention_heads=heads, attention_probs_dropout_prob=mode.dropout,
                        attn_implementation=mode.implementation)
    return BertSelfAttention(config).to(dtype).train(mode.training)


eager = _with_weights(Mode())
training = _with_weights(TRAINING)
dropout = _with_weights(DROPOUT)
