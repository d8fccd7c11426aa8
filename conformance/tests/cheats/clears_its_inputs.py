"""Sets its inputs to zero, so that whoever computes the truth from them later gets zeros, too.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    for array in (query, key, value):
        array[...] = 0
    return zeros(query, value)
