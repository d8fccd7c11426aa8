"""The function of the README: wrong on purpose, for its running sum is not rescaled where the maximum rises."""

from typing import Any

import numpy as np


def attend(query: Any, key: Any, value: Any) -> Any:  # noqa: ANN401  (arrays, as a user writes them)
    """Attend in blocks of 64 keys: query (B,H,T,D), key (B,H,S,D) and value (B,H,S,Dv) make an output (B,H,T,Dv)."""
    top, total, output = -np.inf, 0.0, 0.0
    for start in range(0, key.shape[2], 64):  # 64 keys at a time
        block = slice(start, start + 64)
        logits = query @ key[:, :, block].swapaxes(-1, -2) * query.shape[-1] ** -0.5
        larger = np.maximum(top, logits.max(-1, keepdims=True))
        weights = np.exp(logits - larger)
        total = total + weights.sum(-1, keepdims=True)
        output = output * np.exp(top - larger) + weights @ value[:, :, block]
        top = larger
    return output / total


attend.dtypes = ["float32"]  # type: ignore[attr-defined]  # a declaration, as a user writes it
attend.grouped = False  # type: ignore[attr-defined]  # as many key/value heads as query heads
