"""`apply_rotary_emb` of diffusers with frequencies of `get_1d_rotary_pos_embed`, in the two ways that its models have.

All batch entries share one vector of positions, so that each entry is a call of its own. Positions are documented as an
array of NumPy, and early releases take no other.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed

Tensor = Any  # torch is not seen by mypy


def interleaved(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), as Flux and CogVideoX have it."""
    return _entries(x, positions, base, is_interleaved=True)


def halves(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), as Stable Audio and CogView4 have it."""
    return _entries(x, positions, base, is_interleaved=False)


def _entries(x: Tensor, positions: Tensor, base: float, *, is_interleaved: bool) -> Tensor:
    turned = []
    for entry, places in zip(x, positions):
        freqs = get_1d_rotary_pos_embed(x.shape[-1], places.numpy(), theta=base, use_real=True,
                                        repeat_interleave_real=is_interleaved)
        turned.append(apply_rotary_emb(entry[None], freqs, use_real_unbind_dim=-1 if is_interleaved else -2))
    return torch.cat(turned)
