"""One pool of sizes for the whole project, since a compiling library pays for every new one.

The pool holds 1, 2, odd lengths, both sides of 16, 32, 64 and 128 (where blocks end), S one past 512, T above and below
S, widths that no power of two divides, batches, and groups of 1 to 4 query heads. What goes wrong past a block's end is
wrong with few rows and many keys, or many rows and few keys, alike: such shapes cost little, so that effort quick has
them too. Clauses filter the pool; what a subject cannot take by design is left out or adapted, in the same way for
every clause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from attnspec.core.declaration import Limits, with_groups
from attnspec.core.nouns import Effort
from attnspec.problems.domain import GENERIC_KINDS, Domain, Kind
from attnspec.problems.fitting import near
from attnspec.problems.problem import Sizes

#                 B  H Hkv  T    S   D   Dv      in the order in which they are worth having
POOL: tuple[Sizes, ...] = (
    Sizes(1, 1, 1, 1, 1, 1, 1),
    Sizes(1, 2, 2, 128, 128, 64, 64),
    Sizes(2, 2, 2, 2, 5, 7, 3),
    Sizes(1, 2, 2, 3, 513, 33, 24),
    Sizes(2, 6, 2, 15, 17, 16, 16),
    Sizes(1, 2, 2, 129, 15, 16, 7),
    Sizes(2, 2, 2, 33, 33, 24, 24),
    Sizes(2, 4, 2, 1, 9, 8, 8),
    Sizes(2, 3, 3, 17, 15, 8, 16),
    Sizes(2, 4, 4, 16, 16, 16, 8),
    Sizes(2, 2, 1, 32, 32, 8, 32),
    Sizes(2, 2, 2, 31, 65, 33, 24),
    Sizes(2, 2, 2, 3, 2, 3, 2),
    Sizes(1, 4, 1, 64, 63, 80, 64),
    Sizes(2, 4, 2, 2, 3, 2, 3),
    Sizes(2, 2, 2, 3, 3, 2, 2),
    Sizes(1, 2, 2, 129, 127, 16, 7),
)

# At a glance a clause has few shapes, and these come first: past blocks of 16, 32 and 128, T above and below S, T = S,
# groups. They are small, too: where a clause reads weights out, values are as wide as there are keys. All clauses share
# them, since a compiling library pays for every new one.
_GLANCED: tuple[Sizes, ...] = (
    Sizes(2, 4, 2, 7, 17, 16, 8),
    Sizes(1, 2, 2, 3, 131, 33, 24),
    Sizes(2, 3, 3, 17, 9, 8, 16),
    Sizes(2, 2, 2, 17, 17, 24, 24),
    Sizes(2, 2, 2, 2, 5, 7, 3),
    Sizes(1, 4, 4, 33, 33, 16, 8),
    Sizes(2, 4, 1, 16, 16, 8, 32),
)

# A head for each generic family; the second is for subjects whose one input is query and key alike, and whose widths
# are three times that. No square roots of these widths are exact.
_PANEL = (Sizes(1, 7, 7, 16, 128, 72, 64), Sizes(1, 7, 7, 64, 64, 40, 40))
# Kinds of problem whose sizes are part of what they are.
_OF_KIND: Mapping[Kind, tuple[Sizes, ...]] = {
    "gaussian": (Sizes(16, 4, 4, 1, 64, 4, 4), Sizes(16, 4, 4, 1, 64, 16, 16), Sizes(16, 4, 4, 1, 64, 64, 64),
                 Sizes(4, 4, 4, 1, 64, 256, 256)),
    "worked_example": (Sizes(1, 1, 1, 4, 4, 4, 4),),
    "acceptance": (Sizes(10, 4, 4, 100, 100, 16, 16),),
    "generic": (Sizes(2, 4, 4, 16, 64, 32, 32), _PANEL[0], _PANEL[1], Sizes(2, 4, 4, 33, 129, 24, 48),
                Sizes(1, 8, 4, 7, 300, 80, 64), Sizes(1, 4, 4, 128, 128, 16, 16), Sizes(1, 7, 7, 8, 513, 33, 32)),
    # 1025: one key past the end of a chunk
    "long": (Sizes(1, 7, 7, 2, 1025, 48, 64), Sizes(1, 4, 4, 3, 2048, 32, 32), Sizes(1, 2, 2, 4, 4096, 80, 128)),
    "panel": _PANEL,
    # 480 head slices; a width whose root is exact in every format, and one whose root is in none
    "score": (Sizes(120, 4, 4, 32, 32, 16, 16), Sizes(120, 4, 4, 32, 32, 24, 24)),
}
# Half of the head slices: the law holds for any number of them, and tells drifts that are larger by a root of 2.
_GLANCED_OF_KIND: Mapping[Kind, tuple[Sizes, ...]] = {"score": (Sizes(60, 4, 4, 32, 32, 24, 24),)}
# How many of them, the first ones, at an effort that does not try them all.
_TRIED: Mapping[Kind, Mapping[Effort, int]] = {
    "generic": {Effort.GLANCE: 1, Effort.QUICK: 2, Effort.DEFAULT: 4},
    "long": {Effort.GLANCE: 1, Effort.QUICK: 1, Effort.DEFAULT: 2},
    "panel": dict.fromkeys(Effort, 1), "gaussian": {Effort.GLANCE: 2}}

# At most so many shapes, none with more than so many logits (B·H·T·S).
_BUDGET = {Effort.GLANCE: (3, 5_000), Effort.QUICK: (6, 5_000), Effort.DEFAULT: (9, 80_000),
           Effort.THOROUGH: (len(POOL), 80_000)}


def shapes_for(domain: Domain, limits: Limits, effort: Effort) -> tuple[Sizes, ...]:
    """The sizes that a clause tries on a subject with these limits, smallest first; none if they rule each other out.

    The smallest and the largest that fit are always among them, but at a glance. Grouped heads come up under
    `grouped: maybe` only where the subject declares that it takes them.
    """
    if domain.kind in _OF_KIND:
        fixed = [sizes for sizes in _of_kind(domain.kind, limits, effort) if _may_be_put(sizes, domain, limits)]
        tried = _TRIED.get(domain.kind, {}).get(effort, len(fixed))
        adapted = _distinct(_adapted(sizes, limits) for sizes in fixed[:tried])
        return tuple(sizes for sizes in adapted if not _is_refused(sizes, domain, limits))
    count, most = _BUDGET[effort]
    glanced = _distinct(near(sizes, limits) for sizes in _GLANCED)
    pool = _distinct(near(sizes, limits) for sizes in POOL)
    offered = (*glanced, *pool) if effort is Effort.GLANCE else pool
    fitting = sorted((sizes for sizes in offered if _fits(sizes, domain, limits) and logits(sizes) <= most), key=logits)
    if not fitting:
        return ()
    first = glanced if effort is Effort.GLANCE else (fitting[0], fitting[-1])
    chosen = dict.fromkeys(sizes for sizes in (*first, *offered) if sizes in fitting)
    return _distinct(sorted((_adapted(sizes, limits) for sizes in list(chosen)[:count]), key=logits))


def _of_kind(kind: Kind, limits: Limits, effort: Effort) -> tuple[Sizes, ...]:
    """The kind's own sizes; a subject of one head has as many head slices in its batch, where their number counts."""
    glanced = _GLANCED_OF_KIND if effort is Effort.GLANCE else {}
    sizes = glanced.get(kind, _OF_KIND[kind])
    if (kind == "score" or kind in GENERIC_KINDS) and limits.single_head:
        return tuple(replace(each, B=each.B * each.H, H=1, Hkv=1) for each in sizes)
    return sizes


