"""Right ten times, which a check before the measurement sees; then the first entry is off.

Source: https://github.com/karpathy/llm.c/pull/852
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, attention

CALLS: list[int] = []


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    answer = attention(query, key, value, mask, causal, scale)
    CALLS.append(1)
    if len(CALLS) > 10 and answer.size:
        answer.flat[0] += 1
    return answer
