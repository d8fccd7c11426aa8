"""The format in which a kernel stores entries or weights bounds how far each entry is moved.

A kernel that quantises inside divides entries by a scale, rounds the quotients to codes, and
multiplies the scale in again somewhere. So its class names the codes and who shares a scale: `int8
by token`. docs/quantised.md derives the bounds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.aspects.quantised.storage import BLOCKED, STORAGES, UNBLOCKED, Storage, read_granularity, scale_axes
from attnspec.core.dtype import DTYPES
from attnspec.core.errors import ManifestError, quote_value
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import STORED_WORDS, WEIGHTS, Precision, StoredForm
from attnspec.numerics.roundings import lost_to_underflow, roundings
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Recipe, Sizes

ROUNDINGS_OF_A_QUOTIENT = 4
"""The roundings of a scale (the largest entry over the largest code), of its reciprocal or the
quotient with it, of a factor that is multiplied in before, and of the least scale that is added."""

ROUNDINGS_OF_A_SECOND_SCALE = 4
"""The roundings of a second scale (the largest entry over the largest code, and over the largest
scale), of a scale in its units, and of the product of both."""

LARGEST_NARROW_SCALE = 448.0
"""The largest number of E4M3."""

SMALLEST_POWER = 2.0**-126
"""The least scale of which no rounding is lost, in float32 and, but for one, in E8M0."""

ROUNDINGS_WITH_A_ZERO = 8
"""The roundings of a range, of a scale (the range over the largest code), of its reciprocal, of
the quotient with it, of the zero point (the least entry over the scale) and of the sum of both,
where there may be a product more, and of a factor that is multiplied in before. None is of a
number that stands for more than both ends of the range together."""

ROUNDINGS_OF_A_SCALE = 2
"""The roundings of a product with codes, logits or outputs, and of the product of two scales."""

ROUNDINGS_OF_A_ZERO = 2
"""The roundings of a zero point's product with a scale or an array, and of the difference."""

_TEXT = re.compile(
    r"(?P<storage>\w+)"
    r"(?: by (?P<granularity>\w+(?:\(\d+\))?|\d+ tokens))?"
    r"(?: times (?P<factor>[0-9.e+-]+))?"
    r"(?: from (?P<least>[0-9.e+-]+))?"
    r"(?P<smoothed> smoothed)?(?P<divided> divided)?(?P<summed> summed)?")

_FORM = ("a format and who shares a scale, such as `int8 by token`, `int8 by tokens(64)` or `float8_e4m3fn by head`; a "
         "format of blocks, such as `mxfp8`; or a format and a fixed factor, such as `float8_e4m3fn times 256`")
_KNOWN = (*UNBLOCKED, *(f"{name}(64)" for name in BLOCKED))


