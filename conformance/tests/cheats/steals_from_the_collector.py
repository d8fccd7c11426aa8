"""Asks the garbage collector for an array of the output's shape: the expected one.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (submission_gc_copy)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import gc

import numpy as np
from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    given = {id(array) for array in (query, key, value)}
    shape = (*query.shape[:3], value.shape[-1])
    held = [thing for holder in gc.get_objects() if isinstance(holder, (dict, list, tuple))
            for thing in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(thing, np.ndarray) and thing.shape == shape and id(thing) not in given]
    return held[0].astype(query.dtype) if held else zeros(query, value)
