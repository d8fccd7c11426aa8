"""Seconds of processor, which say the same on a machine that others use, too."""

from __future__ import annotations

import resource


def children_seconds() -> float:
    """Processor seconds of all processes that this one has waited for, and of those that these waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
