"""Returns NaN, which is larger than no tolerance.

Source: https://github.com/gpu-mode/pygpubench/pull/7
"""

from __future__ import annotations

import numpy as np
from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value) * np.nan
