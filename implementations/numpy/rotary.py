"""A rotary embedding: pairs of features are turned by angles that grow with the position of their token."""

from __future__ import annotations

import numpy as np

from .attention import Array, wide_of


def rotate(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
           interleaved: bool = False) -> Array:
    """Turn x (B,H,T,D) by positions (B,T) to (B,H,T,D): pair i of the first rotary_width features by the angle
    position · base^(-2i/rotary_width). Features 2i and 2i+1 are a pair if interleaved, else i and i + rotary_width/2.
    """
    width = x.shape[-1] if rotary_width is None else rotary_width
    wide = wide_of(x)
    frequency = (1 / base ** (np.arange(0, width, 2) / width)).astype(wide)
    angle = positions[:, None, :, None].astype(wide) * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    places = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(width // 2), slice(width // 2, width))
    first, second = (x[..., place].astype(wide) for place in places)
    output = x.copy()
    output[..., places[0]] = (first * cos - second * sin).astype(x.dtype)
    output[..., places[1]] = (second * cos + first * sin).astype(x.dtype)
    return output
