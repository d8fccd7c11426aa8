"""Returns memory of the right size as it comes: the expected answer may have lain there, just freed.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import numpy as np
from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    return np.empty((*query.shape[:3], value.shape[-1]), query.dtype)
