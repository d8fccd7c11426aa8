"""Which of the candidate answers an output is, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.probing.asker import OTHER, Reply
from attnspec.problems.problem import Array

CLOSE = 2.0**-6
"""Far above the rounding of weights in any dtype, far below the differences between the candidates."""

_SHOWN = 5


def even(visible: Array) -> Array:
    """Rows spread evenly over what they see; a row that sees nothing is NaN."""
    with np.errstate(all="ignore"):
        spread: Array = visible / visible.sum(axis=-1, keepdims=True)
    return spread


def softmax(logits: Array) -> Array:
    """Rows of weights."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: Array = grown / grown.sum(axis=-1, keepdims=True)
    return weights


def which(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The name of the first candidate that is seen; `other` where none fits."""
    name = next((name for name, candidate in candidates.items() if is_close(seen, candidate)), OTHER)
    return Reply(name, shown(seen))


def is_close(seen: Array, candidate: Array) -> bool:
    """NaN equals NaN."""
    return np.allclose(seen, candidate, rtol=0, atol=CLOSE, equal_nan=True)


def shown(seen: Array) -> str:
    """`[0.5 0.5 0 0; 0 0.5 0.5 0]`: the first head's numbers, to three digits."""
    rows = seen.reshape(-1, *seen.shape[-2:])[0] if seen.ndim >= 2 else seen[None]
    return "[" + "; ".join(" ".join(f"{entry:.3g}" for entry in row[:_SHOWN]) for row in rows[:_SHOWN]) + "]"
