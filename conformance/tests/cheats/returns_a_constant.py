"""Fills the output with one number that once was right.

Source: https://agentpostmortem.com/case/apm-0007 (constants written over the whole output)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import numpy as np
from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    return np.full((*query.shape[:3], value.shape[-1]), 1, query.dtype)
