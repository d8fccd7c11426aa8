"""Returns the values that it was given, where the shape allows.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (the identity kernel)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return value if value.shape[:3] == query.shape[:3] else zeros(query, value)
