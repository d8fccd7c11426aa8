"""The arrays of quantised attention: scales and zero points by their pattern, and entries that are codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.aspects.quantised.keyword import KEYWORDS, parts_of
from attnspec.aspects.quantised.storage import SCALE_AXES, STORAGES, UNBLOCKED, Storage, is_along_tokens
from attnspec.core.declaration import Limits
from attnspec.core.errors import UsageError
from attnspec.core.forms import TABLE, InputForm
from attnspec.core.keyword import PagePattern
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.problems.families import Words, random_words
from attnspec.problems.keyword_arrays import USUAL_PAGES, slots_of_page
from attnspec.problems.problem import (
    CACHED_INPUTS,
    DENSE,
    INPUTS,
    Array,
    Lays,
    Problem,
    Recipe,
    Sizes,
    join_past,
    numpy_dtype,
)

GLOBALS: Mapping[str, str] = {word.name: word.meaning_of for word in KEYWORDS if word.name.endswith("_global_scale")}
"""By keyword, the array all of whose scales it is multiplied into."""

NAMES: Mapping[str, str] = {
    word.name: word.meaning_of for word in KEYWORDS if word.name == f"{word.meaning_of}_scale"}
"""By keyword, the array whose codes it scales."""

ZEROS: Mapping[str, str] = {word.name: word.meaning_of for word in KEYWORDS if word.name.endswith("_zero")}
"""By keyword, the array from whose codes it is taken off."""

EVERY: Mapping[str, str] = {**NAMES, **ZEROS, **GLOBALS}
"""By keyword, the array whose codes it gives a meaning."""

_PAST: Mapping[str, str] = dict(zip(CACHED, CACHED_INPUTS, strict=True))
"""By keyword, the array of the call whose storage earlier keys, or values, have."""

_UNSCALED = "uint8/tensor/ones"
"""The pattern of codes that have a zero point and no scale."""

USUAL_SLOTS = 4
"""Of a page, where a pattern is made without the problem whose pages it belongs to."""

_SEED = 1
"""Of the scales that a function is tried with: any will do."""

_RARE = 16
"""One code in so many is any code of its storage, the others are rounded from the family's entries."""


def shape_of(name: str, sizes: Sizes) -> tuple[int, int, int, int]:
    """The shape of query (B,H,T,D), key (B,Hkv,S,D) or value (B,Hkv,S,Dv)."""
    B, H, Hkv, T, S, D, Dv = sizes.by_axis.values()
    return {"query": (B, H, T, D), "key": (B, Hkv, S, D), "value": (B, Hkv, S, Dv)}[name]


def scales(keyword: str, pattern: str, seed: int, sizes: Sizes, slots: int = USUAL_SLOTS) -> Array:
    """The scales of an array at its full shape, (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv), in float32: the same wherever
    its granularity says so. slots: of a page, whose keys share one.
    """
    storage, granularity, kind = parts_of(pattern)
    full = shape_of(NAMES[keyword], sizes)
    random = random_words(seed, f"{keyword} {granularity}", shared_shape(granularity, full))
    made = _KINDS[kind](random) * (1.0 if kind == "ones" else STORAGES[storage].step)
    stored = made.astype(np.float32).astype(storage_dtype(STORAGES[storage].scales)).astype(np.float32)
    return spread_out(stored, granularity, full, slots)


