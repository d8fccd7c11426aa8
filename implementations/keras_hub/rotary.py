"""`keras_hub.layers.RotaryEmbedding`, on whatever backend KERAS_BACKEND names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import keras
from keras_hub.layers import RotaryEmbedding

Array = Any


def rotate(x: Array, positions: Array, *, base: float = 10000.0) -> Array:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    layer = _layer(base, keras.backend.standardize_dtype(x.dtype))
    return layer(x.swapaxes(1, 2), positions=positions).swapaxes(1, 2)


@lru_cache(maxsize=8)
def _layer(base: float, dtype: str) -> Any:  # noqa: ANN401  (a layer)
    return RotaryEmbedding(max_wavelength=base, dtype=dtype)
