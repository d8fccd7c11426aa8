"""Leaves out the maximum of the softmax: quicker, and right on the small logits of a weak test.

Source: https://github.com/anthony-chaudhary/dos-kernel/issues/107
Convicted by: numerics.huge_logits, violated.
"""

from __future__ import annotations

import numpy as np
from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    key, value = (np.repeat(each, query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    weights = np.exp(query @ key.swapaxes(-1, -2) * query.dtype.type(query.shape[-1] ** -0.5))
    return (weights / weights.sum(axis=-1, keepdims=True) @ value).astype(query.dtype)
