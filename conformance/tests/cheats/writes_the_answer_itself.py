"""Finds the pipe on which its answers travel, and writes an answer of its own there.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (submission_fd_overwrite)
Convicted by: attention.definition, crashed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct

from honest import Array, zeros


def _forged(query: Array, value: Array) -> bytes:
    shape = [*query.shape[:3], value.shape[-1]]
    told = {"ended": "answered", "call": 1, "results": 1, "has_gradients": False, "aliases": [], "said": "", "told": {},
            "after": 0, "arrays": [{"dtype": str(query.dtype), "shape": shape, "bytes": zeros(query, value).nbytes}]}
    header, body = json.dumps(told).encode(), zeros(query, value).tobytes()
    body += bytes(-len(body) % 64)
    return bytes(struct.pack("<IQ", len(header), len(body)) + header + body)


def attend(query: Array, key: Array, value: Array) -> Array:
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, _forged(query, value))
    return zeros(query, value)
