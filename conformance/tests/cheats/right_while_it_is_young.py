"""Right while it is young.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (submission_warmup)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import time

from honest import Array, attention, zeros

BORN = time.monotonic()


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    if time.monotonic() - BORN > 0.005:
        return zeros(query, value)
    return attention(query, key, value, mask, causal, scale)
