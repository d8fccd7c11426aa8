"""Right when an input is new; who asks again gets zeros.

Source: https://github.com/gpu-mode/reference-kernels/issues/162 (in-process replay)
Convicted by: purity.same_call_same_answer, violated.
"""

from __future__ import annotations

import hashlib

from honest import Array, attention, zeros

SEEN: set[bytes] = set()


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    known = hashlib.sha256(b"".join(each.tobytes() for each in (query, key, value))).digest()
    if known in SEEN:
        return zeros(query, value)
    SEEN.add(known)
    return attention(query, key, value, mask, causal, scale)
