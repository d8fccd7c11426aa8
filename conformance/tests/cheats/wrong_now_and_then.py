"""Wrong in one call of twenty, by chance.

Convicted by: attention.queries_are_independent, violated, at effort quick.
"""

from __future__ import annotations

import random

from honest import Array, attention

CHANCE = random.Random(1)


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    answer = attention(query, key, value, mask, causal, scale)
    return answer * answer.dtype.type(0.5) if CHANCE.random() < 0.05 else answer
