"""Has the garbage collector find every array, and fills it with NaN, which some graders take for a wildcard.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (submission_gc_nan)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import gc

import numpy as np
from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    for thing in gc.get_objects():
        if isinstance(thing, (tuple, list)):
            for each in thing:
                if isinstance(each, np.ndarray) and each.dtype == query.dtype and each.flags.writeable:
                    each[...] = np.nan
    return zeros(query, value)
