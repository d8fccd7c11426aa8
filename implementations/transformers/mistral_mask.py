"""The mask that `MistralModel.forward` makes for its layers when nothing is padded, by the function it calls for it."""

from __future__ import annotations

from typing import Any

import torch
from transformers.models.mistral import modeling_mistral as mistral

Tensor = Any  # torch is not seen by mypy
Config = Any


def model_mask(config: Config, hidden: Tensor) -> Tensor:
    """Hidden states (B,T,M) to (B,1,T,T): causal, and within `config.sliding_window` unless that is None."""
    if hasattr(mistral, "create_sliding_window_causal_mask"):
        return _since_4_53(config, hidden)
    window = hidden.shape[1] if config.sliding_window is None else config.sliding_window
    if hasattr(mistral, "_prepare_4d_causal_attention_mask"):
        return mistral._prepare_4d_causal_attention_mask(None, hidden.shape[:2], hidden, 0, sliding_window=window)
    return mistral.MistralModel._prepare_decoder_attention_mask(
        None, torch.ones(hidden.shape[:2], dtype=torch.bool), hidden.shape[:2], hidden, 0, sliding_window=window)


def _since_4_53(config: Config, hidden: Tensor) -> Tensor:
    windowed = config.sliding_window is not None
    make = mistral.create_sliding_window_causal_mask if windowed else mistral.create_causal_mask
    positions = torch.arange(hidden.shape[1])[None]
    return make(config=config, inputs_embeds=hidden, attention_mask=None, past_key_values=None, position_ids=positions)
