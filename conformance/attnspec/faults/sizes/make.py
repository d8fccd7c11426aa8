"""Families made into faults: seed 0 for the catalogue, any other seed where it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from attnspec.faults.fault import Fault
from attnspec.faults.mistakes import all_mistakes
from attnspec.faults.planted import Planted, axes_of
from attnspec.faults.size_family import SEEDED, FaultFamily, reach_of
from attnspec.faults.size_mechanism import Mechanism
from attnspec.faults.sizes.families import ALL_FAMILIES
from attnspec.faults.sizes.grids import GRIDS
from attnspec.faults.sizes.hiding import HIDING
from attnspec.faults.sizes.keys import KEYS
from attnspec.faults.sizes.rows import ROWS
from attnspec.faults.sizes.threads import link_of
from attnspec.faults.sizes.widths import WIDTHS
from attnspec.faults.staged import SOUND, Attend, around, attention
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Sizes

MECHANISMS: Mapping[str, Mechanism] = {
    **KEYS, **ROWS, **HIDING, **WIDTHS, **GRIDS,
    **{name: mechanism for aspect in all_mistakes() for name, mechanism in aspect.mechanisms.items()}}


def drawn(family: FaultFamily, seed: int = 0) -> Fault:
    """The fault that a seed makes of a family: `NAME` for seed 0, `NAME@7` for seed 7."""
    planted = family.drawn(seed)
    name = f"{family.name}{SEEDED}{seed}" if seed else family.name
    return Fault(name, family.stage, f"{family.story} {_numbers(planted)}", reach_of(planted, family.needs),
                 _maker(planted), link=link_of(family.name), planted=planted)


def _numbers(planted: Planted) -> str:
    """The second sentence of a story: what the seed has drawn. The reach tells the sizes."""
    size = f" a block, tile or grid of {planted.size}, and" if planted.size else ""
    return f"Seed {planted.seed} draws{size} where it shows."


def _maker(planted: Planted) -> Callable[[], Attend]:
    """Makes attention that is wrong where the plant bites, and the sound stages everywhere else."""
    stages = replace(SOUND, **MECHANISMS[planted.mechanism](planted.size))

    def answer(call: HandedOver) -> Answer:
        return attention(call, stages) if planted.bites(axes_of(_sizes(call)), call.keywords) else attention(call)

    return around(answer)


def _sizes(call: HandedOver) -> Sizes:
    B, H, T, D = call.query.shape
    Hkv, S, Dv = call.value.shape[1:]
    return Sizes(B, H, Hkv, T, S, D, Dv)


FAULTS = tuple(drawn(family) for family in ALL_FAMILIES)
