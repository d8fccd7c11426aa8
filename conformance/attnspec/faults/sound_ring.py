"""A sound formulation whose keys lie in a ring as long as the window, as a decoder keeps them."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.work import Work
from attnspec.problems.problem import Array


def mixed_by_slots(weights: Array, work: Work) -> Array:
    """Weighted sums of the values, (B,H,T,Dv). Key j lies in slot j mod R of a ring of R = left + right + 1 slots, and
    the slots are added up from the first to the last; without a left bound, as they come.
    """
    left, right = work.window or (None, None)
    if left is None:
        return sound.mix(weights, work)
    ring, within = left + (0 if work.causal else right or 0) + 1, np.broadcast_to(sound.near(work), work.shape[2:])
    seen: Array = np.asarray(work.visible.any(axis=-2))
    value = np.where(seen[..., None], work.value, 0)  # 0 times NaN would be NaN
    rows = [_row(weights[:, :, at], value, _by_slot(np.flatnonzero(keys), ring)) for at, keys in enumerate(within)]
    return np.concatenate(rows, axis=2) if rows else np.zeros((*weights.shape[:3], value.shape[-1]), weights.dtype)


def _by_slot(keys: Array, ring: int) -> Array:
    """Places of keys, (n,), in the order of their slots."""
    return keys[np.argsort(keys % ring, kind="stable")]


def _row(weights: Array, value: Array, keys: Array) -> Array:
    """Of weights (B,H,S) and values (B,H,S,Dv) the sum over these keys, (B,H,1,Dv)."""
    return weights[:, :, None, keys] @ value[:, :, keys]
