"""Scales, zero points and codes are made by pattern, and handed to a subject as it takes them."""

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

GLOBALS: Mapping[str, str] = {
    word.name: word.meaning_of for word in KEYWORDS if word.name.endswith("_global_scale")}
"""The second scales: by keyword, the array whose scales are all multiplied by it."""

NAMES: Mapping[str, str] = {
    word.name: word.meaning_of for word in KEYWORDS if word.name == f"{word.meaning_of}_scale"}
"""The scales: by keyword, the array whose codes it scales."""

ZEROS: Mapping[str, str] = {word.name: word.meaning_of for word in KEYWORDS if word.name.endswith("_zero")}
"""The zero points: by keyword, the array from whose codes it is subtracted."""

EVERY: Mapping[str, str] = {**NAMES, **ZEROS, **GLOBALS}
"""All of these keywords, each with its array."""

_PAST: Mapping[str, str] = dict(zip(CACHED, CACHED_INPUTS, strict=True))
"""By the keyword of past keys or values, the array of the call whose storage they share."""

_UNSCALED = "uint8/tensor/ones"
"""The pattern of codes that have a zero point and no scale."""

USUAL_SLOTS = 4
"""The slots of a page, where a pattern is made without a problem that has pages."""

_SEED = 1
"""The seed of the scales that a function is tried with: any will do."""

_RARE = 16
"""One code in so many is any code of its storage; the others are rounded from the entries."""


def shape_of(name: str, sizes: Sizes) -> tuple[int, int, int, int]:
    """The shape of query (B,H,T,D), key (B,Hkv,S,D) or value (B,Hkv,S,Dv)."""
    B, H, Hkv, T, S, D, Dv = sizes.by_axis.values()
    return {"query": (B, H, T, D), "key": (B, Hkv, S, D), "value": (B, Hkv, S, Dv)}[name]


def scales(keyword: str, pattern: str, seed: int, sizes: Sizes, slots: int = USUAL_SLOTS) -> Array:
    """Return the scales of an array at its full shape (B,H,S,D), in float32. slots: of a page."""
    name, granularity, kind = parts_of(pattern)
    storage, full = STORAGES[name], shape_of(NAMES[keyword], sizes)
    random = random_words(seed, f"{keyword} {granularity}", shared_shape(granularity, full))
    numbers = _KINDS[kind](random)
    if kind != "ones":
        numbers = numbers * storage.step
    stored = numbers.astype(np.float32).astype(storage_dtype(storage.scales)).astype(np.float32)
    return spread_out(stored, granularity, full, slots)


def global_scale(keyword: str, pattern: str, seed: int, sizes: Sizes) -> Array:
    """Return the second scale of an array, repeated to its full shape (B,H,S,D), in float32."""
    random = random_words(seed, keyword, (1, 1, 1, 1))
    power = np.ldexp(1.0, np.array([-2, -1, 1, 2])[random % np.uint32(4)])
    number = {"odd": _odd(random), "power": power, "one": np.ones(random.shape)}[pattern]
    return np.full(shape_of(GLOBALS[keyword], sizes), number, np.float32)