def global_scale(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """The one scale of an array at its full shape, (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv), in float32."""
    random = random_words(seed, keyword, (1, 1, 1, 1))
    power = np.ldexp(1.0, np.array([-2, -1, 1, 2])[random % np.uint32(4)])
    made = {"odd": _odd(random), "power": power, "one": np.ones(random.shape)}[pattern]
    return np.ascontiguousarray(np.broadcast_to(made.astype(np.float32), shape_of(GLOBALS[keyword], sizes)))


def shared_shape(granularity: str, full: tuple[int, ...]) -> tuple[int, ...]:
    """Of codes (B,H,S,D), the shape of their scales, with length 1 along the axes along which they do not differ, and
    one for each block along those that are cut into blocks.
    """
    shared = SCALE_AXES[granularity]
    return tuple(-(-length // shared[axis]) if axis in shared else 1 for axis, length in enumerate(full))


def spread_out(made: Array, granularity: str, full: tuple[int, ...], slots: int = USUAL_SLOTS) -> Array:
    """Scales of the shape that `shared_shape` gives, at the full shape (B,H,S,D). slots: of a page, whose keys share
    one.
    """
    if granularity == "page":
        made = made[:, :, _first_of_page(full[2], slots)]
    for axis, length in SCALE_AXES[granularity].items():
        if length > 1:
            made = made.take(np.arange(full[axis]) // length, axis)
    return np.ascontiguousarray(np.broadcast_to(made, full))


def _first_of_page(keys: int, slots: int) -> Array:
    """Any shape, (S,): of each key the first one that lies in its page of so many slots."""
    return np.arange(keys) // slots * slots


def zero_points(keyword: str, pattern: str, scale_pattern: str, seed: int, sizes: Sizes, *,
                slots: int = USUAL_SLOTS) -> Array:
    """The zero points of an array at its full shape, (B,H,T,D), (B,Hkv,S,D) or (B,Hkv,S,Dv), in float32: of the
    granularity and for the storage that the pattern of its scales names. slots: of a page, whose keys share one.
    """
    name, granularity, _ = parts_of(scale_pattern)
    full = shape_of(ZEROS[keyword], sizes)
    random = random_words(seed, f"{keyword} {granularity}", shared_shape(granularity, full))
    made = _ZERO_KINDS[pattern](STORAGES[name], random)
    return spread_out(made.astype(np.float32), granularity, full, slots)


def _zeros_about_middle(storage: Storage, random: Words) -> Array:
    """Of any shape, that of the words: whole numbers within an eighth of the range from the storage's middle, even and
    odd ones by turns; the middle itself is none of them.
    """
    reach = min(storage.largest - storage.lowest + 1, 256) / 8
    turn = np.arange(random.size).reshape(random.shape) % 2
    away = 2 * (random % np.uint32(reach)).astype(float) - reach + turn
    return np.asarray(storage.middle + np.where(away == 0, reach, away))


def _zeros_with_eighths(storage: Storage, random: Words) -> Array:
    """Of any shape, that of the words: as about the middle, and one to seven eighths more."""
    return _zeros_about_middle(storage, random) + (1 + (random >> np.uint32(12)) % np.uint32(7)) / 8


def _zeros_at_ends(storage: Storage, random: Words) -> Array:
    """Of any shape, that of the words: the least and the largest code by turns."""
    turn = np.arange(random.size).reshape(random.shape) % 2
    return np.where(turn == 0, storage.lowest, storage.largest)


_ZERO_KINDS: Mapping[str, Callable[[Storage, Words], Array]] = {
    "spread": _zeros_about_middle, "fraction": _zeros_with_eighths, "extreme": _zeros_at_ends,
    "none": lambda storage, random: np.zeros(random.shape)}  # noqa: ARG005  (a pattern's signature)


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
    """What makes the zero points or scales of a keyword, at the full shape of their array (B,H,S,D)."""
    if keyword in ZEROS:
        return lambda pattern, seed, sizes, _: zero_points(keyword, pattern, _UNSCALED, seed, sizes)
    made = global_scale if keyword in GLOBALS else scales
    return lambda pattern, seed, sizes, _: made(keyword, pattern, seed, sizes)


ARRAYS: Mapping[str, Callable[[str, int, Sizes, DType], Array]] = {
    keyword: _maker(keyword) for keyword in (*NAMES, *ZEROS, *GLOBALS)}


def settle(problem: Problem, recipe: Recipe) -> Problem:
    """The problem with codes in the place of entries, wherever it has scales or zero points. Codes are held in the
    problem's dtype, which has room for each of them.
    """
    slots = _slots(problem, 1)
    for keyword, name in NAMES.items():
        zero = f"{name}_zero"
        if recipe.features.isdisjoint({keyword, zero}):
            continue
        pattern = recipe.value(keyword) if keyword in recipe.features else _UNSCALED
        offset = None
        if zero in recipe.features:
            offset = zero_points(zero, recipe.value(zero), pattern, recipe.seed, recipe.sizes, slots=slots)
            problem = problem.but(**{zero: offset})
        if keyword in recipe.features and parts_of(pattern)[1] == "page":
            problem = problem.but(**{keyword: scales(keyword, pattern, recipe.seed, recipe.sizes, slots)})
        entries = getattr(problem, name)
        codes = codes_of(entries, pattern, recipe.seed, name, problem.dtype, zero=offset)
        problem = problem.but(**{name: codes})
    return problem


def in_codes(problem: Problem, patterns: Mapping[str, str], multiple: int = 1) -> Problem:
    """The problem with scales and zero points by these patterns, by keyword, and its entries as the nearest codes. None
    of them is drawn, so that the answer is much like that to the entries. multiple: of the slots of a page.
    """
    slots = _slots(problem, multiple)
    for keyword, name in NAMES.items():
        if keyword not in patterns:
            continue
        pattern, zero = patterns[keyword], f"{name}_zero"
        storage, offset = STORAGES[parts_of(pattern)[0]], np.zeros(())
        made = {keyword: scales(keyword, pattern, _SEED, problem.sizes, slots)}
        if zero in patterns:
            made[zero] = offset = zero_points(zero, patterns[zero], pattern, _SEED, problem.sizes, slots=slots)
        entries = getattr(problem, name).astype(np.float64)
        entries = np.abs(entries) if storage.is_unsigned and zero not in patterns else entries
        steps = entries / (1.0 if parts_of(pattern)[2] == "ones" else storage.step)
        made[name] = round_to(storage, steps + offset).astype(numpy_dtype(problem.dtype))
        problem = problem.but(**made)
    return problem


def _slots(problem: Problem, multiple: int) -> int:
    """The slots of a page of a problem's keys, which are a multiple of a number; of the usual pages where none are
    said.
    """
    pattern: PagePattern | Array | None = getattr(problem, TABLE)
    return slots_of_page(pattern if isinstance(pattern, str) else USUAL_PAGES, problem.sizes.S, multiple)


def codes_of(entries: Array, pattern: str, seed: int, label: str, dtype: DType, *,
             zero: Array | None = None) -> Array:
    """The nearest codes of a storage, of any shape: of the entries, or of the entries over the step where scales are
    not 1, and of as much more as the zero points are (the same shape). Without these, unsigned codes are those of the
    entries' sizes. One in 16 is any code: extremes, the smallest and 0 of either sign among them.
    """
    name, _, kind = parts_of(pattern)
    storage = STORAGES[name]
    wide = entries.astype(np.float64)
    wide = np.abs(wide) if storage.is_unsigned and zero is None else wide
    steps = wide if kind == "ones" else wide / storage.step
    nearest = round_to(storage, steps if zero is None else steps + zero)
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
    """Codes of any shape, that of the words, without the ends put in."""
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
    """Whether each number, of any shape, is a code. Formats of eight bits with a floating point have NaN, no others."""
    wide = numbers.astype(np.float64)
    is_code = np.equal(round_to(storage, wide), wide)
    return bool(np.where(np.isfinite(wide), is_code, np.isnan(wide) & storage.has_nan).all())


def misfit(problem: Problem, limits: Limits, form: InputForm = InputForm.DENSE) -> str:
    """Why codes and scales cannot be handed to a function of this form with these limits; empty if they can. A past is
    looked at with what stands behind it.
    """
    return next(chain(_without_meaning(problem, limits, form), _misfits(join_past(problem), limits)), "")


_BLOCKS_OF_ANOTHER: Mapping[InputForm, str] = {
    InputForm.PACKED: "a sequence may begin within a block", InputForm.PAGED: "a page may end within a block",
    InputForm.DECODER: "a call may begin within a block"}
"""By form, why blocks of tokens have no meaning there."""
_BYTES_OF_ANOTHER: Mapping[InputForm, str] = {
    InputForm.DENSE: "past and new keys", InputForm.PACKED: "two sequences", InputForm.PAGED: "two pages",
    InputForm.DECODER: "two calls"}
"""By form, what two tokens of one byte may belong to."""


def _without_meaning(problem: Problem, limits: Limits, form: InputForm) -> Iterator[str]:
    """What is declared and has no meaning in a form, array by array."""
    for name in INPUTS:
        granularity, layout = granularity_of(limits, name), getattr(limits, f"packed_{name}")
        is_of_keys = name in CACHED_INPUTS
        if granularity == "page" and form is not InputForm.PAGED:
            yield f"scales of its {name} are declared by page, and its keys lie in none (declare token, or another)"
        if SCALE_AXES.get(granularity, {}).get(2, 1) > 1 and form in _BLOCKS_OF_ANOTHER and (
                is_of_keys or form is InputForm.PACKED):
            yield (f"its {name} has scales by {granularity}, and {_BLOCKS_OF_ANOTHER[form]} (declare "
                   f"{'page or token' if form is InputForm.PAGED else 'token'})")
        if layout and is_along_tokens(layout) and (form is InputForm.PACKED or (is_of_keys and (
                form is not InputForm.DENSE or problem.has_past))):
            yield (f"it packs neighbouring tokens of its {name}, and two of a byte may belong to "
                   f"{_BYTES_OF_ANOTHER[form]} (declare a layout along the features)")


def has_declared_blocks(recipe: Recipe, limits: Limits) -> bool:
    """Whether scales of a recipe lie in the blocks that a subject declares; true where it declares none. Other scales
    can be handed over in its blocks as well, but a fault, which is told no length, does not know where these end.
    """
    declared = {keyword: granularity_of(limits, name) for keyword, name in NAMES.items()}
    return all(granularity in {*UNBLOCKED, "", parts_of(recipe.value(keyword))[1]}
               for keyword, granularity in declared.items() if keyword in recipe.features)


def _misfits(problem: Problem, limits: Limits) -> Iterator[str]:
    """All reasons of a problem whose keys are joined, array by array."""
    for keyword, name in NAMES.items():
        stored, granularity = getattr(limits, f"stored_{name}"), granularity_of(limits, name)
        scale, zero = getattr(problem, keyword), getattr(problem, f"{name}_zero")
        if getattr(limits, f"packed_{name}") and not stored:
            yield f"it declares how codes of its {name} are packed, and not what they are (declare stored_{name}, too)"
        if stored and not holds(STORAGES[stored], getattr(problem, name)):
            yield f"{stored} cannot hold the entries of its {name}"
        for word, numbers in (("scales", scale), ("zero points", zero)):
            if not granularity or numbers is None:
                continue
            if not _is_shared(numbers, granularity):
                yield f"the {word} of its {name} differ not only by {granularity}"
            if granularity == "page" and not _is_of_pages(numbers, _slots(problem, limits.page_multiple)):
                yield f"the {word} of its {name} differ within a page"
        if stored and scale is not None and not _is_stored(scale, STORAGES[stored].scales):
            yield f"{STORAGES[stored].scales} cannot hold the scales of its {name}"
        if stored and zero is not None and not STORAGES[stored].takes_zero_points:
            yield f"{stored} has no zero points, and its {name} would come with some"
        if limits.zeros == "codes" and stored and zero is not None and not holds(STORAGES[stored], zero):
            yield f"{stored} cannot hold the zero points of its {name}"


def laid_out(keywords: Mapping[str, object], lays: Lays) -> Mapping[str, object]:
    """The keywords of a call, scales and zero points (B,H,S,D) as their array lies."""
    return {name: lays[EVERY[name]](value) if name in EVERY and EVERY[name] in lays and isinstance(value, np.ndarray)
            else value for name, value in keywords.items()}


def hand_over(arrays: Mapping[str, Array], keywords: Mapping[str, object], limits: Limits,
              lays: Lays = DENSE) -> tuple[Mapping[str, Array], Mapping[str, object]]:
    """The arrays (B,H,S,D) of a call, codes in their storage; and its keywords: past codes likewise, scales and zero
    points in the shape of their granularity: of any granularity, with length 1 along the axes along which they do not
    differ.
    """
    if not any(getattr(limits, f"stored_{name}") for name in INPUTS) and EVERY.keys().isdisjoint(keywords):
        return arrays, keywords

    def handed(name: str, value: object) -> object:
        """One array or keyword as the subject takes it."""
        if not isinstance(value, np.ndarray):
            return value
        if name in EVERY:
            return _handed_over(name, value, limits, lays.get(EVERY[name]))
        own = _PAST.get(name, name)
        storage = getattr(limits, f"stored_{own}", "")
        return in_storage(value, storage, getattr(limits, f"packed_{own}")) if storage else value

    return ({name: np.asarray(handed(name, array)) for name, array in arrays.items()},
            {name: handed(name, value) for name, value in keywords.items()})


def _handed_over(keyword: str, value: Array, limits: Limits, lay: Callable[[Array], Array] | None) -> Array:
    """Scales or zero points (B,H,S,D) in the shape of their granularity, as their array lies; scales in the type that
    belongs to the storage, zero points in that of their codes where that is declared. The one scale of a whole array
    is ().
    """
    if keyword in GLOBALS:
        return np.array(_with_a_first(value, {})[0, 0, 0, 0])
    name = {**NAMES, **ZEROS}[keyword]
    shaped = _shape_scale(value, granularity_of(limits, name), lay)
    storage = STORAGES.get(getattr(limits, f"stored_{name}"))
    if storage is None:
        return shaped
    if keyword in ZEROS:
        return _cast(shaped, storage) if limits.zeros == "codes" else shaped
    # E8M0 has no sign: what fills slots that hold no key has one, and would be NaN
    stored = np.abs(shaped) if storage.scales == "float8_e8m0fnu" else shaped
    return stored.astype(storage_dtype(storage.scales))


def granularity_of(limits: Limits, name: str) -> str:
    """How many entries of an array share a scale: as declared, else as its storage defines; empty: any."""
    declared, storage = str(getattr(limits, f"{name}_scales")), STORAGES.get(getattr(limits, f"stored_{name}"))
    return declared or (storage.usual_granularity if storage is not None else "")


def in_storage(codes: Array, name: str, layout: str) -> Array:
    """Codes (B,H,S,D), or as they lie in a form, in the type of their storage; where they are packed, bytes of half as
    many features, or (B,H,S/2,D) of half as many tokens.
    """
    stored = _cast(codes, STORAGES[name])
    return pack_nibbles(stored.view(np.uint8) & np.uint8(15), layout) if layout else stored


def _cast(codes: Array, storage: Storage) -> Array:
    """Codes of any shape in the type of their storage. What fills slots that hold no key may be no code: of whole
    numbers the nearest one, 0 for NaN.
    """
    if storage.is_whole:
        codes = np.clip(np.nan_to_num(codes), storage.lowest, storage.largest)
    return codes.astype(storage_dtype(storage.code_type))


def pack_nibbles(nibbles: Array, layout: str) -> Array:
    """Bytes of which each has two of the nibbles (B,H,S,D), or as they lie in a form with features last; a last one
    that is alone is beside 0.
    """
    axis = 2 if is_along_tokens(layout) else nibbles.ndim - 1
    length = nibbles.shape[axis]
    even = np.pad(nibbles, [(0, length % 2 if each == axis else 0) for each in range(nibbles.ndim)])
    places = np.arange(even.shape[axis])
    pairs = places.reshape(2, -1).T if layout == "halves" else places.reshape(-1, 2)
    first, second = (even.take(pairs[:, at], axis) for at in range(2))
    low, high = (second, first) if layout.startswith("high") else (first, second)
    return np.ascontiguousarray(low | (high << np.uint8(4)))


def storage_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a type of codes or scales, by ml_dtypes where NumPy has none. Raises UsageError, with the way
    out, where an old release of ml_dtypes has none either.
    """
    if name in {"int8", "uint8", "float32"}:
        return np.dtype(name)
    if not hasattr(ml_dtypes, name):
        raise UsageError(f"ml_dtypes {ml_dtypes.__version__} has no {name}. Install a later release of it.")
    kind: type = getattr(ml_dtypes, name)
    return np.dtype(kind)


def _is_stored(scale: Array, name: str) -> bool:
    """Whether scales of any shape are numbers of the type in which they are stored."""
    with np.errstate(all="ignore"):
        return name == "float32" or bool((scale.astype(storage_dtype(name)).astype(np.float32) == scale).all())


def _is_of_pages(scale: Array, slots: int) -> bool:
    """Whether keys of scales (B,H,S,D) that lie in one page of so many slots share one."""
    return bool((scale == scale[:, :, _first_of_page(scale.shape[2], slots)]).all())


def _is_shared(scale: Array, granularity: str) -> bool:
    """Whether scales (B,H,S,D) differ along no other axis than the granularity's, and there between blocks alone."""
    shared = SCALE_AXES[granularity]
    firsts = {axis: np.arange(length) // shared.get(axis, length) * shared.get(axis, length)
              for axis, length in enumerate(scale.shape) if length and shared.get(axis, length) > 1}
    return all(bool((scale == scale.take(first, axis)).all()) for axis, first in firsts.items())


def _shape_scale(scale: Array, granularity: str, lay: Callable[[Array], Array] | None) -> Array:
    """Scales (B,H,S,D) in the shape of a granularity; where none is declared, of one that broadcasts to their array."""
    if not granularity:
        return _shrunk(scale) if lay is None else _shrunk_as_laid(scale, lay)
    shared = SCALE_AXES[granularity]
    if lay is not None and shared.get(2) == 1:
        features = slice(None, None, shared[3]) if 3 in shared else slice(1)
        laid = lay(np.ascontiguousarray(scale[..., features]))
        laid = laid if 3 in shared else laid[..., 0]
        return np.ascontiguousarray(laid[:, 0] if granularity == "page" else laid)
    at = tuple(slice(None, None, shared[axis]) if axis in shared else 0 for axis in range(scale.ndim))
    return np.array(_with_a_first(scale, shared)[at])


def _with_a_first(scale: Array, shared: Mapping[int, int]) -> Array:
    """Scales (B,H,S,D) with a first one along the axes that share it, also where there are no entries."""
    shape = tuple(length or int(axis not in shared) for axis, length in enumerate(scale.shape))
    return scale if shape == scale.shape else np.ones(shape, scale.dtype)


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
    if scale.size and (scale == scale[:1, :, :1]).all():
        laid = scale[0, :, 0, :][kept].reshape(*[1] * (laid.ndim - 2), *laid.shape[-2:])
    return np.ascontiguousarray(laid)
