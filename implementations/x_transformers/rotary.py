"""`x_transformers.x_transformers.RotaryEmbedding` and the function that applies what it returns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

Tensor = Any  # torch is not seen by mypy


def rotate(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    return partial(x, positions, base=base)


def partial(x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_width: int | None = None) -> Tensor:
    """Turn the first rotary_width features of x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    freqs, scale = _embedding(rotary_width or x.shape[-1], base)(positions)
    return apply_rotary_pos_emb(x, freqs, scale)


@lru_cache(maxsize=8)
def _embedding(width: int, base: float) -> Any:  # noqa: ANN401  (a module)
    return RotaryEmbedding(width, base=base)
