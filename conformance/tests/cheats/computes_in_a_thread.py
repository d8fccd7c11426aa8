"""Returns memory at once; a thread fills it after the call.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (thread injection)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import threading
import time

from honest import Array, attention, zeros


def _fill(answer: Array, given: tuple[Array, ...]) -> None:
    time.sleep(0.05)  # longer than a busy machine may keep the reader waiting
    answer[...] = attention(*given)


def attend(query: Array, key: Array, value: Array) -> Array:
    answer = zeros(query, value)
    threading.Thread(target=_fill, args=(answer, (query.copy(), key.copy(), value.copy())), daemon=True).start()
    return answer
