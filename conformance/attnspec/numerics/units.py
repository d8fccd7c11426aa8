"""What a number format can hold: unit roundoff, smallest and largest values. All as float64."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from attnspec.ground.nouns import DType
from attnspec.problems.problem import numpy_dtype


@dataclass(frozen=True, slots=True)
class Unit:
    """roundoff: half the gap above 1, the relative error of one rounding.  subnormal, normal: the smallest positive
    values of each sort.  largest: the largest finite value.
    """

    roundoff: float
    subnormal: float
    normal: float
    largest: float

    @property
    def underflow(self) -> float:
        """The absolute error of rounding below the normal range: half a subnormal, and never 0 in float64."""
        return self.subnormal / 2 or self.subnormal


@functools.cache
def unit(dtype: DType) -> Unit:
    """The unit of a format. bfloat16 is read from ml_dtypes, since NumPy knows nothing of it."""
    if dtype is DType.BFLOAT16:
        import ml_dtypes  # noqa: PLC0415  (weight: only bfloat16 needs it)

        info = ml_dtypes.finfo(numpy_dtype(dtype))
    else:
        info = np.finfo(dtype.value)
    return Unit(float(info.eps) / 2, float(info.smallest_subnormal), float(info.smallest_normal), float(info.max))


def is_half(dtype: DType) -> bool:
    """Whether the format has 16 bits."""
    return dtype in (DType.FLOAT16, DType.BFLOAT16)
