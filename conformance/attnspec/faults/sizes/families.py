"""All families of faults that show at certain sizes, by name."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.faults.mistakes import all_mistakes
from attnspec.faults.size_family import FaultFamily
from attnspec.faults.sizes.of_keywords import OF_BIASES, OF_CAUSAL, OF_MASKS
from attnspec.faults.sizes.of_lengths import OF_KEYS, OF_ROWS, OF_SPLITS
from attnspec.faults.sizes.of_widths import OF_FEATURES, OF_GRIDS

ALL_FAMILIES: tuple[FaultFamily, ...] = (
    *OF_KEYS, *OF_SPLITS, *OF_ROWS, *OF_MASKS, *OF_BIASES, *OF_CAUSAL,
    *(family for aspect in all_mistakes() for family in aspect.families), *OF_FEATURES, *OF_GRIDS)
FAMILIES: Mapping[str, FaultFamily] = {family.name: family for family in ALL_FAMILIES}
