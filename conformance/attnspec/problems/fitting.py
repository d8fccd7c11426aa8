"""Sizes moved to where a subject takes them."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.declaration import Limits
from attnspec.problems.problem import Sizes

LONGEST_TIED = 512
"""Queries and keys of a problem that was to be long along one of them only, where both must be the same."""


def near(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes with each axis, and each group of heads, at the nearest size that is taken by itself."""
    if not limits.all_refusals:
        return sizes
    moved = {axis: limits.nearest(axis, sizes.by_axis[axis]) for axis in ("B", "T", "S", "D", "Dv")}
    return replace(sizes, **moved, **_heads(sizes, limits))


def _heads(sizes: Sizes, limits: Limits) -> dict[str, int]:
    """The nearest numbers of heads that are taken; those that came where these cannot be divided into groups."""
    heads, group = limits.nearest("H", sizes.H), limits.nearest("G", sizes.H // sizes.Hkv)
    return {"H": heads, "Hkv": heads // group} if heads % group == 0 else {"H": sizes.H, "Hkv": sizes.Hkv}


def fitted(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes within limits on any of the axes and on what must be the same as another."""
    sizes = near(sizes, limits)
    if limits.ties_value_width:
        sizes = replace(sizes, Dv=sizes.D)
    if limits.grouped is False:
        sizes = replace(sizes, Hkv=sizes.H)
    if limits.lengths == "equal" and sizes.T != sizes.S:
        length = limits.nearest("S", limits.nearest("T", min(max(sizes.T, sizes.S), LONGEST_TIED)))
        sizes = replace(sizes, T=length, S=length)
    if limits.lengths == "no_more_queries" and sizes.T > sizes.S:
        sizes = replace(sizes, T=sizes.S, S=sizes.T)
    return sizes
