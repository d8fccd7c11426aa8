"""Lists what each dtype under test is: all numbers and names by which dtypes differ.

A new dtype is one name in `core.nouns.DType` and one row here, and one in `host/frames.py`, which
travels without this package. `docs/where-to-change.md` says what else it may touch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.nouns import DType


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A floating-point format.

    bits: of the significand, the leading one among them.
    least_exponent: that of the smallest normal number, a power of two.
    largest: the largest finite number.
    wide: the dtype in which kernels add up, of the numbers beside arrays of this one (sinks,
    slopes, log-sum-exps), and by way of which entries are rounded to it.
    short_name: as pages have it.
    other_names: what frameworks and people also call it. These are not accepted, so that a dtype
    has one name everywhere: only understood.
    is_of_numpy: whether NumPy itself has it. Others are ml_dtypes', by the same name, and travel
    as their bits.
    may_be_flushed: whether hardware that takes subnormal numbers for 0 does so in this format.

    Of the problems that are drawn:
    entry_limit: the largest entry, and dot product before it is scaled. Sums of two must fit.
    extreme: a number so near the end of the range that products of a few with others still fit.
    vanishing: a number whose products with its like vanish beside 1.
    exponential_span: how far below 0 a logit may lie whose exponential is a normal number: a
    little less than the logarithm of the smallest one.
    """

    bits: int
    least_exponent: int
    largest: float
    wide: DType
    short_name: str
    other_names: tuple[str, ...]
    extreme: float
    vanishing: float
    exponential_span: float
    entry_limit: float = math.inf
    is_of_numpy: bool = True
    may_be_flushed: bool = True

    @property
    def roundoff(self) -> float:
        """Half the gap above 1: the relative error of one rounding."""
        return 2.0**-self.bits

    @property
    def normal(self) -> float:
        """The smallest normal number."""
        return 2.0**self.least_exponent

    @property
    def subnormal(self) -> float:
        """The smallest number above 0."""
        return 2.0 ** (self.least_exponent - self.bits + 1)

    @property
    def underflow(self) -> float:
        """The absolute error of rounding below the normal range; never 0, also in float64."""
        return self.subnormal / 2 or self.subnormal

    @property
    def is_half(self) -> bool:
        """Whether it is so narrow, 16 bits or fewer, that kernels add up in a wider one."""
        return self.bits < DTYPES[self.wide].bits

    @property
    def has_short_range(self) -> bool:
        """Whether its range is shorter than that of float32."""
        return self.least_exponent > DTYPES[DType.FLOAT32].least_exponent


DTYPES: Mapping[DType, NumberFormat] = {
    DType.FLOAT64: NumberFormat(
        bits=53, least_exponent=-1022, largest=(2 - 2.0**-52) * 2.0**1023, wide=DType.FLOAT64,
        short_name="f64",
        other_names=("double", "fp64", "f64"), extreme=2.0**498, vanishing=2.0**-300,
        exponential_span=700.0),
    DType.FLOAT32: NumberFormat(
        bits=24, least_exponent=-126, largest=(2 - 2.0**-23) * 2.0**127, wide=DType.FLOAT32,
        short_name="f32",
        other_names=("float", "single", "fp32", "f32"), extreme=2.0**50, vanishing=2.0**-60,
        exponential_span=85.0),
    # hardware converts float16 without flushing, whatever it does to subnormal numbers of other formats
    DType.FLOAT16: NumberFormat(
        bits=11, least_exponent=-14, largest=65504.0, wide=DType.FLOAT32, short_name="f16",
        other_names=("half", "fp16", "f16"), extreme=2.0**7, vanishing=2.0**-12,
        exponential_span=9.5, entry_limit=3e4,
        may_be_flushed=False),
    DType.BFLOAT16: NumberFormat(
        bits=8, least_exponent=-126, largest=(2 - 2.0**-7) * 2.0**127, wide=DType.FLOAT32,
        short_name="bf16",
        other_names=("bf16",), extreme=2.0**50, vanishing=2.0**-60, exponential_span=85.0,
        is_of_numpy=False),
}

HALF_DTYPES = tuple(dtype for dtype, each in DTYPES.items() if each.is_half)
"""The dtypes that kernels add up in a wider format."""

OTHER_DTYPE_NAMES: Mapping[str, str] = {
    name: dtype.value for dtype, each in DTYPES.items() for name in each.other_names}
"""By another name of a dtype, its own."""
