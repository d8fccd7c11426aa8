"""How long an axis may be beside the others, for a call to cost no more than it may."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attnspec.problems.aimed import work_at

SIDES = ("T", "S")
"""The axes that are as long as one another where T = S."""


def room(lengths: Mapping[str, int], name: str, cap: float) -> int:
    """How long an axis may be beside the others for a call to cost no more than `cap`; G goes with H."""
    plain = {**lengths, "G": 1} if name != "G" else {**lengths, "H": 1}
    one, two = (work_at({**plain, name: length}) for length in (1, 2))
    return max(1, int(1 + (cap - one) / (two - one)))  # the work is linear in every axis


def side(lengths: Mapping[str, int], cap: float) -> int:
    """How many queries, and as many keys, there may be beside the other lengths."""
    one, two, three = (work_at({**lengths, **dict.fromkeys(SIDES, length)}) for length in (1, 2, 3))
    square = (three - 2 * two + one) / 2  # the work is square * side² + linear * side
    linear = two - one - 3 * square
    return max(1, int((math.sqrt(linear**2 + 4 * square * cap) - linear) / (2 * square)))


def squared(lengths: Mapping[str, int]) -> Mapping[str, int]:
    """The same with as many queries as keys, the more of both, where either is named."""
    sides = [lengths[name] for name in SIDES if name in lengths]
    return {**lengths, **dict.fromkeys(SIDES, max(sides))} if sides else lengths
