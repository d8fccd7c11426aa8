"""Entries that a kernel stores as codes: how far what attends may be from what it was given, entry
by entry.

Rounding to codes is the one rounding whose size depends on other entries: the largest of those
that share a scale decides how far apart codes are. So it is worked out from the whole problem,
before it is cut into blocks. The derivation is in docs/quantised.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.keywords import CACHED
from attnspec.core.storage import Storage
from attnspec.numerics.operands import EntryErrors, Magnitudes, Operands, read_entries
from attnspec.numerics.precision import Precision
from attnspec.numerics.reference import ProblemBlock, attended_hull, cut_blocks
from attnspec.numerics.roundings import Roundings, compound, lost_to_underflow, roundings
from attnspec.numerics.stored_format import ARRAYS, StoredFormat
from attnspec.problems.problem import CACHED_INPUTS, Array, Problem, join_past

ROUNDINGS_OF_A_QUOTIENT = 4
"""Of a scale (the largest entry over the largest code), of its reciprocal or the quotient with it,
of a factor that is multiplied in before, and of the least scale that is added.
"""

ROUNDINGS_OF_A_SECOND_SCALE = 4
"""Of a second scale (the largest entry over the largest code, and over the largest scale), of a
scale in its units, and of the product of both.
"""

LARGEST_NARROW_SCALE = 448.0
"""Of E4M3."""

SMALLEST_POWER = 2.0**-126
"""The least scale of which no rounding is lost, in float32 and, but for one, in E8M0."""

ROUNDINGS_WITH_A_ZERO = 8
"""Of a range, of a scale (the range over the largest code), of its reciprocal, of the quotient
with it, of the zero point (the least entry over the scale) and of the sum of both, where there may
be a product more, and of a factor that is multiplied in before. None is of a number that stands
for more than both ends of the range together.
"""

ROUNDINGS_OF_A_SCALE = 2
"""Where a scale is multiplied in again: the product with codes, logits or outputs, and that of two
scales.
"""

ROUNDINGS_OF_A_ZERO = 2
"""Where a zero point is taken off again: its product with a scale, or with the other array, and
the difference.
"""


def stored_arrays(problem: Problem, r: Roundings) -> Mapping[str, StoredFormat]:
    """By name, the formats of those arrays of a problem that a subject of this class quantises:
    what it is handed as codes is quantised already.
    """
    return {name: each for name, each in r.stored_formats.items()
            if name in ARRAYS and getattr(problem, f"{name}_scale") is None}


def add_rescaling(r: Roundings, problem: Problem, stored: Mapping[str, StoredFormat]) -> Roundings:
    """The numbers of a class with the scales that are multiplied in again, and the zero points
    that are taken off: relative errors of logits and of values, and how much larger the numbers
    may be that are added up. stored: the formats of the arrays of a problem that are quantised;
    the others are not.
    """
    times = {name: ROUNDINGS_OF_A_SCALE * (1 + each.codes.has_narrow_scales)
             + ROUNDINGS_OF_A_ZERO * each.has_zero
             for name, each in stored.items()}
    on_logits, on_values = times.get("query", 0) + times.get("key", 0), times.get("value", 0)
    u, inputs = _scale_roundoff(r.precision), r.inputs
    kept = {**stored,
            **{name: each for name, each in r.stored_formats.items() if name not in ARRAYS}}
    # the zero point is taken off of sums that hold it, which are larger than their difference
    offsets = {f"{name}_offset": getattr(inputs, f"{name}_offset") + _largest_zero(problem, name)
               for name, each in stored.items() if each.has_zero}
    return replace(r, stored_formats=kept, inputs=replace(
        inputs, of_logits=(1 + inputs.of_logits) * (1 + compound(u, on_logits)) - 1,
        of_values=(1 + inputs.of_values) * (1 + compound(u, on_values)) - 1, **offsets))


def _largest_zero(problem: Problem, name: str) -> float:
    """Twice the largest entry of an array: no zero point stands for more than one, and no code for
    more than two.
    """
    size = np.abs(getattr(join_past(problem), name).astype(np.float64))
    return 2 * float(size.max(initial=0.0, where=np.isfinite(size)))


def _scale_roundoff(precision: Precision) -> float:
    """The roundoff of the format in which scales are kept and multiplied."""
    return max(DTYPES[precision.dequantised].roundoff, DTYPES[precision.accumulate].roundoff)


def cut_stored_blocks(problem: Problem, r: Roundings, conventions: Mapping[str, str],
                      scale_width: int | None = None,
                      rows: Array | None = None) -> Iterator[ProblemBlock]:
    """The blocks of a problem whose codes are dequantised, each with what quantising inside may do
    to its entries, by the numbers of a class with its rescaling.
    """
    formats = {name: each for name, each in r.stored_formats.items() if name in ARRAYS}
    plain = cut_blocks(problem, conventions, scale_width, rows)
    if not formats:
        return plain
    errors = cut_blocks(error_problem(problem, r.precision, formats), conventions, scale_width,
                        rows)
    if "key" in formats and formats["key"].smoothed:
        sized = problem.but(**_smoothed_sizes(problem))
    else:
        sized = problem
    sizes = cut_blocks(sized, conventions, scale_width, rows)
    return (replace(block, operands=_with_errors(block.operands, error.operands, size.operands))
            for block, error, size in zip(plain, errors, sizes, strict=True))


def stored_hull(problem: Problem, conventions: Mapping[str, str],
                precision: Precision) -> tuple[Array, Array]:
    """The least and the greatest visible value of each row and feature, (B,H,T,Dv) in float64, of
    those that a subject of this class may read back.
    """
    r = roundings(precision)
    if not r.stored_formats:
        return attended_hull(problem, conventions)
    posed = read_entries(problem)
    r = add_rescaling(r, posed, stored_arrays(problem, r))
    return attended_hull(posed, conventions, cut_stored_blocks(posed, r, conventions))


def _smoothed_sizes(problem: Problem) -> dict[str, Array]:
    """Keys (B,Hkv,S,D), past ones likewise, no smaller than what is left of them without their
    mean, and the mean.
    """
    keys = join_past(problem).key.astype(np.float64)
    mean = _mean_key(keys)
    return _split_past_entries("key", np.abs(keys - mean) + np.abs(mean), problem)


def _mean_key(keys: Array) -> Array:
    """(B,Hkv,1,D): the mean of all keys (B,Hkv,S,D)."""
    if keys.shape[2]:
        return np.asarray(keys.mean(axis=2, keepdims=True))
    return np.zeros((*keys.shape[:2], 1, keys.shape[3]))


def _split_past_entries(name: str, array: Array, problem: Problem) -> dict[str, Array]:
    """Keys (B,Hkv,S,D) or values (B,Hkv,S,Dv) as a problem holds them: new ones, and past ones
    where it has a past.
    """
    P = problem.past
    return {name: array[:, :, P:],
            **({CACHED[CACHED_INPUTS.index(name)]: array[:, :, :P]} if problem.has_past else {})}


def error_problem(problem: Problem, precision: Precision,
                  formats: Mapping[str, StoredFormat]) -> Problem:
    """A problem of the same shape that has in the place of each entry how far what attends may be
    from it: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) in float64, past ones likewise.
    """
    whole, arrays = join_past(problem), dict[str, Array]()
    with np.errstate(all="ignore"):  # entries that are not finite
        for name in ARRAYS:
            entries = getattr(whole, name).astype(np.float64)
            arrays[name] = entry_errors(entries, formats[name],
                                        precision) if name in formats else np.zeros(
                entries.shape)
    return problem.but(query=arrays["query"], **_split_past_entries("key", arrays["key"], problem),
                       **_split_past_entries("value", arrays["value"], problem))


def entry_errors(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """How far each entry (B,H,S,D) may be from what it is read back as, as many axes, in float64;
    infinite where nothing can be said.
    """
    if stored.smoothed:
        return _smoothed_errors(entries, stored, precision)
    if stored.has_zero:
        return _errors_with_zeros(entries, stored, precision)
    if stored.has_rounded_scales:
        return _errors_with_rounded_scales(entries, stored, precision)
    size = np.abs(entries)
    if stored.is_scaled:
        largest = np.broadcast_to(block_maximum(size, stored), size.shape)
    else:
        largest = None
    if largest is None:
        step = np.full(size.shape, 1 / stored.factor)
    else:
        step = largest / stored.codes.largest + stored.least
    if stored.nearest and stored.is_plain:
        return _errors_of_nearest(entries, step, stored, precision)
    # half the distance to the next code; and codes have a zero, so that no entry is moved by more than itself
    moved = np.minimum(np.maximum(stored.relative * size, stored.absolute * step), size)
    if largest is None:
        # it is clipped, or infinite
        moved = np.where(size > step * stored.codes.largest, np.inf, moved)
    elif not stored.least:
        moved = np.where(size == largest, 0.0, moved)  # the largest has the largest code
    if largest is None:
        found = moved + ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) * size
    else:
        # a scale below the normal range is not rounded relatively
        lost = 2 * _scale_underflow(precision) / step
        found = moved + (ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) + lost) * size
        found = np.where(_is_tiny(step, precision), largest + step, found)
        found = np.where(np.isfinite(largest), found, np.inf)
    return np.where(np.isfinite(entries), found, 0.0)


def _errors_with_zeros(entries: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of entries (B,H,S,D) where codes have a zero point: half a step; a step is the
    range of a block over the largest code. A zero point that is a whole number cuts the ends off
    by no more.
    """
    size, u = np.abs(entries), _scale_roundoff(precision)
    least, largest = -block_maximum(-entries, stored), block_maximum(entries, stored)
    spread, ends = largest - least, np.abs(largest) + np.abs(least)
    step = spread / stored.codes.largest + stored.least
    # a range divides into codes from end to end, so that half a step is all that rounding costs
    found = 0.5 * step + ROUNDINGS_WITH_A_ZERO * u * (ends
                                                      + step) + 2 * stored.codes.largest * _scale_underflow(precision)
    # of a step that underflows, or has no reciprocal, nothing is known; without any, all of a block are its least
    found = np.where(_is_tiny(step, precision) & (step > 0), 2 * (ends + spread), found)
    overflows = (ends
                 > min(DTYPES[each].largest
                       for each in (precision.dequantised, precision.accumulate)) / 2)
    found = np.where(np.isfinite(ends) & ~overflows, found, np.inf)
    return np.where(np.isfinite(entries), np.broadcast_to(found, size.shape), 0.0)


