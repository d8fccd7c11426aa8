"""The spec language has these words about codes and scales, handed over or made inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES, ZEROS
from attnspec.aspects.quantised.questions import QUESTIONS  # noqa: F401  (the second part of this file)
from attnspec.aspects.quantised.stored_format import StoredFormat, block_maximum, nearest_codes
from attnspec.numerics.precision import Precision, StoredForm
from attnspec.problems.problem import INPUTS, Array, numpy_dtype
from attnspec.record.outcome import Measured
from attnspec.vocabulary.observables import Observable
from attnspec.vocabulary.relations import agree, agrees_with_definition, inside_hull
from attnspec.vocabulary.scene import NoClaim, Scene
from attnspec.vocabulary.signature import ORIGINAL, PowerOfTwo, RunName
from attnspec.vocabulary.transforms.axes import ArrayName, Attention, product


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


def multiply_stored(posed: Attention, *, array: ArrayName, by: Annotated[float, PowerOfTwo()]) -> Attention:
    """Multiply one array by a power of two. Scales that are taken from the entries are multiplied by it, and codes stay
    as they are; no claim where the subject stores the array in another way, or where that is not exact in the dtype.
    """
    stored, problem = _formats_in(posed.stored).get(array), posed.one
    if stored is not None and not stored.follows_factors:
        raise NoClaim(f"the scale of the {array} is not taken from its entries alone")
    return posed.but(**{array: product(getattr(problem, array), by, problem.dtype)})


def put_codes(posed: Attention) -> Attention:
    """Put codes times a power of two in the place of the entries of each array that the subject stores as codes, the
    largest code of each block among them: what is read back is what was stored. No claim where it stores none, or not
    by scales that are taken from the entries alone.
    """
    formats = _formats_in(posed.stored)
    if not formats or not all(each.is_plain for each in formats.values()):
        raise NoClaim("the subject stores nothing by scales that are taken from the entries alone")
    dtype, changed = numpy_dtype(posed.one.dtype), {}
    for name, stored in formats.items():
        wide = getattr(posed.one, name).astype(np.float64)
        if not np.isfinite(wide).all():
            raise NoClaim(f"the {name} holds what is not finite")
        exact = _codes_near(wide, stored)
        changed[name] = exact.astype(dtype)
        if not np.array_equal(changed[name].astype(np.float64), exact):
            raise NoClaim(f"the codes of the {name} are no numbers of the dtype")
    return posed.but(**changed)


def _formats_in(stored: Mapping[str, StoredForm]) -> Mapping[str, StoredFormat]:
    """By array, the formats in which a class says that arrays are stored."""
    return {name: each for name, each in stored.items() if name in INPUTS and isinstance(each, StoredFormat)}


def _codes_near(entries: Array, stored: StoredFormat) -> Array:
    """Codes near entries (B,H,S,D), times powers of two; the largest has the largest code."""
    size = np.abs(entries)
    largest = np.broadcast_to(block_maximum(size, stored), size.shape)
    step = np.ldexp(1.0, np.frexp(largest / stored.codes.largest)[1])
    codes = nearest_codes(stored.codes, entries / step)
    codes = np.where(size == largest, np.copysign(stored.codes.largest, entries), codes)
    return np.where(largest == 0, 0.0, codes * step)


def agrees_with_codes(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The observed array equals the definition's, where each entry has the nearest of the codes that are declared."""
    measured = agrees_with_definition(_with_codes_known(scene), observe=observe, run=run)
    return replace(measured, relation="agrees_with_codes")


def agree_in_codes(scene: Scene, *, runs: tuple[RunName, RunName], observe: Observable) -> Measured:
    """Two runs give the same array within rounding, where each entry has the nearest of the codes that are declared."""
    measured = agree(_with_codes_known(scene), runs=runs, observe=observe, within="rounding")
    return replace(measured, relation="agree_in_codes")


def inside_hull_of_codes(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Every entry of the output lies between the least and the greatest visible value that is read back, where each has
    the nearest of the codes that are declared.
    """
    return replace(inside_hull(_with_codes_known(scene), run=run), relation="inside_hull_of_codes")


def _with_codes_known(scene: Scene) -> Scene:
    """The case with an evaluator that knows by how much each entry is moved."""
    return replace(scene, evaluator=scene.evaluator.with_precision(_nearest(scene.evaluator.precision)), cache={})


def _nearest(precision: Precision) -> Precision:
    """The class in which entries have the nearest codes, and not those of a finer grid."""
    known = {f"stored_{name}": replace(each, nearest=True)
             for name, each in _formats_in(precision.stored_formats).items()}
    return replace(precision, **known)  # type: ignore[arg-type]  # by name


TRANSFORMS = (multiply_scale, drop_scales, drop_zeros, drop_zero, multiply_stored, put_codes)
RELATIONS = (agrees_with_codes, agree_in_codes, inside_hull_of_codes)
INSTRUMENTS: Mapping[str, str] = {each.__name__: ", with codes known" for each in RELATIONS}
"""By relation, what its verdict rests on beside the worst case."""
