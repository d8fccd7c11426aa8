"""Attention layers of decoders behind a cache of the library, which each call changes in place and hands back.

The model makes the mask: the cache tells `sdpa_mask` how many slots it will have and which of all keys is the first.
Nothing is rotated: every angle is 0, and GPT-2 has none. A static cache has room for SLOTS keys.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Tuple

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, LlamaConfig, MistralConfig, StaticCache
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)

from . import gpt2_beside, masks
from .decoder_modules import filled

Tensor = Any  # torch is not seen by mypy
Cache = Any
Params = Mapping[str, Tensor]
Pair = Tuple[Tensor, Tensor]
Window = Optional[Tuple[Optional[int], Optional[int]]]

SLOTS = 128


def _of_llama(make_cache: Callable[[int | None], Cache]) -> Callable[..., tuple[Tensor, ...]]:
    def step(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Params, heads: int,
             mask: Tensor = None, bias: Tensor = None, causal: bool = False, key_lengths: Tensor = None,
             return_weights: bool = False) -> tuple[Tensor, ...]:
        """Query, key and value (B,T,M) to (B,T,M), weights (B,H,T,P+T) if asked for, and the cache."""
        cache = make_cache(None) if cache is None else cache
        return _stepped(filled("llama", query, params, heads), (query, key, value), cache, None, weights=return_weights,
                        mask=mask, bias=bias, causal=causal, lengths=key_lengths)
    return step


def _of_mistral(make_cache: Callable[[int | None], Cache]) -> Callable[..., tuple[Tensor, ...]]:
    def step(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Params, heads: int,
             mask: Tensor = None, bias: Tensor = None, causal: bool = False, window: Window = None,
             key_lengths: Tensor = None, return_weights: bool = False) -> tuple[Tensor, ...]:
        """The same, in a model whose `sliding_window` is the query itself and what is left of it in the window."""
        sliding = _sliding_window(window)
        cache = make_cache(sliding) if cache is None else cache
        return _stepped(filled("mistral", query, params, heads), (query, key, value), cache, sliding,
                        weights=return_weights, mask=mask, bias=bias, causal=causal, lengths=key_lengths)
    return step


def gemma2(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Params, heads: int, mask: Tensor = None,
           bias: Tensor = None, causal: bool = False, window: Window = None, softcap: float | None = None,
           key_lengths: Tensor = None, return_weights: bool = False) -> tuple[Tensor, ...]:
    """The same, with logits that are capped."""
    sliding = _sliding_window(window)
    cache = _sliding(sliding) if cache is None else cache
    return _stepped(filled("gemma2", query, params, heads, softcap), (query, key, value), cache, sliding,
                    weights=return_weights, mask=mask, bias=bias, causal=causal, lengths=key_lengths)


def gpt2(query: Tensor, key: Tensor, value: Tensor, cache: Cache, *, params: Params, heads: int, mask: Tensor = None,
         bias: Tensor = None, causal: bool = False, key_lengths: Tensor = None,
         return_weights: bool = False) -> tuple[Tensor, ...]:
    """The same by GPT-2, in one matrix for query, key and value."""
    cache = _dynamic(None) if cache is None else cache
    return _stepped(gpt2_beside.filled(query, params, heads), (query, key, value), cache, None, weights=return_weights,
                    mask=mask, bias=bias, causal=causal, lengths=key_lengths)


def _sliding_window(window: Window) -> int | None:
    return None if window is None or window[0] is None else window[0] + 1


def _stepped(module: Callable[..., Pair], new: tuple[Tensor, Tensor, Tensor], cache: Cache, sliding: int | None, *,
             weights: bool, **told: Any) -> tuple[Tensor, ...]:  # noqa: ANN401  (what is told of the mask)
    stored, T = int(cache.get_seq_length()), new[0].shape[1]
    slots, first = cache.get_mask_sizes(T, 0)
    columns = _Columns(stored, stored + T, int(slots), int(first))
    with torch.no_grad():
        output, seen = module(*new, attention_mask=columns.mask(new[0], sliding, **told), past_key_values=cache)
    return (output, columns.of_keys(seen), cache) if weights else (output, cache)


class _Columns:
    """The columns of a mask, one for each slot that the cache will show, and those of all keys, stored and new."""

    def __init__(self, stored: int, total: int, slots: int, first: int) -> None:
        self.stored, self.total, self.slots, self.first = stored, total, slots, first

    def mask(self, X: Tensor, sliding: int | None, *, mask: Tensor, bias: Tensor, causal: bool,
             lengths: Tensor) -> Tensor:
        """What the eager layer adds to the logits, (B,1,T,slots) or (B,H,T,slots)."""
        seen = torch.arange(self.total)[None] < (self.total if lengths is None else lengths[:, None])
        made = sdpa_mask(X.shape[0], X.shape[1], self.slots, q_offset=self.stored, kv_offset=self.first,
                         mask_function=_rule(sliding, causal=causal), allow_is_causal_skip=False,
                         attention_mask=seen.expand(X.shape[0], self.total))
        shown = made if mask is None else made & self._of_slots(mask, False)
        return masks.added(shown, None if bias is None else self._of_slots(bias, 0), X.dtype)

    def _of_slots(self, columns: Tensor, beyond: float) -> Tensor:
        return pad(columns[..., self.first:], (0, self.first + self.slots - self.total), value=beyond)

    def of_keys(self, weights: Tensor) -> Tensor:
        """Weights (B,H,T,slots) as those of all keys; keys that the cache has forgotten have none."""
        return pad(weights, (self.first, 0))[..., :self.total]


def _rule(sliding: int | None, *, causal: bool) -> Any:  # noqa: ANN401  (a mask function)
    if not causal:
        return bidirectional_mask_function
    return causal_mask_function if sliding is None else sliding_window_causal_mask_function(sliding)


def _dynamic(_sliding: int | None) -> Cache:
    return DynamicCache()


def _static(_sliding: int | None) -> Cache:
    return StaticCache(config=LlamaConfig(num_hidden_layers=1), max_cache_len=SLOTS)


def _sliding(sliding: int | None) -> Cache:
    return DynamicCache(config=MistralConfig(num_hidden_layers=1, sliding_window=sliding))


def _static_sliding(sliding: int | None) -> Cache:
    return StaticCache(config=MistralConfig(num_hidden_layers=1, sliding_window=sliding), max_cache_len=SLOTS)


llama = _of_llama(_dynamic)
llama_static = _of_llama(_static)
mistral = _of_mistral(_sliding)
mistral_static = _of_mistral(_static_sliding)
