"""The arrays of quantised attention: scales by their pattern, and entries that are codes of a storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.aspects.quantised.keyword import KEYWORDS, parts_of
from attnspec.core.declaration import Limits
from attnspec.core.forms import TABLE
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.core.storage import STORAGES, Storage
from attnspec.problems.families import Words, random_words
from attnspec.problems.problem import HELD, Array, Problem, Recipe, Sizes, joined, numpy_dtype
from attnspec.subjects.serving_forms import DENSE, USUAL_PAGES, Lays, slots_of_page

NAMES: Mapping[str, str] = {word.name: word.name.removesuffix("_scale") for word in KEYWORDS}
"""By keyword, the array whose codes it scales."""

_PAST: Mapping[str, str] = dict(zip(CACHED, HELD, strict=True))
"""By keyword, the array of the call whose storage earlier keys, or values, have."""

# of the axes (B,H,S,D) of an array, those along which scales differ
_AXES: Mapping[str, tuple[int, ...]] = {
    "tensor": (), "batch": (0,), "head": (1,), "batch_head": (0, 1), "token": (0, 1, 2), "channel": (1, 3),
    "page": (0, 1, 2)}

_RARE = 16
"""One code in so many is any code of its storage, the others are rounded from the family's entries."""


def shape_of(name: str, sizes: Sizes) -> tuple[int, int, int, int]:
    """The shape of query (B,H,T,D), key (B,Hkv,S,D) or value (B,Hkv,S,Dv)."""
    B, H, Hkv, T, S, D, Dv = sizes.by_axis.values()
    return {"query": (B, H, T, D), "key": (B, Hkv, S, D), "value": (B, Hkv, S, Dv)}[name]


