"""`T5Attention`, which multiplies its logits by its attribute `scaling`: 1, since the T5 papers fold 1/sqrt(D) into how
the parameters are drawn. Here it is 1/sqrt(D): folded into W_query, the factor would round each of its entries.

The bias enters where the relative position bias does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from .modes import DROPOUT, SDPA, TRAINING, Mode
from .parameters import copy_into

Tensor = Any  # torch is not seen by mypy
Module = Any


def _with_weights(mode: Mode) -> Callable[..., Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,  # noqa: ARG001  (key and value are the query)
               mask: Tensor = None, bias: Tensor = None, causal: bool = False, return_weights: bool = False) -> Tensor:
        """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
        output, weights = _answer(query, params, heads, mode, mask=mask, bias=bias, causal=causal)
        return (output, weights) if return_weights else output
    return attend


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, mask: Tensor = None,  # noqa: ARG001  (key and value are the query)
         bias: Tensor = None, causal: bool = False) -> Tensor:
    """With `attn_implementation="sdpa"`: there are no weights."""
    return _answer(query, params, heads, SDPA, mask=mask, bias=bias, causal=causal)[0]


def _answer(query: Tensor, params: Mapping[str, Tensor], heads: int, mode: Mode, *, mask: Tensor, bias: Tensor,
            causal: bool) -> tuple[Tensor, Tensor]:
    module = _module(query, params, heads, mode)
    with mode.gradient(query):
        output, _, weights = module(query, mask=mode.attention_mask(query, mask, None, causal), position_bias=bias)
    return output, weights


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, mode: Mode) -> Module:
    head_dim = params["w_query"].shape[1] // heads
    module = _empty_module(query.shape[-1], heads, head_dim, query.dtype, mode)
    module.scaling = head_dim**-0.5
    for name, linear in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "o")):
        copy_into(getattr(module, linear), params, name)
    return module


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, head_dim: int, dtype: Any, mode: Mode) -> Module:  # noqa: ANN401  (a torch.dtype)
    config = T5Config(d_model=width, num_heads=heads, d_kv=head_dim, dropout_rate=mode.dropout,
                      attn_implementation=mode.implementation)
    return T5Attention(config, layer_idx=0).to(dtype).train(mode.training)


eager = _with_weights(Mode())
training = _with_weights(TRAINING)
dropout = _with_weights(DROPOUT)