def _errors_with_rounded_scales(entries: Array, stored: StoredFormat,
                                precision: Precision) -> Array:
    """The same of entries (B,H,S,D) where a scale is rounded, downwards too: what is beyond the
    largest code times the scale is clipped.
    """
    size, codes, u = np.abs(entries), stored.codes, _scale_roundoff(precision)
    largest = np.broadcast_to(block_maximum(size, stored), size.shape)
    least, most = _rounded_scales(size, largest, codes)
    moved = np.maximum(stored.relative * size,
                       np.maximum(stored.absolute * most, size - codes.largest * least))
    quotient = ROUNDINGS_OF_A_QUOTIENT + ROUNDINGS_OF_A_SECOND_SCALE * codes.has_narrow_scales
    lost = 2 * _scale_underflow(precision) / np.where(most == 0, 1.0, most)
    found = np.minimum(moved, size) + (quotient * u + lost) * size
    if codes.has_narrow_scales:
        second = size.max(initial=0.0) / codes.largest / LARGEST_NARROW_SCALE
    else:
        second = least
    # E8M0 has the exponents of float32; a second scale is in float32
    is_tiny = _is_tiny(second, precision) | (second < SMALLEST_POWER)
    found = np.where(is_tiny & (largest > 0),
                     np.inf if codes.has_narrow_scales else largest + most, found)
    found = np.where(np.isfinite(largest) & (most <= 1 / SMALLEST_POWER), found, np.inf)
    return np.where(np.isfinite(entries), found, 0.0)