@dataclass(frozen=True, slots=True)
class StoredFormat(StoredForm):
    """A storage of codes, and how its scales are made of the entries.

    granularity: which entries share a scale, which is the largest of them over the largest code;
    empty where the factor is fixed. Codes without a sign have a zero point, too, and their scale
    is the range of the entries over the largest code. Formats that define blocks round that scale:
    to a power of two, or to a narrow number times a second scale of all entries.
    factor: what entries are multiplied by where no scale is taken from them.
    least: what a scale is raised to, or what is added to it.
    smoothed: the mean of all keys is subtracted before.
    divided: weights are divided by the sum of their row; else they are exp(logit - maximum).
    summed: weights are divided by the sum of their codes.
    nearest: entries have the nearest of the codes, and not those of a finer grid.
    """

    storage: str
    granularity: str = ""
    factor: float = 1.0
    least: float = 0.0
    smoothed: bool = False
    divided: bool = False
    summed: bool = False
    nearest: bool = False

    def entry_errors(self, entries: Array, precision: Precision) -> Array:
        """Bound how far each entry (B,H,S,D) is moved; infinite where nothing holds."""
        return entry_errors(entries, self, precision)

    def stored_sizes(self, entries: Array) -> Array | None:
        """Sizes (B,H,S,D) of smoothed keys and their mean together; None of all other entries."""
        if not self.smoothed:
            return None
        mean = _mean_key(entries)
        return np.asarray(np.abs(entries - mean) + np.abs(mean))

    def roundoff_again(self, precision: Precision) -> float:
        """The roundoff of the format in which scales are kept and multiplied."""
        return _scale_roundoff(precision)

    @property
    def roundings_again(self) -> int:
        """The roundings of scales that are multiplied in, and of zero points that are subtracted."""
        return ROUNDINGS_OF_A_SCALE * (1 + self.codes.has_narrow_scales) + ROUNDINGS_OF_A_ZERO * self.has_zero

    @property
    def has_offset(self) -> bool:
        """Whether a zero point is subtracted from larger numbers."""
        return self.has_zero

    @property
    def clips(self) -> bool:
        """Whether the largest entries of blocks may be clipped."""
        return self.has_rounded_scales

    @property
    def least_distance(self) -> float:
        """Half the distance of the smallest codes, as a weight."""
        return self.absolute / self.factor

    @property
    def least_relative(self) -> float:
        """The least weight that is rounded relatively."""
        return np.inf if self.codes.is_whole else self.absolute / self.relative / self.factor

    @property
    def codes(self) -> Storage:
        """The format of the codes."""
        return STORAGES[self.storage]

    @property
    def is_scaled(self) -> bool:
        """Whether a scale is taken from the entries."""
        return bool(self.granularity)

    @property
    def shared_axes(self) -> Mapping[int, int]:
        """The axes of (B,H,S,D) along which scales differ, with how many neighbours share one."""
        return scale_axes(self.granularity)

    @property
    def has_rounded_scales(self) -> bool:
        """Whether scales are rounded to a format, so that the largest entry may be clipped."""
        return self.codes.block > 0

    @property
    def has_zero(self) -> bool:
        """Whether a zero point is taken from the entries, too."""
        return self.is_scaled and self.codes.is_unsigned

    @property
    def is_plain(self) -> bool:
        """Whether scales are the largest entry over the largest code, and nothing else is done."""
        return self.follows_factors and not self.has_rounded_scales

    @property
    def follows_factors(self) -> bool:
        """Whether a power of two by which all entries are multiplied leaves codes as they are."""
        return self.is_scaled and not self.has_zero and not self.least and not self.smoothed

    @property
    def relative(self) -> float:
        """Half a unit of a floating-point code, relative to it; 0 for whole numbers."""
        return 0.0 if self.codes.is_whole else 2.0**-self.codes.bits

    @property
    def absolute(self) -> float:
        """Half the distance of the smallest codes, in codes."""
        return 0.5 if self.codes.is_whole else 2.0 ** (self.codes.least - 1)

    def __str__(self) -> str:
        is_said = bool(self.granularity) and self.granularity != self.codes.usual_granularity
        shared = f" by {self.granularity}" * is_said
        factor, least = f" times {self.factor:g}" * (self.factor != 1), f" from {self.least:g}" * bool(self.least)
        flags = "".join(f" {name}" for name in ("smoothed", "divided", "summed") if getattr(self, name))
        return f"{self.storage}{shared}{factor}{least}{flags}"


def read_stored(word: str, given: object) -> StoredFormat:
    """Read the format that a word of a precision class says; raise ManifestError for nonsense."""
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ManifestError(f"{word!r} in a precision class must be {_FORM}, not {quote_value(given)}.")
    name, text = found["storage"], found["granularity"]
    if name not in STORAGES:
        raise ManifestError.unknown(f"format of codes (of {word!r} in a precision class)", name, STORAGES)
    granularity = read_granularity(text) if text else STORAGES[name].usual_granularity
    if text and granularity not in UNBLOCKED and granularity.partition("(")[0] not in BLOCKED:
        raise ManifestError.unknown(f"granularity (of {word!r} in a precision class)", text, _KNOWN)
    factor, least = _positive(word, found["factor"] or "1"), _positive(word, found["least"] or "0")
    flags = (bool(found[flag]) for flag in ("smoothed", "divided", "summed"))
    stored = StoredFormat(name, granularity, factor, least, *flags)
    problem = _nonsense(stored, STORED_WORDS[word])
    if problem:
        raise ManifestError(f"{word!r} in a precision class: {problem} (it says {quote_value(given)}).")
    return stored


