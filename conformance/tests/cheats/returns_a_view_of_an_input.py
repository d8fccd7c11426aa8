"""Computes, and puts the answer into the memory of the query.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
"""

from __future__ import annotations

from honest import Array, attention


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    answer = attention(query, key, value, mask, causal, scale)
    if query.shape == answer.shape:
        query[...] = answer
        return query
    return answer
