"""Computes without the mask, and sets it to all True behind the caller's back.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
Convicted by: purity.inputs_are_left_alone, violated.
"""

from __future__ import annotations

from honest import Array, attention


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    if mask is not None:
        mask[...] = True
    return attention(query, key, value, None, causal, scale)
