"""attnax's kernels: `standard_attention`, and the block-wise `memory_efficient_attention` that two others fall back to.

Triangle, window and bias are the library's own score modifications. A sliding window of w keys ends at the query, so it
is one of (w - 1, 0), or of (w - 1, w - 1) where it is not causal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Optional, Tuple

from attnax import kernels

from ..jax.compiled import hurried_jit

Array = Any
Window = Optional[Tuple[int, int]]


def _with(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """One of the kernels, which all have the same keywords."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
               causal: bool = False, window: Window = None) -> Array:
        """Query (B,H,T,D), key and value (B,H,S,D) to (B,H,T,D)."""
        mods = (None if bias is None else kernels.additive_bias_mod(bias), *_mods(causal, window))
        return kernel(query, key, value, mask=mask, score_mod=kernels.score_mods.compose_score_mods(*mods))

    return attend


def _in_blocks(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """The same without bias: `additive_bias_mod` adds the whole of it to every block."""

    def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
               window: Window = None) -> Array:
        """Query (B,H,T,D), key and value (B,H,S,D) to (B,H,T,D)."""
        mods = kernels.score_mods.compose_score_mods(*_mods(causal, window))
        return kernel(query, key, value, mask=mask, score_mod=mods)

    compiled: Callable[..., Array] = hurried_jit(attend, "causal", "window")
    return compiled


def _mods(causal: bool, window: Window) -> tuple[kernels.ScoreMod | None, ...]:
    return (kernels.causal_mod() if causal else None,
            None if window is None else kernels.sliding_window_mod(window[0] + 1, causal=False))


BLOCK = 64  # several to a problem of the longer sizes; the default of 512 would never be reached


def _jitted(kernel: Callable[..., Array]) -> Callable[..., Array]:
    compiled: Callable[..., Array] = hurried_jit(_with(kernel), "causal", "window")
    return compiled


standard = _jitted(kernels.standard_attention)
flash = _jitted(kernels.flash_attention)
pallas = _jitted(kernels.pallas_flash_attention)
blockwise = _in_blocks(partial(kernels.memory_efficient_attention, block_size=BLOCK))
blockwise_flash = _in_blocks(partial(kernels.flash_attention, block_size=BLOCK))
blockwise_pallas = _in_blocks(partial(kernels.pallas_flash_attention, block_q=BLOCK, block_kv=BLOCK))