def _rounded_scales(size: Array, largest: Array, codes: Storage) -> tuple[Array, Array]:
    """The least and the largest scale, (B,H,S,D) each, that may be taken from the sizes of entries
    and the largest of each block: powers of two, rounded downwards so that the largest entry has
    the exponent of the largest code, or upwards so that nothing is clipped, of entries that any
    factor was multiplied into; or E4M3 in units of a second scale, which gives its largest number
    to the block of the largest entry.
    """
    exact = largest / codes.largest
    if codes.has_power_scales:
        return largest / 2.0 ** np.frexp(codes.largest)[1], 2 * exact
    second = size.max(initial=0.0) / codes.largest / LARGEST_NARROW_SCALE
    # half a unit of E4M3, or half the distance of its smallest
    off = np.maximum(exact * 2.0**-4, second * 2.0**-10)
    return np.maximum(exact - off, 0.0), exact + off


def _errors_of_nearest(entries: Array, step: Array, stored: StoredFormat,
                       precision: Precision) -> Array:
    """The same of entries (B,H,S,D) where just these steps, as many, are used: the distance to the
    nearest code. A quotient that is off may have its neighbour's code, which is as much further
    away.
    """
    quotients = entries / np.where(step == 0, 1.0, step)
    moved = np.abs(quotients - nearest_codes(stored.codes, quotients)) * step
    off = 2 * (ROUNDINGS_OF_A_QUOTIENT * _scale_roundoff(precision) + 2
               * _scale_underflow(precision) / np.where(step == 0, 1.0, step))
    # from one end to the other: all that codes can do
    found = np.where(_is_tiny(step, precision), 2 * step * stored.codes.largest,
                     moved + off * np.abs(entries))
    return np.where(np.isfinite(entries), np.where(np.isfinite(step), found, np.inf), 0.0)


