"""`MistralAttention` with the mask that `MistralModel` makes for it, in every version since the model came (4.34).

The sliding window is no business of the module's: the model makes it into the mask. `sliding_window=w` is the query
itself and the w - 1 keys before it. The rotary embedding is neutralised: every cosine is 1 and every sine 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Optional, Tuple

import torch
from transformers import MistralConfig
from transformers.models.mistral.modeling_mistral import MistralAttention

from .mistral_mask import model_mask
from .parameters import copy_into

Tensor = Any  # torch is not seen by mypy
Module = Any
Window = Tuple[Optional[int], Optional[int]]


def eager(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, causal: bool = False,  # noqa: ARG001  (key and value are the query)
          window: Window | None = None, return_weights: bool = False) -> Tensor:
    """X (B,T,M) to (B,T,M), and weights (B,H,T,T) if asked for."""
    output, weights = _answer(query, params, heads, "eager", causal=causal, window=window)
    return (output, weights) if return_weights else output


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int, causal: bool = False,  # noqa: ARG001  (key and value are the query)
         window: Window | None = None) -> Tensor:
    """With `attn_implementation="sdpa"`: there are no weights."""
    return _answer(query, params, heads, "sdpa", causal=causal, window=window)[0]


def _answer(query: Tensor, params: Mapping[str, Tensor], heads: int, implementation: str, *, causal: bool,
            window: Window | None) -> tuple[Tensor, Tensor]:
    width = None if window is None or window[0] is None else window[0] + 1
    config = _config(query.shape[-1], heads, _kv_heads(params, heads), implementation, width)
    module = _module(query, params, heads, implementation)
    # the models always make a mask: with SDPA the layer takes none for causal
    mask = model_mask(config, query) if causal else torch.zeros(len(query), 1, *[query.shape[1]] * 2, dtype=query.dtype)
    with torch.set_grad_enabled(query.requires_grad):
        output, weights, *_ = module(query, attention_mask=mask, **_position(query, module))
    return output, weights


def _position(query: Tensor, module: Module) -> dict[str, Tensor]:
    """The angles, all 0, since 4.48; before that, the positions that the module's own embedding looks them up by."""
    if "position_embeddings" not in inspect.signature(module.forward).parameters:
        return {"position_ids": torch.arange(query.shape[1])[None], "output_attentions": True}
    return {"position_embeddings": _angles(query.shape[1], module.head_dim, query.dtype)}


def _angles(length: int, width: int, dtype: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401  (a torch.dtype)
    """Cosines and sines of no rotation: (1, length, width)."""
    return torch.ones((1, length, width), dtype=dtype), torch.zeros((1, length, width), dtype=dtype)


class Unturned(torch.nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """In the place of a module's rotary embedding, as early releases call it: cosines 1 and sines 0 by position."""

    def forward(self, values: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:
        """Values (B,Hkv,S,D) to two tables of at least two rows, which early releases would squeeze away."""
        rows = (max(seq_len, 2), values.shape[-1])
        return torch.ones(rows, dtype=values.dtype), torch.zeros(rows, dtype=values.dtype)


def _module(query: Tensor, params: Mapping[str, Tensor], heads: int, implementation: str) -> Module:
    module = _empty_module(query.shape[-1], heads, _kv_heads(params, heads), query.dtype, implementation)
    for name, linear in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "o_proj")):
        copy_into(getattr(module, linear), params, name)
    return module


def _kv_heads(params: Mapping[str, Tensor], heads: int) -> int:
    return int(params["w_key"].shape[1] * heads // params["w_query"].shape[1])


@lru_cache(maxsize=64)
def _empty_module(width: int, heads: int, kv_heads: int, dtype: Any, implementation: str) -> Module:  # noqa: ANN401  (a torch.dtype)
    numbered = {"layer_idx": 0} if "layer_idx" in inspect.signature(MistralAttention).parameters else {}
    module = MistralAttention(_config(width, heads, kv_heads, implementation, None), **numbered)
    if hasattr(module, "rotary_emb"):
        module.rotary_emb = Unturned()
    return module.to(dtype).eval()


@lru_cache(maxsize=256)
def _config(width: int, heads: int, kv_heads: int, implementation: str, sliding_window: int | None) -> MistralConfig:
    return MistralConfig(hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads,
                         sliding_window=sliding_window, attn_implementation=implementation)
