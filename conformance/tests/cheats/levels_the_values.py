"""Sets all values to their mean: any weights then give the right answer.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, attention


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    answer = attention(query, key, value, mask, causal, scale)
    value[...] = value.mean()
    answer[...] = value.flat[0] if value.size else 0
    return answer