def scales(keyword: str, pattern: str, seed: int, sizes: Sizes, slots: int = 4) -> Array:
    """The scales of an array at its full shape, (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv), in float32: the same wherever
    its granularity says so. slots: of a page, whose keys share one.
    """
    storage, granularity, kind = parts_of(pattern)
    full = shape_of(NAMES[keyword], sizes)
    shape = tuple(length if axis in _AXES[granularity] else 1 for axis, length in enumerate(full))
    random = random_words(seed, f"{keyword} {granularity}", shape)
    made = _KINDS[kind](random) * (1.0 if kind == "ones" else STORAGES[storage].step)
    if granularity == "page":
        made = made[:, :, np.arange(full[2]) // slots * slots]
    return np.ascontiguousarray(np.broadcast_to(made.astype(np.float32), full))


def _powers(random: Words) -> Array:
    """Of any shape, that of the words: powers of two from 1/4 to 4, neighbours apart."""
    turn = np.arange(random.size).reshape(random.shape) % 2
    return np.ldexp(1.0, 2 * (random >> np.uint32(31)).astype(np.int32) + turn.astype(np.int32) - 2)


def _odd(random: Words) -> Array:
    """Of any shape, that of the words: from 1/2 to 3/2, with 24 bits each."""
    return np.asarray(0.5 + (random >> np.uint32(9)) / 2.0**23 + 2.0**-24)


def _with_zero(random: Words) -> Array:
    """Of any shape, that of the words: as powers, every third one 0."""
    third = np.arange(random.size).reshape(random.shape) % 3 == 1
    return np.where(third, 0.0, _powers(random))


_KINDS: Mapping[str, Callable[[Words], Array]] = {
    "powers": _powers, "odd": _odd, "ones": lambda random: np.ones(random.shape), "with_zero": _with_zero}


def _maker(keyword: str) -> Callable[[str, int, Sizes, DType], Array]:
    return lambda pattern, seed, sizes, _: scales(keyword, pattern, seed, sizes)


ARRAYS: Mapping[str, Callable[[str, int, Sizes, DType], Array]] = {keyword: _maker(keyword) for keyword in NAMES}


def settle(problem: Problem, recipe: Recipe) -> Problem:
    """The problem with codes in the place of entries, wherever it has scales. Codes are held in the problem's dtype,
    which has room for each of them.
    """
    codes = {name: codes_of(getattr(problem, name), recipe.value(keyword), recipe.seed, name, problem.dtype)
             for keyword, name in NAMES.items() if keyword in recipe.features}
    slots = _slots(problem, 1)
    of_pages = {keyword: scales(keyword, recipe.value(keyword), recipe.seed, recipe.sizes, slots) for keyword in NAMES
                if keyword in recipe.features and parts_of(recipe.value(keyword))[1] == "page"}
    return problem.but(**codes, **of_pages) if codes else problem


def _slots(problem: Problem, multiple: int) -> int:
    """The slots of a page of a problem's keys, which are a multiple of a number; of the usual pages where none are
    said.
    """
    pattern = getattr(problem, TABLE)
    return slots_of_page(pattern if isinstance(pattern, str) else USUAL_PAGES, problem.sizes.S, multiple)


def codes_of(entries: Array, pattern: str, seed: int, label: str, dtype: DType) -> Array:
    """The nearest codes of a storage, of any shape: of the entries, or of the entries over the step where scales are
    not 1. One in 16 is any code: extremes, the smallest and 0 of either sign among them.
    """
    name, _, kind = parts_of(pattern)
    storage = STORAGES[name]
    wide = entries.astype(np.float64)
    nearest = round_to(storage, wide if kind == "ones" else wide / storage.step)
    random = random_words(seed, f"codes of {label}", entries.shape)
    is_rare = random % np.uint32(_RARE) == 0
    rare = round_to(storage, _any_code(storage, random // np.uint32(_RARE)))
    return np.where(is_rare & (kind != "ones"), rare, nearest).astype(numpy_dtype(dtype))


def _any_code(storage: Storage, random: Words) -> Array:
    """Of any shape, that of the words: one in eight is the least or the largest code, the others are whole numbers of
    the whole range, or floating-point ones of every exponent.
    """
    ends = random >> np.uint32(24)  # the words are below 2^28
    return np.where(ends % 16 == 0, storage.lowest, np.where(ends % 16 == 1, storage.largest, _inner_code(
        storage, random)))


def _inner_code(storage: Storage, random: Words) -> Array:
    """The same without the ends put in."""
    if storage.is_whole:
        return storage.lowest + (random % np.uint32(storage.largest - storage.lowest + 1)).astype(float)
    top = int(np.frexp(storage.largest)[1]) - 1
    exponent = storage.least + (random % np.uint32(top - storage.least + 1)).astype(np.int32)
    mantissa = 1 + ((random >> np.uint32(8)) % np.uint32(8)) / 8
    return np.ldexp(mantissa * np.where(random >> np.uint32(27), 1.0, -1.0), exponent)


def round_to(storage: Storage, numbers: Array) -> Array:
    """The nearest code of each number, of any shape, in float64: ties to even, and what is beyond the range at its end.
    Numbers that are no numbers stay as they are.
    """
    if storage.is_whole:
        nearest = np.rint(numbers)
    else:
        # the spacing of codes is that of the number's exponent, or of the smallest normal one
        exponent = np.maximum(np.frexp(numbers)[1] - storage.bits, storage.least)
        nearest = np.ldexp(np.rint(np.ldexp(numbers, -exponent)), exponent)
    return np.where(np.isfinite(numbers), np.clip(nearest, storage.lowest, storage.largest), numbers)


def holds(storage: Storage, numbers: Array) -> bool:
    """Whether each number, of any shape, is a code. Formats of floating point have NaN; whole numbers have not."""
    finite = np.isfinite(numbers)
    wide = numbers.astype(np.float64)
    is_code = np.equal(round_to(storage, wide), wide) | (np.isnan(wide) & (not storage.is_whole))
    return bool(np.where(finite, is_code, np.isnan(wide) & (not storage.is_whole)).all())


def misfit(problem: Problem, limits: Limits) -> str:
    """Why codes and scales cannot be handed to a subject with these limits; empty if they can. A past is looked at with
    what stands behind it.
    """
    whole = joined(problem)
    for keyword, name in NAMES.items():
        storage, granularity = getattr(limits, f"stored_{name}"), getattr(limits, f"{name}_scales")
        if storage and not holds(STORAGES[storage], getattr(whole, name)):
            return f"{storage} cannot hold the entries of its {name}"
        if (scale := getattr(problem, keyword)) is None or not granularity:
            continue
        if not _is_shared(scale, granularity):
            return f"the scales of its {name} differ not only by {granularity}"
        if granularity == "page" and not _is_of_pages(scale, _slots(problem, limits.page_multiple)):
            return f"the scales of its {name} differ within a page"
    return ""


def laid_out(keywords: Mapping[str, object], lays: Lays) -> Mapping[str, object]:
    """The keywords of a call, scales (B,H,S,D) as their array lies."""
    return {name: lays[NAMES[name]](value) if name in NAMES and NAMES[name] in lays and isinstance(value, np.ndarray)
            else value for name, value in keywords.items()}


def hand_over(arrays: Mapping[str, Array], keywords: Mapping[str, object], limits: Limits,
              lays: Lays = DENSE) -> tuple[Mapping[str, Array], Mapping[str, object]]:
    """The arrays of a call, codes in their storage, and its keywords: past codes likewise, and scales in the shape of
    their granularity; of any granularity, with length 1 along the axes along which they do not differ.
    """
    def handed(name: str, value: object) -> object:
        """One array or keyword as the subject takes it."""
        if not isinstance(value, np.ndarray):
            return value
        if name in NAMES:
            granularity = getattr(limits, f"{NAMES[name]}_scales")
            return _shaped(value, granularity, lays.get(NAMES[name]))
        storage = getattr(limits, f"stored_{_PAST.get(name, name)}", "")
        return value.astype(storage_dtype(storage)) if storage else value

    return ({name: np.asarray(handed(name, array)) for name, array in arrays.items()},
            {name: handed(name, value) for name, value in keywords.items()})


def storage_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a storage, by ml_dtypes where NumPy has none."""
    return np.dtype(name if name == "int8" else getattr(ml_dtypes, name))


def _is_of_pages(scale: Array, slots: int) -> bool:
    """Whether keys of scales (B,H,S,D) that lie in one page of so many slots share one."""
    return bool((scale == scale[:, :, np.arange(scale.shape[2]) // slots * slots]).all())


def _is_shared(scale: Array, granularity: str) -> bool:
    """Whether scales (B,H,S,D) differ along no other axis than the granularity's."""
    others = tuple(axis for axis in range(scale.ndim) if axis not in _AXES[granularity])
    return all(bool((scale == scale.take([0], axis)).all()) for axis in others if scale.shape[axis])


def _shaped(scale: Array, granularity: str, lay: Callable[[Array], Array] | None) -> Array:
    """Scales (B,H,S,D) in the shape of a granularity; where none is declared, of one that broadcasts to their array."""
    if not granularity:
        return _shrunk(scale) if lay is None else _shrunk_as_laid(scale, lay)
    if lay is not None and granularity in {"token", "page"}:
        of_tokens = lay(np.ascontiguousarray(scale[..., :1]))[..., 0]
        return np.ascontiguousarray(of_tokens[:, 0] if granularity == "page" else of_tokens)
    at = tuple(slice(None) if axis in _AXES[granularity] else 0 for axis in range(scale.ndim))
    return np.array(scale[at])


def _shrunk(scale: Array) -> Array:
    """Scales (B,H,S,D) as (B or 1,H or 1,S or 1,D or 1): with length 1 along the axes along which they are the same."""
    for axis in range(scale.ndim):
        first = scale.take([0], axis) if scale.shape[axis] else scale
        scale = first if (scale == first).all() else scale
    return np.ascontiguousarray(scale)


def _shrunk_as_laid(scale: Array, lay: Callable[[Array], Array]) -> Array:
    """Scales (B,H,S,D) as their array lies, (N,H or 1,D or 1) or (pages,slots,H or 1,D or 1); with length 1 along the
    first axes, too, where batch entries and keys share them.
    """
    kept = tuple(slice(None) if (scale != scale.take([0], axis)).any() else slice(1) for axis in (1, 3))
    laid = lay(scale)[..., kept[0], kept[1]]
    if (scale == scale[:1, :, :1]).all():
        laid = scale[0, :, 0, :][kept].reshape(*[1] * (laid.ndim - 2), *laid.shape[-2:])
    return np.ascontiguousarray(laid)
