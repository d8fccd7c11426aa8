"""`mlx.core.fast.rope` and `mlx.nn.RoPE` on CPU.

Both count on from an offset. The first takes one for each batch entry, so that tokens are handed over as batch entries
of one token each; the second has none for entries, and each token is a call of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from .arrays import to_mlx, to_numpy

Array = Any


def fast_rope(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
              interleaved: bool = False) -> Array:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    (B, H, T, D), width = x.shape, rotary_width or x.shape[-1]
    tokens = np.ascontiguousarray(x.swapaxes(1, 2)).reshape(B * T, H, 1, D)
    with mx.stream(mx.cpu):
        turned = mx.fast.rope(to_mlx(tokens), width, traditional=interleaved, base=base, scale=1.0,
                              offset=mx.array(positions.reshape(-1)))
        return to_numpy(turned).reshape(B, T, H, D).swapaxes(1, 2)


def layer(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
          interleaved: bool = False) -> Array:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    rope, output = _rope(rotary_width or x.shape[-1], base, interleaved), np.empty_like(x)
    with mx.stream(mx.cpu):
        for b, t in np.ndindex(*positions.shape):
            output[b, :, t:t + 1] = to_numpy(rope(to_mlx(x[b, :, t:t + 1]), offset=int(positions[b, t])))
    return output


@lru_cache(maxsize=8)
def _rope(width: int, base: float, interleaved: bool) -> Any:  # noqa: ANN401  (a module)
    return nn.RoPE(width, traditional=interleaved, base=base)
