"""Returns NaN, which is larger than no tolerance.

Source: https://github.com/gpu-mode/pygpubench/pull/7
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import numpy as np
from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value) * np.nan
