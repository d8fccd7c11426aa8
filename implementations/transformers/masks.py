"""Masks as the models make them: the library's own mask functions, and what each attention interface takes.

Eager attention takes a float tensor that is added (0 and the dtype's lowest number: `eager_mask`); SDPA takes a boolean
one too, True where a key is attended to (`sdpa_mask`).
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.masking_utils import sdpa_mask

Tensor = Any  # torch is not seen by mypy


def visible(query: Tensor, key: Tensor, mask: Tensor, causal: bool) -> Tensor:
    """The boolean mask (B,H,T,S) or (B,1,T,S), the library's causal mask in it if asked for; None if all is visible.

    query, key: anything whose first axis is B and whose last but one is T or S.
    """
    if not causal:
        return mask
    earlier = sdpa_mask(query.shape[0], query.shape[-2], key.shape[-2], allow_is_causal_skip=False)
    return earlier if mask is None else earlier & mask


def added(seen: Tensor, bias: Tensor, dtype: Any, hidden: float | None = None) -> Tensor:  # noqa: ANN401  (a torch.dtype)
    """What is added to the logits: the bias or 0 where a key is visible; elsewhere `hidden`, or the lowest number."""
    if seen is None:
        return bias
    shown = torch.tensor(0.0, dtype=dtype) if bias is None else bias
    return torch.where(seen, shown, torch.finfo(dtype).min if hidden is None else hidden)


def either(seen: Tensor, bias: Tensor, dtype: Any, hidden: float | None = None) -> Tensor:  # noqa: ANN401  (see above)
    """What SDPA takes: the boolean mask, or, where there is a bias, what is added. -inf hides as a boolean mask."""
    return seen if bias is None else added(seen, bias, dtype, hidden)