def shared_shape(granularity: str, full: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of scales of codes (B,H,S,D), with one entry for each block, and length 1
    along the axes along which they do not differ.
    """
    shared = SCALE_AXES[granularity]
    return tuple(-(-length // shared[axis]) if axis in shared else 1 for axis, length in enumerate(full))


def spread_out(numbers: Array, granularity: str, full: tuple[int, ...], slots: int = USUAL_SLOTS) -> Array:
    """Repeat scales of the shape that `shared_shape` gives to the full shape (B,H,S,D)."""
    if granularity == "page":
        numbers = numbers[:, :, _first_of_page(full[2], slots)]
    for axis, length in SCALE_AXES[granularity].items():
        if length > 1:
            numbers = numbers.take(np.arange(full[axis]) // length, axis)
    return np.ascontiguousarray(np.broadcast_to(numbers, full))


def _first_of_page(keys: int, slots: int) -> Array:
    """(S,): for each key, the first key of its page of so many slots."""
    return np.arange(keys) // slots * slots


def zero_points(keyword: str, pattern: str, scale_pattern: str, seed: int, sizes: Sizes, *,
                slots: int = USUAL_SLOTS) -> Array:
    """Return the zero points of an array at its full shape (B,H,S,D), in float32, of the
    granularity and for the storage that the pattern of its scales names.
    """
    name, granularity, _ = parts_of(scale_pattern)
    full = shape_of(ZEROS[keyword], sizes)
    random = random_words(seed, f"{keyword} {granularity}", shared_shape(granularity, full))
    numbers = _ZERO_KINDS[pattern](STORAGES[name], random)
    return spread_out(numbers.astype(np.float32), granularity, full, slots)


def _turns(random: Words) -> Array:
    """0 and 1 by turns, in the shape of the words, whatever it is."""
    return np.arange(random.size).reshape(random.shape) % 2


def _zeros_about_middle(storage: Storage, random: Words) -> Array:
    """Whole numbers within an eighth of the range from the middle, in the shape of the words: even
    and odd ones by turns, and never the middle itself.
    """
    reach = min(storage.largest - storage.lowest + 1, 256) / 8
    away = 2.0 * (random % np.uint32(reach)) - reach + _turns(random)
    return np.asarray(storage.middle + np.where(away == 0, reach, away))


def _zeros_with_eighths(storage: Storage, random: Words) -> Array:
    """The same and one to seven eighths more, in the shape of the words."""
    return _zeros_about_middle(storage, random) + (1 + (random >> np.uint32(12)) % np.uint32(7)) / 8


def _zeros_at_ends(storage: Storage, random: Words) -> Array:
    """The least and the largest code by turns, in the shape of the words."""
    return np.where(_turns(random) == 0, storage.lowest, storage.largest)


_ZERO_KINDS: Mapping[str, Callable[[Storage, Words], Array]] = {
    "spread": _zeros_about_middle, "fraction": _zeros_with_eighths, "extreme": _zeros_at_ends,
    "none": lambda storage, random: np.zeros(random.shape)}  # noqa: ARG005  (a pattern's signature)


def _powers(random: Words) -> Array:
    """Powers of two from 1/4 to 4 in the shape of the words; neighbours differ."""
    exponents = 2 * (random >> np.uint32(31)).astype(np.int32) + _turns(random) - 2
    return np.ldexp(1.0, exponents.astype(np.int32))


def _odd(random: Words) -> Array:
    """Numbers from 1/2 to 3/2 that have 24 bits each, in the shape of the words."""
    return np.asarray(0.5 + (random >> np.uint32(9)) / 2.0**23 + 2.0**-24)


def _with_zero(random: Words) -> Array:
    """Powers of two of which every third is 0, in the shape of the words."""
    is_third = np.arange(random.size).reshape(random.shape) % 3 == 1
    return np.where(is_third, 0.0, _powers(random))


_KINDS: Mapping[str, Callable[[Words], Array]] = {
    "powers": _powers, "odd": _odd, "ones": lambda random: np.ones(random.shape), "with_zero": _with_zero}


def _maker(keyword: str) -> Callable[[str, int, Sizes, DType], Array]:
    """The function that makes scales or zero points of a keyword, at the full shape (B,H,S,D)."""
    if keyword in ZEROS:
        return lambda pattern, seed, sizes, _: zero_points(keyword, pattern, _UNSCALED, seed, sizes)
    make = global_scale if keyword in GLOBALS else scales
    return lambda pattern, seed, sizes, _: make(keyword, pattern, seed, sizes)


ARRAYS: Mapping[str, Callable[[str, int, Sizes, DType], Array]] = {
    keyword: _maker(keyword) for keyword in (*NAMES, *ZEROS, *GLOBALS)}


def settle(problem: Problem, recipe: Recipe) -> Problem:
    """Put codes of the problem's dtype in the place of entries with scales or zero points."""
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
        codes = codes_of(getattr(problem, name), pattern, recipe.seed, name, problem.dtype, zero=offset)
        problem = problem.but(**{name: codes})
    return problem


def in_codes(problem: Problem, patterns: Mapping[str, str], multiple: int = 1) -> Problem:
    """Give a problem scales and zero points by these patterns, and the nearest codes.

    No code is drawn, so that the answer is much like that to the entries.
    patterns: by keyword.  multiple: the slots of a page are a multiple of it.
    """
    slots = _slots(problem, multiple)
    for keyword, name in NAMES.items():
        if keyword not in patterns:
            continue
        pattern, zero = patterns[keyword], f"{name}_zero"
        offset = None
        if zero in patterns:
            offset = zero_points(zero, patterns[zero], pattern, _SEED, problem.sizes, slots=slots)
            problem = problem.but(**{zero: offset})
        codes = _round_entries(getattr(problem, name), pattern, offset).astype(numpy_dtype(problem.dtype))
        scale = scales(keyword, pattern, _SEED, problem.sizes, slots)
        problem = problem.but(**{keyword: scale, name: codes})
    return problem


def _slots(problem: Problem, multiple: int) -> int:
    """The slots of a page of a problem's keys, or of the usual pages where it has none."""
    pattern: PagePattern | Array | None = getattr(problem, TABLE)
    return slots_of_page(pattern if isinstance(pattern, str) else USUAL_PAGES, problem.sizes.S, multiple)


def codes_of(entries: Array, pattern: str, seed: int, label: str, dtype: DType, *,
             zero: Array | None = None) -> Array:
    """Return the nearest codes of entries of any shape, with any code in one of 16 places.

    Where scales are not 1, entries are divided by the storage's step before. Zero points, of the
    same shape, are added; without them, unsigned codes are those of the entries' sizes.
    label: names the array, so that each draws codes of its own.
    """
    name, _, kind = parts_of(pattern)
    nearest = _round_entries(entries, pattern, zero)
    if kind != "ones":
        random = random_words(seed, f"codes of {label}", entries.shape)
        rare = round_to(STORAGES[name], _any_code(STORAGES[name], random // np.uint32(_RARE)))
        nearest = np.where(random % np.uint32(_RARE) == 0, rare, nearest)
    return nearest.astype(numpy_dtype(dtype))


def _round_entries(entries: Array, pattern: str, zero: Array | None) -> Array:
    """The nearest codes of entries, of any shape, in float64; zero points have the same shape."""
    name, _, kind = parts_of(pattern)
    storage, steps = STORAGES[name], entries.astype(np.float64)
    if kind != "ones":
        steps = steps / storage.step
    if zero is not None:
        return round_to(storage, steps + zero)
    return round_to(storage, np.abs(steps) if storage.is_unsigned else steps)


def _any_code(storage: Storage, random: Words) -> Array:
    """Codes in the shape of the words, of which one in eight is the least or the largest code."""
    end = (random >> np.uint32(24)) % 16  # the words are below 2^28
    return np.select([end == 0, end == 1], [storage.lowest, storage.largest], _inner_code(storage, random))


def _inner_code(storage: Storage, random: Words) -> Array:
    """Whole codes of the whole range, or others of every exponent, in the shape of the words."""
    if storage.is_whole:
        return storage.lowest + (random % np.uint32(storage.largest - storage.lowest + 1)).astype(float)
    top = int(np.frexp(storage.largest)[1]) - 1
    exponent = storage.least + (random % np.uint32(top - storage.least + 1)).astype(np.int32)
    mantissa = 1 + ((random >> np.uint32(8)) % np.uint32(8)) / 8
    return np.ldexp(mantissa * np.where(random >> np.uint32(27), 1.0, -1.0), exponent)


def round_to(storage: Storage, numbers: Array) -> Array:
    """Round numbers of any shape, in float64, to the nearest codes, ties to even.

    Beyond the range it is the code at its end. What is not finite stays as it is.
    """
    if storage.is_whole:
        nearest = np.rint(numbers)
    else:  # the spacing of codes is that of the number's exponent, or of the smallest normal one
        exponent = np.maximum(np.frexp(numbers)[1] - storage.bits, storage.least)
        nearest = np.ldexp(np.rint(np.ldexp(numbers, -exponent)), exponent)
    return np.where(np.isfinite(numbers), np.clip(nearest, storage.lowest, storage.largest), numbers)


def holds(storage: Storage, numbers: Array) -> bool:
    """Whether each number, of any shape, is a code; some eight-bit formats have NaN."""
    wide = numbers.astype(np.float64)
    is_code = np.equal(round_to(storage, wide), wide)
    return bool(np.where(np.isfinite(wide), is_code, np.isnan(wide) & storage.has_nan).all())


def misfit(problem: Problem, limits: Limits, form: InputForm = InputForm.DENSE) -> str:
    """Say why codes and scales cannot be handed to a function of this form with these limits;
    empty if they can. Past and new keys are looked at together.
    """
    return next(chain(_without_meaning(problem, limits, form), _misfits(join_past(problem), limits)), "")


_BLOCKS_OF_ANOTHER: Mapping[InputForm, str] = {
    InputForm.PACKED: "a sequence may begin within a block", InputForm.PAGED: "a page may end within a block",
    InputForm.DECODER: "a call may begin within a block"}
"""By form, why blocks of tokens have no meaning there."""
_BYTES_OF_ANOTHER: Mapping[InputForm, str] = {
    InputForm.DENSE: "past and new keys", InputForm.PACKED: "two sequences",
    InputForm.PAGED: "two pages", InputForm.DECODER: "two calls"}
"""By form, what two tokens of one byte may belong to."""


def _without_meaning(problem: Problem, limits: Limits, form: InputForm) -> Iterator[str]:
    """What is declared and has no meaning in a form, array by array."""
    for name in INPUTS:
        granularity, layout = granularity_of(limits, name), getattr(limits, f"packed_{name}")
        is_of_keys = name in CACHED_INPUTS
        is_cut = form is InputForm.PACKED or (is_of_keys and form is not InputForm.DENSE)
        if granularity == "page" and form is not InputForm.PAGED:
            yield f"scales of its {name} are declared by page, and its keys lie in none (declare token, or another)"
        if is_cut and form in _BLOCKS_OF_ANOTHER and SCALE_AXES.get(granularity, {}).get(2, 1) > 1:
            way_out = "page or token" if form is InputForm.PAGED else "token"
            yield f"its {name} has scales by {granularity}, and {_BLOCKS_OF_ANOTHER[form]} (declare {way_out})"
        if layout and is_along_tokens(layout) and (is_cut or (is_of_keys and problem.has_past)):
            yield (f"it packs neighbouring tokens of its {name}, and two of a byte may belong to "
                   f"{_BYTES_OF_ANOTHER[form]} (declare a layout along the features)")


def has_declared_blocks(recipe: Recipe, limits: Limits) -> bool:
    """Whether scales of a recipe lie in the blocks that a subject declares, if any. Others can be
    handed over in its blocks, too, but a fault, which is told no length, does not find them.
    """
    for keyword, name in NAMES.items():
        if keyword in recipe.features:
            granularity = parts_of(recipe.value(keyword))[1]
            if granularity_of(limits, name) not in {*UNBLOCKED, "", granularity}:
                return False
    return True


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
        if not stored:
            continue
        storage = STORAGES[stored]
        if scale is not None and not _is_stored(scale, storage.scales):
            yield f"{storage.scales} cannot hold the scales of its {name}"
        if zero is not None and not storage.takes_zero_points:
            yield f"{stored} has no zero points, and its {name} would come with some"
        if zero is not None and limits.zeros == "codes" and not holds(storage, zero):
            yield f"{stored} cannot hold the zero points of its {name}"


def laid_out(keywords: Mapping[str, object], lays: Lays) -> Mapping[str, object]:
    """Lay scales and zero points (B,H,S,D) in the keywords of a call as their array lies."""
    changed = dict(keywords)
    for name in EVERY.keys() & keywords.keys():
        value, lay = keywords[name], lays.get(EVERY[name])
        if lay is not None and isinstance(value, np.ndarray):
            changed[name] = lay(value)
    return changed


def hand_over(arrays: Mapping[str, Array], keywords: Mapping[str, object], limits: Limits,
              lays: Lays = DENSE) -> tuple[Mapping[str, Array], Mapping[str, object]]:
    """Return the arrays (B,H,S,D) and the keywords of a call as a subject with these limits takes
    them: codes in their storage, scales and zero points in the shape of their granularity. Where
    any is taken, they have length 1 along the axes along which they do not differ.
    """
    if not any(getattr(limits, f"stored_{name}") for name in INPUTS) and EVERY.keys().isdisjoint(keywords):
        return arrays, keywords

    def hand(name: str, value: object) -> object:
        """One array or keyword as the subject takes it."""
        if not isinstance(value, np.ndarray):
            return value
        if name in EVERY:
            return _hand_over_scale(name, value, limits, lays.get(EVERY[name]))
        own = _PAST.get(name, name)
        storage = getattr(limits, f"stored_{own}", "")
        return in_storage(value, storage, getattr(limits, f"packed_{own}")) if storage else value

    return ({name: np.asarray(hand(name, array)) for name, array in arrays.items()},
            {name: hand(name, value) for name, value in keywords.items()})


def _hand_over_scale(keyword: str, value: Array, limits: Limits, lay: Callable[[Array], Array] | None) -> Array:
    """Scales or zero points (B,H,S,D) in the shape of their granularity, as their array lies, and
    in the type that is declared for them. A second scale is ().
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
    """Return the granularity of an array's scales, as declared or of its storage; empty: any."""
    declared, storage = str(getattr(limits, f"{name}_scales")), STORAGES.get(getattr(limits, f"stored_{name}"))
    if declared or storage is None:
        return declared
    return storage.usual_granularity


def in_storage(codes: Array, name: str, layout: str) -> Array:
    """Convert codes (B,H,S,D), or as they lie in a form, to the type of their storage. Packed,
    they are bytes of half as many features, or (B,H,S/2,D) of half as many tokens.
    """
    stored = _cast(codes, STORAGES[name])
    return pack_nibbles(stored.view(np.uint8) & np.uint8(15), layout) if layout else stored


def _cast(codes: Array, storage: Storage) -> Array:
    """Codes of any shape in the type of their storage."""
    if storage.is_whole:  # what fills slots that hold no key may be no code
        codes = np.clip(np.nan_to_num(codes), storage.lowest, storage.largest)
    return codes.astype(storage_dtype(storage.code_type))


def pack_nibbles(nibbles: Array, layout: str) -> Array:
    """Pack nibbles (B,H,S,D), or as they lie in a form, two to a byte, an odd last one with 0."""
    axis = 2 if is_along_tokens(layout) else nibbles.ndim - 1
    length = nibbles.shape[axis]
    even = np.pad(nibbles, [(0, length % 2 if each == axis else 0) for each in range(nibbles.ndim)])
    places = np.arange(even.shape[axis])
    pairs = places.reshape(2, -1).T if layout == "halves" else places.reshape(-1, 2)
    first, second = (even.take(pairs[:, at], axis) for at in range(2))
    low, high = (second, first) if layout.startswith("high") else (first, second)
    return np.ascontiguousarray(low | (high << np.uint8(4)))


def storage_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a type of codes or scales, or that of ml_dtypes; raise UsageError,
    with the way out, where an old release of it has none either.
    """
    if name in {"int8", "uint8", "float32"}:
        return np.dtype(name)
    if not hasattr(ml_dtypes, name):
        raise UsageError(f"ml_dtypes {ml_dtypes.__version__} has no {name}. Install a later release of it.")
    kind: type = getattr(ml_dtypes, name)
    return np.dtype(kind)


def _is_stored(scale: Array, name: str) -> bool:
    """Whether scales of any shape are numbers of the type in which they are stored."""
    if name == "float32":
        return True
    with np.errstate(all="ignore"):
        return bool((scale.astype(storage_dtype(name)).astype(np.float32) == scale).all())


def _is_of_pages(scale: Array, slots: int) -> bool:
    """Whether keys of scales (B,H,S,D) that lie in one page of so many slots share one."""
    return bool((scale == scale[:, :, _first_of_page(scale.shape[2], slots)]).all())


def _is_shared(scale: Array, granularity: str) -> bool:
    """Whether scales (B,H,S,D) differ between blocks of the granularity alone."""
    shared = SCALE_AXES[granularity]
    for axis, length in enumerate(scale.shape):
        block = shared.get(axis, length)
        if block > 1 and (scale != scale.take(np.arange(length) // block * block, axis)).any():
            return False
    return True


def _shape_scale(scale: Array, granularity: str, lay: Callable[[Array], Array] | None) -> Array:
    """Scales (B,H,S,D) in the shape of a granularity, or in one that broadcasts to their array."""
    if not granularity:
        return _shrink_scale(scale) if lay is None else _shrink_laid_scale(scale, lay)
    shared = SCALE_AXES[granularity]
    if lay is not None and shared.get(2) == 1:
        features = slice(None, None, shared[3]) if 3 in shared else slice(1)
        laid = lay(np.ascontiguousarray(scale[..., features]))
        if 3 not in shared:
            laid = laid[..., 0]
        return np.ascontiguousarray(laid[:, 0] if granularity == "page" else laid)
    at = tuple(slice(None, None, shared[axis]) if axis in shared else 0 for axis in range(scale.ndim))
    return np.array(_with_a_first(scale, shared)[at])


def _with_a_first(scale: Array, shared: Mapping[int, int]) -> Array:
    """Scales (B,H,S,D), with a first one along the axes that share it even without entries."""
    shape = tuple(length or int(axis not in shared) for axis, length in enumerate(scale.shape))
    return scale if shape == scale.shape else np.ones(shape, scale.dtype)


def _shrink_scale(scale: Array) -> Array:
    """Scales (B,H,S,D), with length 1 along the axes along which they are the same."""
    for axis in range(scale.ndim):
        if scale.shape[axis] and (scale == scale.take([0], axis)).all():
            scale = scale.take([0], axis)
    return np.ascontiguousarray(scale)


def _shrink_laid_scale(scale: Array, lay: Callable[[Array], Array]) -> Array:
    """Scales (B,H,S,D) as their array lies, (N,H or 1,D or 1) or (pages,slots,H or 1,D or 1); the
    first axes have length 1, too, where batch entries and keys share the scales.
    """
    heads, features = (slice(None) if (scale != scale.take([0], axis)).any() else slice(1) for axis in (1, 3))
    laid = lay(scale)[..., heads, features]
    if scale.size and (scale == scale[:1, :, :1]).all():
        laid = scale[0, :, 0, :][heads, features].reshape(*[1] * (laid.ndim - 2), *laid.shape[-2:])
    return np.ascontiguousarray(laid)
