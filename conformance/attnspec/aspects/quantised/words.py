"""The words of the spec language that are about codes and scales."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES, ZEROS
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


def drop_zeros(posed: Attention) -> Attention:
    """Make the same call without zero points; no claim unless all of them are 0."""
    given = [name for name in ZEROS if getattr(posed.one, name) is not None]
    if any(getattr(posed.one, name).any() for name in given):
        raise NoClaim("a zero point is not 0")
    return posed.but(**dict.fromkeys(given))


def drop_zero(posed: Attention, *, array: ArrayName) -> Attention:
    """Make the same call without the zero points of one array. No claim where it has none."""
    if getattr(posed.one, f"{array}_zero") is None:
        raise NoClaim(f"the {array} has no zero point")
    return posed.but(**{f"{array}_zero": None})


TRANSFORMS = (multiply_scale, drop_scales, drop_zeros, drop_zero)