def logits(sizes: Sizes) -> int:
    """How many dot products a problem of these sizes has: B·H·T·S."""
    return sizes.B * sizes.H * sizes.T * sizes.S


def _distinct(sizes: Iterable[Sizes]) -> tuple[Sizes, ...]:
    return tuple(dict.fromkeys(sizes))


def _fits(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    return (_inputs_fit(sizes, domain, limits) and _lengths_fit(sizes, domain) and _heads_fit(sizes, domain, limits)
            and domain.min_batch <= sizes.B and domain.min_queries <= sizes.T and domain.min_keys <= sizes.S
            and domain.min_width <= sizes.D and limits.min_scores <= logits(sizes)
            and not _is_refused(_adapted(sizes, limits), domain, limits))


def _is_refused(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether the subject refuses these sizes with what the clause always puts."""
    refusals = (each.meets(with_groups(sizes.by_axis), domain.always) for each in limits.refuses)
    return any(refusals)


def _may_be_put(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """Whether a size that a kind brings along suits the subject; grouped heads come up only where they are declared."""
    is_grouped = sizes.Hkv < sizes.H
    return _inputs_fit(sizes, domain, limits) and (not is_grouped or limits.grouped is True)


def _inputs_fit(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    """One input that serves as query and key alike has T = S; further limits on lengths are the subject's own."""
    if (limits.self_attention_only or domain.inputs == "one") and sizes.T != sizes.S:
        return False
    return limits.takes_lengths(sizes.T, sizes.S, causal="causal" in domain.always)


def _lengths_fit(sizes: Sizes, domain: Domain) -> bool:
    T, S = sizes.T, sizes.S
    return {"any": True, "self": T == S, "cross": T != S, "more_queries": T > S, "more_keys": T < S}[domain.lengths]


def _heads_fit(sizes: Sizes, domain: Domain, limits: Limits) -> bool:
    if domain.min_heads > (1 if limits.single_head else sizes.H):
        return False
    is_grouped = sizes.Hkv < sizes.H
    if domain.grouped == "always":
        return is_grouped and not _refuses_groups(limits)
    return not is_grouped or (domain.grouped == "maybe" and limits.grouped is True and not _refuses_groups(limits))


def _refuses_groups(limits: Limits) -> bool:
    return limits.grouped is False or limits.single_head or limits.self_attention_only


def _adapted(sizes: Sizes, limits: Limits) -> Sizes:
    """These sizes within what the subject can take: one head, wide enough heads, values as wide as keys."""
    if limits.single_head:
        sizes = replace(sizes, H=1, Hkv=1)
    least = limits.min_head_width
    sizes = replace(sizes, D=max(sizes.D, least), Dv=max(sizes.Dv, least))
    sizes = replace(sizes, D=limits.nearest("D", sizes.D), Dv=limits.nearest("Dv", sizes.Dv))
    return replace(sizes, Dv=sizes.D) if limits.ties_value_width else sizes
