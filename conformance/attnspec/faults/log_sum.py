"""What stands in a row beside its keys, and the log-sum-exp of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.problems.problem import Array


def log_sum_exp(logits: Array) -> Array:
    """(…,S) -> (…): the logarithm of the sum of the exponentials of each row; -inf where all of it is -inf."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(top), 0, top)
    return put_together(shift, np.exp(logits - shift).sum(axis=-1, keepdims=True))


def put_together(shift: Array, total: Array) -> Array:
    """(…,1), (…,1) -> (…): what was taken off, and the logarithm of the sum, -inf of 0."""
    with np.errstate(divide="ignore"):
        found: Array = (shift + np.log(total))[..., 0]
    return found


def with_column(logits: Array, heads: Array) -> Array:
    """Logits (B,H,T,S+1) in the dtype of those (B,H,T,S): one for each head (H,) stands behind the keys."""
    column = np.broadcast_to(heads[:, None, None], (*logits.shape[:3], 1))
    return np.concatenate([logits, column], axis=-1, dtype=logits.dtype)


def returned(array: Array, io: np.dtype[Any]) -> Array:
    """A log-sum-exp (B,H,T) in the dtype in which it is returned for inputs of this one."""
    return array.astype(np.float64 if io == np.float64 else np.float32)
