"""Which weights a call drops, drawn in several ways, and correct attentions that compute, and draw, in such ways."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as stage
from attnspec.faults.staged import Attend, around, staged
from attnspec.faults.work import Answer, HandedOver, PreparedCall, wide_dtype
from attnspec.problems.problem import Array

Shape = tuple[int, int, int, int]
Draw = Callable[[int, Shape], Array]
"""From a seed and (B,H,T,S) to numbers in [0, 1), one for each weight."""

TILE = 16
BLOCK = 16


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



def _in_blocks(call: HandedOver) -> Answer:
    """Everything in the dtype of the computation."""
    return _in_one_pass(call, wide_dtype(call.query.dtype))


def _fused(call: HandedOver) -> Answer:
    """Weights meet the values in the dtype of the inputs."""
    return _in_one_pass(call, call.query.dtype)


def _in_one_pass(call: HandedOver, stored: np.dtype[Any]) -> Answer:
    """One pass over blocks of 16 keys, each of which draws its own numbers; the sum is of all weights, and the output
    is multiplied by 1/(1 - rate) at the end.
    """
    work = stage.prepare(call)
    hidden = stage.hide(stage.add_bias(stage.bend(stage.logits(work, stage.scale(work)), work), work), work)
    value, rate = np.where(np.asarray(work.visible.any(axis=-2))[..., None], work.value, 0), call.dropout_rate or 0.0
    B, H, T, S = work.shape
    top = np.full((B, H, T, 1), -np.inf, hidden.dtype)
    total, output = np.zeros_like(top), np.zeros((B, H, T, value.shape[-1]), hidden.dtype)
    for first in range(0, S, BLOCK):
        block = slice(first, min(S, first + BLOCK))
        higher = np.maximum(top, hidden[..., block].max(axis=-1, keepdims=True))
        shift = np.where(np.isneginf(higher), 0, higher)
        grown, factor = np.exp(hidden[..., block] - shift), np.exp(top - shift)
        total = total * factor + grown.sum(axis=-1, keepdims=True)
        kept = (grown * _kept_weights(work, block, rate)).astype(stored).astype(grown.dtype)
        output = output * factor + kept @ value[:, :, block]
        top = higher
    output = output / np.where(total == 0, 1, total) * output.dtype.type(1 / (1 - rate) if rate < 1 else 0)
    return output.astype(call.query.dtype)


def _kept_weights(work: PreparedCall, keys: slice, rate: float) -> Array:
    """(B,H,T,·): which weights of these keys are kept, by their places."""
    B, H, T, S = work.shape
    if not rate:
        return np.ones((), bool)
    rows = np.arange(B * H * T).reshape(B, H, T, 1)
    return counted(work.seed or 0, rows * S + np.arange(S)[keys]) >= rate


FORMULATIONS: tuple[tuple[str, str, Callable[[], Attend], str], ...] = (
    ("dropout_by_counter", "each weight has its place as the counter of a generator", staged(drop=drop_by(by_counter)),
     "G0"),
    ("dropout_by_generator", "one generator of NumPy draws a number for each weight",
     staged(drop=drop_by(by_generator)), "G0"),
    ("dropout_by_tile", "each tile of 16 queries and 16 keys has a generator of its own",
     staged(drop=drop_by(by_tile)), "G0"),
    ("dropout_in_blocks", "one pass over blocks of 16 keys, rescaled at the end", around(_in_blocks), "G0"),
    ("dropout_fused", "the same, with weights in the dtype of the inputs where they meet the values", around(_fused),
     "G1"),
)
"""Name, meaning, maker and grade of each."""
