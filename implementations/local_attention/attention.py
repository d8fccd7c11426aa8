"""`local_attention.LocalAttention`: a query sees the keys near it.

`exact_windowsize` makes it see `window_size·look_backward` keys back and `window_size·look_forward` ahead; the window
size is the greatest common divisor of both sides; a side without a bound, and all where no window is asked for, is as
long as the sequence. `autopad` pads what the window size does not divide. A mask is (B·H,S). No rotary embedding.
"""

from __future__ import annotations

import inspect
import math
from functools import lru_cache
from typing import Any, Optional, Tuple

import torch
from local_attention import LocalAttention
from torch.nn.functional import pad

Tensor = Any  # torch is not seen by mypy
Module = Any
Window = Tuple[Optional[int], Optional[int]]

ACCEPTED = inspect.signature(LocalAttention).parameters


def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
           scale: float | None = None, window: Window | None = None) -> Tensor:
    """Training mode, without dropout."""
    sides = _sides(query.shape[2], window, causal=causal)
    query, scale = _scaled(query, scale)
    return _call(_module(math.gcd(*sides) or 1, sides, causal, scale).train(), query, key, value, mask)


def attend_inference(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
                     scale: float | None = None, window: Window | None = None) -> Tensor:
    """Evaluation mode, no gradient, and a dropout of one half that should do nothing."""
    sides = _sides(query.shape[2], window, causal=causal)
    with torch.no_grad():
        module = _module(math.gcd(*sides) or 1, sides, causal, scale, dropout=0.5).eval()
        return _call(module, query, key, value, mask)


def attend_finely(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
                  scale: float | None = None, window: Window | None = None) -> Tensor:
    """With windows of one key, looking back and ahead over as many as it takes: nothing is ever padded."""
    sides = _sides(query.shape[2], window, causal=causal)
    return _call(_module(1, sides, causal, scale).train(), query, key, value, mask)


def _scaled(query: Tensor, scale: float | None) -> tuple[Tensor, float | None]:
    """The query and the scale; early releases take no scale, so that there the query is scaled."""
    if scale is None or "scale" in ACCEPTED:
        return query, scale
    return query * (scale * query.shape[-1] ** 0.5), None


def _sides(length: int, window: Window | None, *, causal: bool) -> tuple[int, int]:
    """How many keys are seen back and ahead; the causal flag allows none ahead."""
    back, ahead = (length if side is None else side for side in window or (None, None))
    return back, 0 if causal else ahead


def _call(module: Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    B, H, _, D = query.shape
    mask = None if mask is None else mask[..., :1, :].expand(B, H, 1, -1).reshape(B * H, -1)
    if "mask" in inspect.signature(module.forward).parameters:
        return module(query, key, value, mask=mask)
    width = value.shape[-1]  # in early releases it is that of the query: columns of values are mixed piece by piece
    pieces = pad(value, (0, -width % D)).split(D, dim=-1)
    return torch.cat([module(query, key, piece, input_mask=mask) for piece in pieces], dim=-1)[..., :width]


@lru_cache(maxsize=256)
def _module(size: int, sides: tuple[int, int], causal: bool, scale: float | None, dropout: float = 0.0) -> Module:
    back, ahead = sides
    more: dict[str, Any] = {} if scale is None else {"scale": scale}
    if "use_rotary_pos_emb" in ACCEPTED:
        more["use_rotary_pos_emb"] = False
    return LocalAttention(size, causal=causal, look_backward=back // size, look_forward=ahead // size,
                          dropout=dropout, autopad=True, exact_windowsize=True, **more)
