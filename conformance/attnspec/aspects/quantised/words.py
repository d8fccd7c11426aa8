"""The words of the spec language that are about codes and scales."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.signature import PowerOfTwo
from attnspec.vocabulary.transforms.axes import ArrayName, Attention


def multiply_scale(posed: Attention, *, array: ArrayName, by: Annotated[float, PowerOfTwo()]) -> Attention:
    """Multiply the scale of one array by a power of two, which is exact. No claim where it has none."""
    scale = getattr(posed.one, f"{array}_scale")
    if scale is None:
        raise NoClaim(f"the {array} has no scale")
    return posed.but(**{f"{array}_scale": np.asarray(scale * np.float32(by))})


def drop_scales(posed: Attention) -> Attention:
    """Make the same call without scales; no claim unless all of them are 1."""
    given = [name for name in NAMES if getattr(posed.one, name) is not None]
    if any((getattr(posed.one, name) != 1).any() for name in given):
        raise NoClaim("a scale is not 1")
    return posed.but(**dict.fromkeys(given))


TRANSFORMS = (multiply_scale, drop_scales)
