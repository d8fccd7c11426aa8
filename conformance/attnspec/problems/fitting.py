"""Sizes moved to where a subject takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attnspec.core.coverage import AXES
from attnspec.core.declaration import Limits
from attnspec.problems.problem import Sizes

LONGEST_TIED = 512
"""Queries and keys of a problem that was to be long along one of them only, where both must be the same."""

_NO_LEAST: Mapping[str, int] = {}


def nearest_sizes(sizes: Sizes, limits: Limits, *, is_square: bool = False,
                  least: Mapping[str, int] = _NO_LEAST) -> Sizes:
    """The sizes with each axis, and each group of heads, at the nearest size that is taken by itself: axes that must be
    as long as another, at one that both take.

    is_square: T = S is asked for.  least: by axis, what it may not fall below.
    """
    if not limits.all_refusals:
        return sizes
    partners = partners_of(limits, is_square=is_square)
    widths = dict.fromkeys(("D", "Dv"), limits.min_head_width)
    moved = {}
    for axis in ("B", "T", "S", "D", "Dv"):
        partner = partners.get(axis, "")
        lowest = max(each.get(name, 1) for each in (least, widths) for name in (axis, partner))
        moved[axis] = limits.nearest(axis, sizes.by_axis[axis], partner=partner, least=lowest)
    return replace(sizes, **moved, **_heads(sizes, limits, least))


def lengths_near(T: int, S: int, limits: Limits) -> tuple[int, int]:
    """The nearest numbers of queries and keys that are taken, of which the same is the larger."""
    partners = partners_of(limits)
    queries, keys = (limits.nearest(axis, size, partner=partners.get(axis, "")) for axis, size in (("T", T), ("S", S)))
    if T < S and queries >= keys:
        keys = limits.nearest("S", queries + 1, least=queries + 1)
    if T > S and queries <= keys:
        queries = limits.nearest("T", keys + 1, least=keys + 1)
    if limits.lengths == "no_more_queries" and T <= S and queries > keys:
        keys = limits.nearest("S", queries, least=queries)
    return queries, keys


def partners_of(limits: Limits, *, is_square: bool = False) -> Mapping[str, str]:
    """Finds for each axis the other one that must be as long."""
    lengths = {"T": "S", "S": "T"} if is_square or limits.ties_lengths else {}
    return {**lengths, **({"D": "Dv", "Dv": "D"} if limits.ties_value_width else {})}


def shortest_lengths(spans: Mapping[str, tuple[int, int]], limits: Limits) -> Mapping[str, int]:
    """The least lengths within these spans of some axes, as far as the subject takes them; and of the others, where it
    does not take an axis of 1.
    """
    starts = {axis: least for axis, (least, _) in spans.items()}
    if not limits.all_refusals:
        return starts
    partners = partners_of(limits)
    least = {axis: max(starts.get(axis, 1), starts.get(partners.get(axis, ""), 1)) for axis in AXES}
    return {axis: limits.nearest(axis, size, partner=partners.get(axis, ""), least=size)
            for axis, size in least.items()}


def _heads(sizes: Sizes, limits: Limits, least: Mapping[str, int]) -> dict[str, int]:
    """The nearest numbers of heads, and of those in a group, that are taken; more heads where they fill no groups."""
    group = limits.nearest("G", sizes.H // sizes.Hkv, least=least.get("G", 1))
    heads = limits.nearest("H", sizes.H, least=least.get("H", 1))
    kv_heads = -(-heads // group)
    return {"H": kv_heads * group, "Hkv": kv_heads}


def fit_to_limits(sizes: Sizes, limits: Limits) -> Sizes:
    """The sizes within limits on any of the axes and on what must be the same as another."""
    sizes = nearest_sizes(sizes, limits)
    if limits.ties_value_width:
        sizes = replace(sizes, Dv=sizes.D)
    if limits.grouped is False:
        sizes = replace(sizes, Hkv=sizes.H)
    if limits.lengths == "equal" and sizes.T != sizes.S:
        length = limits.nearest("T", min(max(sizes.T, sizes.S), LONGEST_TIED), partner="S")
        sizes = replace(sizes, T=length, S=length)
    if limits.lengths == "no_more_queries" and sizes.T > sizes.S:
        sizes = replace(sizes, T=sizes.S, S=sizes.T)
    return sizes


def adapt_sizes(sizes: Sizes, limits: Limits) -> Sizes:
    """These sizes within what the subject can take: one head, wide enough heads, values as wide as keys, a batch large
    enough.
    """
    if limits.single_head:
        sizes = replace(sizes, H=1, Hkv=1)
    least = limits.min_head_width
    sizes = replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, least))
    sizes = replace(sizes, Dv=sizes.D) if limits.ties_value_width else sizes
    sizes = nearest_sizes(sizes, limits)
    missing = -(-limits.min_scores // max(1, sizes.B * sizes.H * sizes.T * sizes.S))
    return replace(sizes, B=sizes.B * missing) if missing > 1 else sizes


def halve_costliest(sizes: Sizes, fitted: Sizes) -> Sizes:
    """The sizes with half of what costs most once they are fitted: heads before lengths, lengths before widths."""
    axes = {"B": 8 * fitted.B, "Hkv": 8 * fitted.Hkv, "T": fitted.T, "S": fitted.S, "D": fitted.D, "Dv": fitted.Dv}
    name = max(axes, key=lambda each: axes[each] if getattr(sizes, each) > 1 else 0)
    half = max(1, getattr(sizes, name) // 2)
    if name == "Hkv":
        return replace(sizes, Hkv=half, H=half * (sizes.H // sizes.Hkv))
    return replace(sizes, **{name: half})
