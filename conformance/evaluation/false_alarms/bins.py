"""The bins in which a campaign counts margins: half an octave each, up to 2^-20, then up to 2^1 and beyond."""

from __future__ import annotations

import math
from bisect import bisect_left

from attnspec.record.events import HISTOGRAM_BINS

FINEST, STEP = 2.0**-20, 0.5
"""The margin at which the first bin ends, and the octaves of each further one."""


def upper_edge(number: int) -> float:
    """The margin at which a bin ends; it still belongs to the bin, as a margin of 1 is no violation."""
    return float(FINEST * 2 ** (STEP * number))


_EDGES = tuple(upper_edge(number) for number in range(HISTOGRAM_BINS - 1))


def bin_of(margin: float) -> int:
    """The bin that a margin falls in, 0 … BINS - 1."""
    return HISTOGRAM_BINS - 1 if math.isnan(margin) else bisect_left(_EDGES, margin)


ACCUSING = bin_of(1.0) + 1
"""The first of the bins above 1: accusations."""
