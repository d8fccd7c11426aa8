"""The attention interfaces behind a cache, with the masks that the library makes for it; gpt-oss's has sinks.

A past is what an earlier `cache.update` stored. The cache says how many slots the mask has and where they begin.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Optional, Tuple

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, LlamaConfig, MistralConfig, StaticCache
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss_eager
from transformers.models.llama.modeling_llama import eager_attention_forward as llama_eager

from . import masks

Tensor = Any  # torch is not seen by mypy
Cache = Any
Window = Optional[Tuple[Optional[int], Optional[int]]]
Pair = Tuple[Tensor, Tensor]
MakeCache = Callable[[int, Window], Cache]

SPARE = 3  # slots that a static cache has beyond what is stored


def _dynamic(_slots: int, _window: Window) -> Cache:
    return DynamicCache()


def _static(slots: int, _window: Window) -> Cache:
    return StaticCache(config=LlamaConfig(num_hidden_layers=1), max_cache_len=slots + SPARE)


def _sliding(slots: int, window: Window) -> Cache:
    """One that forgets what is left of the window; without a window, one that forgets nothing."""
    if window is None or window[0] is None:
        return _dynamic(slots, window)
    return DynamicCache(config=MistralConfig(num_hidden_layers=1, sliding_window=window[0] + 1))


def _eager_behind(make_cache: MakeCache) -> Callable[..., Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
               causal: bool = False, scale: float | None = None, window: Window = None, key_lengths: Tensor = None,
               past_key: Tensor = None, past_value: Tensor = None, return_weights: bool = False) -> Tensor:
        """`modeling_llama.eager_attention_forward`. In evaluation, without gradient."""
        step = _Step(query, (key, value), (past_key, past_value), make_cache, window)
        additive = masks.added(step.visible(mask, key_lengths, causal=causal), step.of_slots(bias, 0), query.dtype)
        return step.answer(llama_eager, additive, scale, weights=return_weights)
    return attend


def gpt_oss(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
            causal: bool = False, scale: float | None = None, window: Window = None, key_lengths: Tensor = None,
            past_key: Tensor = None, past_value: Tensor = None, sinks: Tensor = None,
            return_weights: bool = False) -> Tensor:
    """`modeling_gpt_oss.eager_attention_forward`, whose module always has sinks: none are -inf."""
    step = _Step(query, (key, value), (past_key, past_value), _dynamic, window)
    additive = masks.added(step.visible(mask, key_lengths, causal=causal), step.of_slots(bias, 0), query.dtype)
    stored = torch.full((query.shape[1],), -torch.inf) if sinks is None else sinks
    return step.answer(gpt_oss_eager, additive, scale, weights=return_weights, sinks=stored.to(query.dtype))


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None, causal: bool = False,
         scale: float | None = None, window: Window = None, key_lengths: Tensor = None, past_key: Tensor = None,
         past_value: Tensor = None) -> Tensor:
    """`ALL_ATTENTION_FUNCTIONS["sdpa"]`. In evaluation, without gradient."""
    step = _Step(query, (key, value), (past_key, past_value), _dynamic, window)
    given = masks.either(step.visible(mask, key_lengths, causal=causal), step.of_slots(bias, 0), query.dtype)
    return step.answer(ALL_ATTENTION_FUNCTIONS["sdpa"], given, scale)


class _Step:
    """New queries, keys and values behind a cache with the past in it."""

    def __init__(self, query: Tensor, new: Pair, past: Pair, make_cache: MakeCache, window: Window) -> None:
        """new, past: keys and values, (B,Hkv,S,D) and (B,Hkv,S,Dv); of a past that is none, None and None."""
        self.offset = 0 if past[0] is None else past[0].shape[2]
        self.query, self.window, self.total = query, window, self.offset + new[0].shape[2]
        cache = make_cache(self.total, window)
        if past[0] is not None:
            cache.update(*past, 0)
        self.slots, self.first = cache.get_mask_sizes(new[0].shape[2], 0)
        self.key, self.value = cache.update(*new, 0)

    def visible(self, mask: Tensor, lengths: Tensor, *, causal: bool) -> Tensor:
        """The library's mask (B,1,T,slots), or (B,H,T,slots) with another one."""
        seen = torch.arange(self.total)[None] < (self.total if lengths is None else lengths[:, None])
        made = sdpa_mask(self.query.shape[0], self.query.shape[2], self.slots, q_offset=self.offset,
                         kv_offset=self.first, mask_function=self._rule(causal=causal), allow_is_causal_skip=False,
                         attention_mask=seen.expand(self.query.shape[0], self.total))
        return made if mask is None else made & self.of_slots(mask, False)

    def _rule(self, *, causal: bool) -> Any:  # noqa: ANN401  (a mask function)
        if not causal:
            return bidirectional_mask_function
        left = None if self.window is None else self.window[0]
        return causal_mask_function if left is None else sliding_window_causal_mask_function(left + 1)

    def of_slots(self, columns: Tensor, beyond: float) -> Tensor:
        """The last axis cut and filled up from that of all keys to the slots of the cache."""
        if columns is None:
            return None
        return pad(columns[..., self.first:], (0, self.first + self.slots - self.total), value=beyond)

    def answer(self, function: Any, given: Tensor, scale: float | None, *, weights: bool = False,  # noqa: ANN401  (a function)
               **more: Any) -> Tensor:  # noqa: ANN401  (parts of a module)
        """The output (B,H,T,Dv), and the weights (B,H,T,P+S) if asked for."""
        D = self.query.shape[-1]
        module = SimpleNamespace(num_key_value_groups=self.query.shape[1] // self.key.shape[1], training=False,
                                 head_dim=D, is_causal=False, **more)
        with torch.set_grad_enabled(self.query.requires_grad):
            output, returned = function(module, self.query, self.key, self.value, given,
                                        scaling=float(D ** -0.5) if scale is None else scale)
        output = output.transpose(1, 2)
        return (output, pad(returned, (self.first, 0))[..., :self.total]) if weights else output


eager = _eager_behind(_dynamic)
static = _eager_behind(_static)
sliding = _eager_behind(_sliding)
