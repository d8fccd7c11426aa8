"""Bias recipes: float64 arrays (B,H,T,S) that are added to the scaled logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.problems.domain import BiasName
from attnspec.problems.entries import Floats, integers, normal
from attnspec.problems.masks import MASKS
from attnspec.problems.problem import Sizes
from attnspec.problems.stream import words


@dataclass(frozen=True, slots=True)
class BiasRecipe:
    """One way to make a bias; `make` returns something that broadcasts to (B,H,T,S)."""

    name: BiasName
    make: Callable[[int, Sizes], Floats]
    meaning: str


def _shape(sizes: Sizes) -> tuple[int, int, int, int]:
    return sizes.B, sizes.H, sizes.T, sizes.S


def _integers(seed: int, sizes: Sizes) -> Floats:
    return integers(words(seed, "bias", _shape(sizes)), -2, 2)


def _normal(seed: int, sizes: Sizes) -> Floats:
    return normal(words(seed, "bias", _shape(sizes)))


def _zero(_seed: int, _sizes: Sizes) -> Floats:
    return np.zeros(())


def _row_constant(seed: int, sizes: Sizes) -> Floats:
    return 4 * normal(words(seed, "bias", (*_shape(sizes)[:3], 1)))


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
        BiasRecipe("row_constant", _row_constant, "one number for all keys of a query: softmax does not see it"),
        BiasRecipe("slopes", _slopes, "falls linearly with distance, each head at its own rate"),
        BiasRecipe("large", _large, "64 times N(0,1): the bias decides"),
        BiasRecipe("hiding", _hiding, "N(0,1), and -inf where the random mask hides; every row sees a key"),
    )
}