def nearest_codes(storage: Storage, numbers: Array) -> Array:
    """The nearest code of each number, of any shape: what is beyond the range has the code at its
    end.
    """
    if storage.is_whole:
        nearest = np.rint(numbers)
    else:  # the spacing of codes is that of the number's exponent, or of the smallest normal one
        exponent = np.maximum(np.frexp(numbers)[1] - storage.bits, storage.least)
        nearest = np.ldexp(np.rint(np.ldexp(numbers, -exponent)), exponent)
    return np.asarray(np.clip(nearest, storage.lowest, storage.largest))


def _scale_underflow(precision: Precision) -> float:
    """The absolute error of a scale that underflows."""
    return max(lost_to_underflow(precision, each)
               for each in {precision.dequantised, precision.accumulate})


def _is_tiny(step: Array, precision: Precision) -> Array:
    """Of any shape: where a scale may become 0, or its reciprocal infinite: anything may become of
    its block.
    """
    largest = min(DTYPES[each].largest for each in (precision.dequantised, precision.accumulate))
    # so far above both that the roundings of a scale decide nothing
    return np.asarray(step < max(4 * _scale_underflow(precision), 4 / largest))


def block_maximum(numbers: Array, stored: StoredFormat) -> Array:
    """(B,H,S,D), or broadcast to it: the largest number among those that share a scale, NaN where
    one is NaN.
    """
    shared = stored.shared_axes
    found = _largest_along(numbers, tuple(axis for axis in range(4) if axis not in shared))
    for axis, length in shared.items():
        size = numbers.shape[axis]
        if length > 1 and size:
            of_blocks = np.maximum.reduceat(found, np.arange(0, size, length), axis=axis)
            found = of_blocks.take(np.arange(size) // length, axis)
    return found


def _largest_along(numbers: Array, axes: tuple[int, ...]) -> Array:
    """The largest of numbers of any shape along some axes, of length 1 then; 0 where there is
    none.
    """
    is_none = any(numbers.shape[axis] == 0 for axis in axes)
    return np.asarray(numbers.max(axis=axes, keepdims=True, initial=0.0 if is_none else -np.inf))


def _smoothed_errors(keys: Array, stored: StoredFormat, precision: Precision) -> Array:
    """The same of keys (B,Hkv,S,D) whose mean is taken off first: what a row's logits lose by that
    is the same for all keys.
    """
    mean = _mean_key(keys)
    apart = keys - mean
    found = entry_errors(apart, replace(stored, smoothed=False), precision)
    r, u = roundings(precision), DTYPES[precision.accumulate].roundoff
    size = np.abs(apart) + np.abs(mean)
    # the difference is rounded; what is stored of logits, and of their scale, may be as large as it is
    found = found + (u + r.scale + r.logits
                     + r.biased_logits) * size + keys.shape[2] * u * np.abs(keys).mean(
        axis=2, keepdims=True, where=np.ones(keys.shape, bool))
    return np.where(np.isfinite(keys), np.where(np.isfinite(mean), found, np.inf), 0.0)


def _with_errors(operands: Operands, errors: Operands, sized: Operands) -> Operands:
    """A block that knows how far its entries may be from what attends: all sizes are those of the
    largest that may.
    """
    stored = EntryErrors(errors.query, errors.key, errors.value)
    return replace(operands, entry_errors=stored, usable=operands.usable & errors.usable,
                   sizes=_grow_sizes(sized.sizes, errors.sizes),
                   held=_grow_sizes(sized.held, errors.held))


def _grow_sizes(sizes: Magnitudes, errors: Magnitudes) -> Magnitudes:
    """Sizes of entries, and their sums, with the errors added."""
    added = {name: getattr(sizes, name) + getattr(errors, name) for name in Magnitudes.__slots__}
    return Magnitudes(**added)


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeightError:
    """What storing weights as codes may do, in units of the row's sum.

    apart (B,H,T,S): of each weight.  mass (B,H,T,1): their sum.
    """

    distances: Array
    mass: Array


def stored_weight_error(stored: StoredFormat, heaviest: Array, total: Array, least: Array, *,
                        only_small: bool = False) -> StoredWeightError:
    """How far weights may be from what they are read back as, given the heaviest that an honest
    exponential may be (B,H,T,S), 0 where hidden; the sum of a row and the least that it may be,
    (B,H,T).

    A code is off by half a unit or by half the distance of the smallest codes, and no weight by
    more than itself. only_small: without half a unit, what is lost of small weights alone.
    """
    # the smallest codes lie as far apart in the row's own unit
    step = stored.absolute / stored.factor * (total[..., None] if stored.divided else np.ones(()))
    relative = 0.0 if only_small else stored.relative
    apart = np.maximum(relative * heaviest, np.minimum(step, heaviest)) / least[..., None]
    return StoredWeightError(apart, apart.sum(axis=-1, keepdims=True))
