"""The hidden switches of an attention module, and what the modules' adapters share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from . import masks

Tensor = Any  # torch is not seen by mypy


@dataclass(frozen=True)
class Mode:
    """implementation: the attention interface.  training: with gradient.  dropout: of the weights."""

    implementation: str = "eager"
    training: bool = False
    dropout: float = 0.0

    def gradient(self, query: Tensor) -> AbstractContextManager[object]:
        """Gradients are recorded in training, and where the query (B,T,M) requires one."""
        return nullcontext() if self.training else torch.set_grad_enabled(query.requires_grad)

    def attention_mask(self, hidden: Tensor, mask: Tensor, bias: Tensor, causal: bool) -> Tensor:
        """The 4-D tensor that the model hands its layers: additive, or boolean for SDPA where there is no bias."""
        seen = masks.visible(hidden, hidden, mask, causal)
        made = masks.either if self.implementation == "sdpa" else masks.added
        return made(seen, bias, hidden.dtype)

    def decoder_mask(self, hidden: Tensor, mask: Tensor, bias: Tensor, causal: bool) -> Tensor:
        """The same for a decoder, whose models always make a mask: with SDPA its layers take none for causal."""
        given = self.attention_mask(hidden, mask, bias, causal)
        return torch.ones(1, 1, *[hidden.shape[1]] * 2, dtype=torch.bool) if given is None else given


TRAINING = Mode(training=True)
DROPOUT = Mode(dropout=0.5)
SDPA = Mode("sdpa")
