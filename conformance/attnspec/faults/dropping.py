"""Which weights a call drops, drawn in several ways, and the stage of a staged attention that drops them."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.problems.problem import Array

Shape = tuple[int, int, int, int]
Draw = Callable[[int, Shape], Array]
"""From a seed and (B,H,T,S) to numbers in [0, 1), one for each weight."""

TILE = 16


def mixed(words: Array) -> Array:
    """64-bit words of any shape, well mixed: the output function of SplitMix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):  # modulo 2^64
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def number_of(words: Array) -> Array:
    """64-bit words of any shape as numbers in [0, 1)."""
    return (words >> np.uint64(40)) * 2.0**-24


def counted(seed: int, counters: Array) -> Array:
    """Numbers in [0, 1) that follow from a seed and a counter alone, in the shape of the counters (any shape)."""
    key = mixed(np.array(seed % 2**64, np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    with np.errstate(over="ignore"):
        return number_of(mixed(mixed(counters.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + key))


def by_counter(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): each weight has its place as a counter."""
    return counted(seed, np.arange(np.prod(shape)).reshape(shape))


def by_generator(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): NumPy's generator, one number after the other."""
    return np.random.default_rng(seed).random(shape, np.float32)


def by_tile(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): each tile of 16 queries and 16 keys has a generator of its own."""
    numbers = np.empty(shape)
    for b, h in np.ndindex(shape[:2]):
        for i in range(0, shape[2], TILE):
            for j in range(0, shape[3], TILE):
                tile = np.random.default_rng([seed, b, h, i, j]).random((TILE, TILE))
                numbers[b, h, i:i + TILE, j:j + TILE] = tile[:shape[2] - i, :shape[3] - j]
    return numbers


def factors_of(call: KeywordArguments[Array], shape: Shape, draw: Draw = by_counter) -> Array | None:
    """(B,H,T,S): what a call multiplies its weights by; None where it drops nothing."""
    rate = call.dropout_rate
    if not rate:
        return None
    kept = draw(call.seed or 0, shape) >= rate
    return np.where(kept, 1 / (1 - rate) if rate < 1 else 0, 0)


def drop_by(draw: Draw) -> Callable[[Array, KeywordArguments[Array]], Array]:
    """A `drop` stage, which gives factors (B,H,T,S)."""
    def drop(weights: Array, work: KeywordArguments[Array]) -> Array:
        """(B,H,T,S): the weights that meet the values."""
        B, H, T, S = weights.shape
        factor = factors_of(work, (B, H, T, S), draw)
        return weights if factor is None else weights * factor.astype(weights.dtype)
    return drop


drop = drop_by(by_counter)
