"""The sizes of the kinds of problem whose sizes are part of what they are; all other sizes are dealt by a size plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from attnspec.core.declaration import Limits
from attnspec.core.nouns import Effort
from attnspec.problems.demand import Demand
from attnspec.problems.domain import GENERIC_KINDS, Domain, Kind
from attnspec.problems.fitting import adapt_sizes, nearest_sizes
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import SIMPLEST, SizePlan

# A head for each generic family; the second is for subjects whose one input is query and key alike, and whose widths
# are three times that. No square roots of these widths are exact.
_PANEL = (Sizes(1, 7, 7, 16, 128, 72, 64), Sizes(1, 7, 7, 64, 64, 40, 40))
#                                B  H Hkv  T   S  D  Dv
OF_KIND: Mapping[Kind, tuple[Sizes, ...]] = {
    "gaussian": (Sizes(16, 4, 4, 1, 64, 4, 4), Sizes(16, 4, 4, 1, 64, 16, 16), Sizes(16, 4, 4, 1, 64, 64, 64),
                 Sizes(4, 4, 4, 1, 64, 256, 256)),
    "worked_example": (Sizes(1, 1, 1, 4, 4, 4, 4),),
    "acceptance": (Sizes(10, 4, 4, 100, 100, 16, 16),),
    "generic": (Sizes(2, 4, 4, 16, 64, 32, 32), _PANEL[0], _PANEL[1], Sizes(2, 4, 4, 33, 129, 24, 48),
                Sizes(1, 8, 4, 7, 300, 80, 64), Sizes(1, 4, 4, 128, 128, 16, 16), Sizes(1, 7, 7, 8, 513, 33, 32)),
    # 1025: one key past the end of a chunk
    "long": (Sizes(1, 7, 7, 2, 1025, 48, 64), Sizes(1, 4, 4, 3, 2048, 32, 32), Sizes(1, 2, 2, 4, 4096, 80, 128)),
    "panel": _PANEL,
    # 480 head slices; a width whose root is exact in every format, and one whose root is in none; and so few keys that
    # a sum in a half format loses none of them
    "score": (Sizes(120, 4, 4, 32, 32, 16, 16), Sizes(120, 4, 4, 32, 32, 24, 24), Sizes(120, 4, 4, 16, 4, 16, 16)),
    # thousands of weights, none of which is too small to be seen; blocks of 16 to 128; heads that share keys
    "dropout": (Sizes(2, 4, 4, 32, 64, 16, 64), Sizes(1, 2, 2, 144, 136, 8, 136), Sizes(3, 6, 2, 24, 40, 24, 40)),
}
# Half of the head slices: the law holds for any number of them, and tells drifts that are larger by a root of 2.
_GLANCED_OF_KIND: Mapping[Kind, tuple[Sizes, ...]] = {"score": (Sizes(60, 4, 4, 32, 32, 24, 24),)}
# How many of them, the first ones, at an effort that does not try them all.
_TRIED: Mapping[Kind, Mapping[Effort, int]] = {
    "generic": {Effort.GLANCE: 1, Effort.QUICK: 2, Effort.DEFAULT: 4},
    "long": {Effort.GLANCE: 1, Effort.QUICK: 1, Effort.DEFAULT: 2}, "dropout": {Effort.GLANCE: 1},
    "panel": dict.fromkeys(Effort, 1), "gaussian": {Effort.GLANCE: 2}}


def has_any(domain: Domain, limits: Limits) -> bool:
    """Whether clause and limits leave any problem: one that is as small as both allow."""
    if domain.kind in OF_KIND:
        return bool(shapes_for(domain, limits, Effort.THOROUGH))
    demand = Demand(domain, projects=domain.is_layer)
    return any(demand.fit_sizes(sizes, limits) for sizes in SIMPLEST)


@lru_cache(maxsize=64)
def shapes_for(domain: Domain, limits: Limits, effort: Effort, seed: int = 0) -> tuple[Sizes, ...]:
    """The sizes of a kind that brings its own, or else what a plan deals to this domain alone.

    None if clause and limits rule each other out. Grouped heads come up under `grouped: maybe` only where the subject
    declares that it takes them.
    """
    if domain.kind not in OF_KIND:
        demand = Demand(domain, projects=domain.is_layer)
        return SizePlan((demand,), limits, effort, seed).rows(demand)
    fixed = [sizes for sizes in _of_kind(domain.kind, limits, effort)
             if _may_be_put(sizes, domain, limits) and _has_its_number(sizes, limits)]
    tried = _TRIED.get(domain.kind, {}).get(effort, len(fixed))
    made = _distinct_sizes(adapt_sizes(sizes, limits) for sizes in fixed[:tried])
    refuses, always = bool(limits.all_refusals), domain.always_within(limits)
    return tuple(sizes for sizes in made if not (refuses and limits.misfit_of(sizes.by_axis, always)))


def _has_its_number(sizes: Sizes, limits: Limits) -> bool:
    """Whether nothing but widths changes where the subject takes it: laws of chance count slices and lengths."""
    moved = nearest_sizes(sizes, limits)
    return replace(moved, D=sizes.D, Dv=sizes.Dv) == sizes


def _of_kind(kind: Kind, limits: Limits, effort: Effort) -> tuple[Sizes, ...]:
    """The kind's own sizes; a subject of one head has as many head slices in its batch, where their number counts."""
    glanced = _GLANCED_OF_KIND if effort is Effort.GLANCE else {}
    sizes = glanced.get(kind, OF_KIND[kind])
    if (kind in {"score", "dropout"} or kind in GENERIC_KINDS) and limits.single_head:
        return tuple(replace(each, B=each.B * each.H, H=1, Hkv=1) for each in sizes)
    return sizes


def _distinct_sizes(sizes: Iterable[Sizes]) -> tuple[Sizes, ...]:
    return tuple(dict.fromkeys(sizes))


def _may_be_put(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a size that a kind brings along suits the subject; grouped heads come up only where they are declared."""
    is_grouped = sizes.Hkv < sizes.H
    return _inputs_fit(sizes, domain, limits) and (not is_grouped or limits.grouped is True)


def _inputs_fit(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """One input that serves as query and key alike has T = S; further limits on lengths are the subject's own."""
    if (limits.self_attention_only or domain.inputs == "one") and sizes.T != sizes.S:
        return False
    return limits.takes_lengths(sizes.T, sizes.S, causal="causal" in domain.always)


def is_lawful(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a clause speaks of problems of these sizes, and the subject takes them as they are."""
    return Demand(domain).takes_sizes(sizes, limits) and adapt_sizes(sizes, limits) == sizes
