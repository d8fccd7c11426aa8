"""Mask recipes, bool arrays (B,H,T,S) with True = may attend, and bias recipes, float64 arrays (B,H,T,S)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnspec.problems.domain import BiasName, MaskName
from attnspec.problems.entries import Floats, normal_numbers, random_words, uniform_numbers, whole_numbers
from attnspec.problems.families import attacked_keys
from attnspec.problems.problem import Sizes

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MaskRecipe:
    """One way to hide keys. `pattern` may leave out axes that it does not vary along; `make` fills them in."""

    name: MaskName
    pattern: Callable[[int, Sizes], Bools]
    meaning: str

    def make(self, seed: int, sizes: Sizes) -> Bools:
        """The mask at full shape (B,H,T,S), private to the caller."""
        full = np.empty((sizes.B, sizes.H, sizes.T, sizes.S), np.bool_)
        full[...] = self.pattern(seed, sizes)
        return full


def _choose(seed: int, label: str, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.intp]:
    """Whole numbers low … high, in an array of any shape."""
    return whole_numbers(random_words(seed, f"mask {label}", shape), low, high).astype(np.intp)


def _all_true(_seed: int, _sizes: Sizes) -> Bools:
    return np.array(True)


def _lengths(seed: int, sizes: Sizes) -> NDArray[np.intp]:
    """(B,1,1,1): how many keys of each batch entry are no padding, at least one."""
    return _choose(seed, "length", (sizes.B, 1, 1, 1), 1, sizes.S)


def _padding(seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) < _lengths(seed, sizes))


def _left_padding(seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) >= sizes.S - _lengths(seed, sizes))


def _scattered(seed: int, sizes: Sizes, shape: tuple[int, int, int]) -> Bools:
    """Independent entries, each row with a density of its own from 1/8 to 1."""
    count = (*shape, (sizes.S + 3) // 4)
    entries = random_words(seed, "mask entries", count).astype("<u4", copy=False).view(np.uint8)[..., :sizes.S]
    eighths = random_words(seed, "mask density", (*shape, 1)) >> np.uint32(29)
    return np.asarray(entries <= (31 + 32 * eighths).astype(np.uint8))


def _random(seed: int, sizes: Sizes) -> Bools:
    shape = sizes.B, sizes.H, sizes.T
    mask = _scattered(seed, sizes, shape)
    # the key that is surely visible is one that a causal rule of either alignment leaves visible, where it leaves any
    rows = np.arange(sizes.T)
    last = np.clip(np.minimum(rows, rows + sizes.S - sizes.T), 0, sizes.S - 1)
    sure = (uniform_numbers(random_words(seed, "mask sure", shape)) * (last + 1)).astype(np.intp)
    np.put_along_axis(mask, sure[..., None], True, axis=-1)
    return mask


def _per_head(seed: int, sizes: Sizes) -> Bools:
    mask = _scattered(seed, sizes, (sizes.B, sizes.H, 1))
    # key 0 is the one that every causal row of the usual alignment sees
    mask[..., 0] = True
    return mask


def _single_key(seed: int, sizes: Sizes) -> Bools:
    chosen = _choose(seed, "key", (sizes.B, sizes.H, sizes.T, 1), 0, sizes.S - 1)
    return np.asarray(np.arange(sizes.S) == chosen)


def _block(seed: int, sizes: Sizes) -> Bools:
    """Packed sequences: queries and keys are cut into as many parts, and each query sees its own part."""
    parts = _choose(seed, "parts", (sizes.B, 1, 1, 1), 1, min(4, sizes.S))
    queries = np.arange(sizes.T)[:, None] * parts // sizes.T
    return np.asarray(queries == np.arange(sizes.S) * parts // sizes.S)


def _packed_mask(seed: int, sizes: Sizes) -> Bools:
    """The same, with as many parts as a long row of short sequences has."""
    parts = _choose(seed, "many parts", (sizes.B, 1, 1, 1), 1, max(min(4, sizes.S), min(sizes.S, sizes.T) // 8))
    queries = np.arange(sizes.T)[:, None] * parts // sizes.T
    return np.asarray(queries == np.arange(sizes.S) * parts // sizes.S)


def _banded(seed: int, sizes: Sizes) -> Bools:
    reach = _choose(seed, "reach", (sizes.B, 1, 1, 1), 0, max(1, sizes.S // 4))
    centre = np.arange(sizes.T)[:, None] * sizes.S // sizes.T
    return np.asarray(np.abs(np.arange(sizes.S) - centre) <= reach)


def _causal_like(seed: int, sizes: Sizes) -> Bools:
    ahead = _choose(seed, "ahead", (sizes.B, 1, 1, 1), 0, sizes.S - 1)
    return np.asarray(np.arange(sizes.S) <= np.arange(sizes.T)[:, None] + ahead)


def _triangle(_seed: int, sizes: Sizes) -> Bools:
    return np.tri(sizes.T, sizes.S, dtype=np.bool_)


def _with_empty_rows(seed: int, sizes: Sizes) -> Bools:
    mask = _random(seed, sizes)
    is_empty = random_words(seed, "mask empty", (sizes.B, sizes.H, sizes.T)) < np.uint32(2**30)
    is_empty[np.unravel_index(_choose(seed, "surely empty", (1,), 0, is_empty.size - 1), is_empty.shape)] = True
    return mask & ~is_empty[..., None]


def _attack(_seed: int, sizes: Sizes) -> Bools:
    return np.asarray(np.arange(sizes.S) < attacked_keys(sizes.S))


MASKS: Mapping[str, MaskRecipe] = {
    mask.name: mask
    for mask in (
        MaskRecipe("all_true", _all_true, "every query may attend to every key"),
        MaskRecipe("padding", _padding, "each batch element has its own number of leading keys"),
        MaskRecipe("random", _random, "independent entries; each row has another density"),
        MaskRecipe("per_head", _per_head, "each head masks other keys, the same for all queries"),
        MaskRecipe("single_key", _single_key, "each query sees one key"),
        MaskRecipe("block", _block, "block diagonal: packed sequences"),
        MaskRecipe("packed", _packed_mask, "block diagonal, in blocks as short as eight"),
        MaskRecipe("banded", _banded, "a band around the diagonal, of another width for each batch element"),
        MaskRecipe("left_padding", _left_padding, "each batch element has its own number of trailing keys"),
        MaskRecipe("causal_like", _causal_like, "a causal triangle, shifted ahead per batch element"),
        MaskRecipe("triangle", _triangle, "a query sees no later key"),
        MaskRecipe("with_empty_rows", _with_empty_rows, "random, and a quarter of the rows see no key"),
        MaskRecipe("attack", _attack, "the second half of the keys is masked: for the families mask_attack…"),
    )
}


@dataclass(frozen=True, slots=True)
class BiasRecipe:
    """One way to make a bias; `make` returns something that broadcasts to (B,H,T,S)."""

    name: BiasName
    make: Callable[[int, Sizes], Floats]
    meaning: str


def _shape(sizes: Sizes) -> tuple[int, int, int, int]:
    return sizes.B, sizes.H, sizes.T, sizes.S


def _integers(seed: int, sizes: Sizes) -> Floats:
    return whole_numbers(random_words(seed, "bias", _shape(sizes)), -2, 2)


def _normal(seed: int, sizes: Sizes) -> Floats:
    return normal_numbers(random_words(seed, "bias", _shape(sizes)))


def _zero(_seed: int, _sizes: Sizes) -> Floats:
    return np.zeros(())


def _row_constant(seed: int, sizes: Sizes) -> Floats:
    return 4 * normal_numbers(random_words(seed, "bias", (*_shape(sizes)[:3], 1)))


def _slopes(_seed: int, sizes: Sizes) -> Floats:
    """The linear position bias of ALiBi: head h falls by 2^-(h+1) a step away from the diagonal."""
    distance = np.abs(np.arange(sizes.T)[:, None] - np.arange(sizes.S))
    return np.asarray(np.ldexp(-1.0 * distance, -(np.arange(sizes.H)[:, None, None] + 1)))


def _large(seed: int, sizes: Sizes) -> Floats:
    return 64 * _normal(seed, sizes)


def _hiding(seed: int, sizes: Sizes) -> Floats:
    return np.where(MASKS["random"].make(seed, sizes), _normal(seed, sizes), -np.inf)


BIASES: Mapping[str, BiasRecipe] = {
    bias.name: bias
    for bias in (
        BiasRecipe("integers", _integers, "small whole numbers"),
        BiasRecipe("normal", _normal, "independent N(0,1)"),
        BiasRecipe("zero", _zero, "all zero"),
        BiasRecipe("row_constant", _row_constant, "one number for all keys of a query: it does not change the softmax"),
        BiasRecipe("slopes", _slopes, "falls linearly with distance, each head at its own rate"),
        BiasRecipe("large", _large, "64 times N(0,1): the bias decides"),
        BiasRecipe("hiding", _hiding, "N(0,1), and -inf where the random mask is False; every row sees a key"),
    )
}