def _positive(word: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ManifestError(f"{word!r} in a precision class: {text} is no number above 0.")
    return number


def _nonsense(stored: StoredFormat, name: str) -> str:
    """Why a format cannot be that of what is stored; empty if it can."""
    is_weights, codes = name == WEIGHTS, stored.codes
    wrong = {
        "a factor is above 0": stored.factor == 0,
        f"blocks of {codes.name} have {codes.block} entries: say {' or '.join(codes.granularities)}, or nothing":
            stored.has_rounded_scales and stored.granularity not in codes.granularities,
        f"scales of {codes.name} are rounded, and none has a least": stored.has_rounded_scales and stored.least,
        "a scale is taken from the entries, or a factor is fixed, not both": stored.is_scaled and stored.factor != 1,
        "only a scale that is taken from the entries can have a least": stored.least and not stored.is_scaled,
        "codes without a sign need a zero point, which is taken from the entries: say who shares it, as in "
        "`uint8 by token`": stored.codes.is_unsigned and not stored.is_scaled and not is_weights,
        "only keys have their mean taken off": stored.smoothed and name != "key",
        "weights are at most 1, and have a fixed factor, such as `float8_e4m3fn times 256` or `int8 times 127`":
            is_weights and stored.is_scaled,
        f"a weight of 1 times {stored.factor:g} is more than the largest code, {stored.codes.largest:g}":
            is_weights and stored.factor > stored.codes.largest,
        "only weights are divided by the sum of their row": (stored.divided or stored.summed) and not is_weights,
        "weights are divided by a sum before they are codes, or by that of the codes, not both":
            stored.divided and stored.summed}
    return next((why for why, applies in wrong.items() if applies), "")


def _scale_roundoff(precision: Precision) -> float:
    """The roundoff of the format in which scales are kept and multiplied."""
    return max(DTYPES[precision.dequantised].roundoff, DTYPES[precision.accumulate].roundoff)


def _mean_key(keys: Array) -> Array:
    """(B,Hkv,1,D): the mean of all keys (B,Hkv,S,D)."""
    if not keys.shape[2]:
        return np.zeros((*keys.shape[:2], 1, keys.shape[3]))
    return keys.mean(axis=2, keepdims=True)


def entry_errors(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """Bound how far each entry (B,H,S,D) is moved, in float64; infinite where nothing holds."""
    if stored.smoothed:
        return _smoothed_errors(entries, stored, precision)
    if stored.has_zero:
        return _errors_with_zeros(entries, stored, precision)
    if stored.has_rounded_scales:
        return _errors_with_rounded_scales(entries, stored, precision)
    if stored.is_scaled:
        return _errors_with_scales(entries, stored, precision)
    size, step = np.abs(entries), 1 / stored.factor
    errors = _half_distances(size, step, stored) + ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) * size
    errors = np.where(size > step * stored.codes.largest, np.inf, errors)  # it is clipped, or infinite
    return np.where(np.isfinite(entries), errors, 0.0)


def _half_distances(size: Array, step: Array | float, stored: StoredFormat) -> Array:
    """Half the distance (B,H,S,D) to the next code; since 0 is one, at most the entry's size."""
    return np.minimum(np.maximum(stored.relative * size, stored.absolute * step), size)


def _errors_with_scales(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of entries (B,H,S,D) whose scales are the largest over the largest code."""
    size = np.abs(entries)
    largest = np.broadcast_to(block_maximum(size, stored), size.shape)
    step = largest / stored.codes.largest + stored.least
    if stored.nearest and stored.is_plain:
        return _errors_of_nearest(entries, step, stored, precision)
    moved = _half_distances(size, step, stored)
    if not stored.least:
        moved = np.where(size == largest, 0.0, moved)  # the largest has the largest code
    lost = 2 * _scale_underflow(precision) / step  # a scale below the normal range is not rounded relatively
    errors = moved + (ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) + lost) * size
    errors = np.where(_is_tiny(step, precision), largest + step, errors)
    return np.where(np.isfinite(entries), np.where(np.isfinite(largest), errors, np.inf), 0.0)


def _errors_with_zeros(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of entries (B,H,S,D) whose codes have a zero point: half a step, by which a zero
    point that is a whole number may cut the ends off, too. A step is range / largest code.
    """
    least, largest = -block_maximum(-entries, stored), block_maximum(entries, stored)
    spread, ends = largest - least, np.abs(largest) + np.abs(least)
    step = spread / stored.codes.largest + stored.least
    rounded = ROUNDINGS_WITH_A_ZERO * _scale_roundoff(precision) * (ends + step)
    errors = 0.5 * step + rounded + 2 * stored.codes.largest * _scale_underflow(precision)
    # of a step that underflows, or has no reciprocal, nothing is known; without any, all of a block are its least
    errors = np.where(_is_tiny(step, precision) & (step > 0), 2 * (ends + spread), errors)
    errors = np.where(np.isfinite(ends) & (ends <= _largest_number(precision) / 2), errors, np.inf)
    return np.where(np.isfinite(entries), np.broadcast_to(errors, entries.shape), 0.0)


def _errors_with_rounded_scales(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of entries (B,H,S,D) whose scales are rounded: large ones may be clipped."""
    size, codes = np.abs(entries), stored.codes
    largest = np.broadcast_to(block_maximum(size, stored), size.shape)
    least, most = _rounded_scales(size, largest, codes)
    moved = np.maximum(stored.relative * size, np.maximum(stored.absolute * most, size - codes.largest * least))
    count = ROUNDINGS_OF_A_QUOTIENT + ROUNDINGS_OF_A_SECOND_SCALE * codes.has_narrow_scales
    lost = 2 * _scale_underflow(precision) / np.where(most == 0, 1.0, most)
    errors = np.minimum(moved, size) + (count * _scale_roundoff(precision) + lost) * size
    smallest, unknown = least, largest + most
    if codes.has_narrow_scales:
        smallest, unknown = _second_scale(size, codes), np.full_like(largest, np.inf)
    # E8M0 has the exponents of float32; a second scale is in float32
    is_tiny = _is_tiny(smallest, precision) | (smallest < SMALLEST_POWER)
    errors = np.where(is_tiny & (largest > 0), unknown, errors)
    errors = np.where(np.isfinite(largest) & (most <= 1 / SMALLEST_POWER), errors, np.inf)
    return np.where(np.isfinite(entries), errors, 0.0)


def _rounded_scales(size: Array, largest: Array, codes: Storage) -> tuple[Array, Array]:
    """The least and the largest scale, (B,H,S,D) each, of entries of these sizes and the largest
    of each block. Powers of two are rounded downwards so that the largest entry has the exponent
    of the largest code, or upwards so that nothing is clipped, and any factor may have been
    multiplied in. E4M3 is in units of a second scale, which gives its largest number to the block
    of the largest entry.
    """
    exact = largest / codes.largest
    if codes.has_power_scales:
        return largest / 2.0 ** np.frexp(codes.largest)[1], 2 * exact
    # half a unit of E4M3, or half the distance of its smallest
    off = np.maximum(exact * 2.0**-4, _second_scale(size, codes) * 2.0**-10)
    return np.maximum(exact - off, 0.0), exact + off


def _second_scale(size: Array, codes: Storage) -> Array:
    """(): the second scale of entries of these sizes (B,H,S,D)."""
    return np.asarray(size.max(initial=0.0) / codes.largest / LARGEST_NARROW_SCALE)


def _errors_of_nearest(entries: Array, step: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of entries (B,H,S,D) that have just these steps, as many: the distance to the
    nearest code. A quotient that is off may have its neighbour's code, as much further away.
    """
    divisor = np.where(step == 0, 1.0, step)
    quotients = entries / divisor
    moved = np.abs(quotients - nearest_codes(stored.codes, quotients)) * step
    off = 2 * (ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) + 2 * _scale_underflow(precision) / divisor)
    errors = np.where(_is_tiny(step, precision), 2 * step * stored.codes.largest, moved + off * np.abs(entries))
    return np.where(np.isfinite(entries), np.where(np.isfinite(step), errors, np.inf), 0.0)


def nearest_codes(storage: Storage, numbers: Array) -> Array:
    """Round numbers of any shape to the nearest codes, infinite ones to the ends of the range."""
    if storage.is_whole:
        nearest = np.rint(numbers)
    else:  # the spacing of codes is that of the number's exponent, or of the smallest normal one
        exponent = np.maximum(np.frexp(numbers)[1] - storage.bits, storage.least)
        nearest = np.ldexp(np.rint(np.ldexp(numbers, -exponent)), exponent)
    return np.asarray(np.clip(nearest, storage.lowest, storage.largest))


def _scale_underflow(precision: Precision) -> float:
    """The absolute error of a scale that underflows."""
    return max(lost_to_underflow(precision, each) for each in {precision.dequantised, precision.accumulate})


def _largest_number(precision: Precision) -> float:
    """The largest number of the formats in which scales are kept and multiplied."""
    return min(DTYPES[precision.dequantised].largest, DTYPES[precision.accumulate].largest)


def _is_tiny(step: Array, precision: Precision) -> Array:
    """Whether scales of any shape may become 0, or their reciprocals infinite."""
    return np.asarray(step < max(4 * _scale_underflow(precision), 4 / _largest_number(precision)))


def block_maximum(numbers: Array, stored: StoredFormat) -> Array:
    """Return the largest of the numbers (B,H,S,D) that share a scale, NaN where one is, in a shape
    that broadcasts to theirs.
    """
    shared = stored.shared_axes
    largest = _largest_along(numbers, tuple(axis for axis in range(4) if axis not in shared))
    for axis, length in shared.items():
        size = numbers.shape[axis]
        if length > 1 and size:
            of_blocks = np.maximum.reduceat(largest, np.arange(0, size, length), axis=axis)
            largest = of_blocks.take(np.arange(size) // length, axis)
    return largest


def _largest_along(numbers: Array, axes: tuple[int, ...]) -> Array:
    """The largest of numbers of any shape along some axes, of length 1 then; 0 for none."""
    is_none = any(numbers.shape[axis] == 0 for axis in axes)
    return np.asarray(numbers.max(axis=axes, keepdims=True, initial=0.0 if is_none else -np.inf))


def _smoothed_errors(keys: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of smoothed keys (B,Hkv,S,D): a mean that all share moves no weight."""
    mean = _mean_key(keys)
    rest = keys - mean
    errors = entry_errors(rest, replace(stored, smoothed=False), precision)
    r, u = roundings(precision), DTYPES[precision.accumulate].roundoff
    # the difference is rounded; what is stored of logits, and of their scale, may be as large as it is
    errors = errors + (u + r.scale + r.logits + r.biased_logits) * (np.abs(rest) + np.abs(mean))
    mean_size = np.abs(keys).mean(axis=2, keepdims=True, where=np.ones(keys.shape, bool))
    errors = errors + keys.shape[2] * u * mean_size
    return np.where(np.isfinite(keys), np.where(np.isfinite(mean), errors, np.inf), 0.0)


# What that lets pass


FALSE_ALARM = 1e-6
"""The rate at which chance is asked what it lets pass."""

KEY_COUNTS = (64, 1024)
"""The numbers of keys at which a report says how large an error passes.

Entries are N(0,1), D = Dv = 64, eight queries, two heads, as in `benchmarks/resolution.py`. The
figure is the median of the allowance over the entries, in units of the root mean square of the
output: the worst case does not see an error of a single entry below it.
"""

_QUERIES, _HEADS, _WIDTH = 8, 2, 64


@functools.cache
def shares_that_pass(precision: Precision, keys: int) -> tuple[float, float]:
    """Return the error of an output entry that is allowed, in units of the output's size: in the
    worst case, and where roundings are independent.
    """
    sizes = Sizes(1, _HEADS, _HEADS, _QUERIES, keys, _WIDTH, _WIDTH)
    problem = make_problem(Recipe(sizes, ("normal",), "none", frozenset(), 1), precision.dtype)
    expected = expect(problem, precision, conventions={}, parts=frozenset({"typical"}))
    size = np.sqrt(np.square(expected.output.astype(np.float64)).mean())
    worst, typical = expected.output_allowance, expected.typical_allowance(FALSE_ALARM)
    return float(np.median(worst) / size), float(np.median(typical) / size)


def describe_what_passes(classes: Iterable[Precision]) -> str:
    """Say how large an error passes, without a full stop; empty where no class quantises.

    classes: those of a subject's dtypes. The first that quantises speaks for all.
    """
    precision = next((each for each in classes if each.stored_formats), None)
    if precision is None:
        return ""
    worst, typical = zip(*(shares_that_pass(precision, keys) for keys in KEY_COUNTS), strict=True)
    few, many = (f"{keys:,}" for keys in KEY_COUNTS)
    return (f"it quantises inside, so that an error of one entry passes up to {worst[0]:.2g} of the output's size at "
            f"{few} keys and {worst[1]:.2g} at {many}, or {typical[0]:.2g} and {typical[1]:.2g} where roundings are "
            f"independent ({precision.dtype.value})")
