"""The word of the spec language that is about the scale."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.vocabulary.transforms.axes import Attention


def with_scale(posed: Attention, *, to: Literal["default", "zero", "one", "doubled", "negated"]) -> Attention:
    """Pass an explicit scale: 1/sqrt(D), 0, 1, 2/sqrt(D) or -1/sqrt(D)."""
    default = 1 / float(np.sqrt(posed.one.sizes.D))
    scales = {"default": default, "zero": 0.0, "one": 1.0, "doubled": 2 * default, "negated": -default}
    return posed.but(scale=scales[to])


TRANSFORMS = (with_scale,)
