"""Dropout that draws wrongly: what is dropped is shared, repeated, forgotten, or drawn anew in the backward pass."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import cast

import numpy as np

from attnspec.faults.backward import Edit, Edits, as_backward
from attnspec.faults.backward_work import BackwardMethod, BackwardValues
from attnspec.faults.dropout_rate import ANY
from attnspec.faults.dropping import Draw, Shape, by_counter, counted, drop_by, factors_of
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import SOUND, Attend, as_attend, attention, staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

TILE = 16


def _shared(axis: int) -> Draw:
    """The numbers of the first entry of an axis serve all."""
    def draw(seed: int, shape: Shape) -> Array:
        """(B,H,T,S)."""
        return np.broadcast_to(np.take(by_counter(seed, shape), [0], axis=axis), shape)
    return draw


def _repeated(axis: int, period: int = TILE) -> Draw:
    """The numbers repeat along an axis."""
    def draw(seed: int, shape: Shape) -> Array:
        """(B,H,T,S)."""
        return np.take(by_counter(seed, shape), np.arange(shape[axis]) % period, axis=axis)
    return draw


def _by_place(number: Callable[[Array, Array, Array, Array, Shape], Array]) -> Draw:
    """The numbers follow from a counter that is made of the places along each axis."""
    def draw(seed: int, shape: Shape) -> Array:
        """(B,H,T,S)."""
        b, h, i, j = np.ogrid[:shape[0], :shape[1], :shape[2], :shape[3]]
        return counted(seed, np.broadcast_to(number(b, h, i, j, shape), shape))
    return draw


def _tiles_alike(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): each tile of 16 by 16 has the numbers of the first."""
    rows, columns = (np.arange(length) % TILE for length in shape[2:])
    return by_counter(seed, shape)[:, :, rows][..., columns]


def _pairs_of_heads(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): two heads each have the same numbers."""
    return np.take(by_counter(seed, shape), np.arange(shape[1]) // 2 * 2, axis=1)


def _antithetic(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): each odd query has one minus the numbers of the query before."""
    numbers = by_counter(seed, shape)
    before = np.take(numbers, np.arange(shape[2]) // 2 * 2, axis=2)
    return np.where(np.arange(shape[2])[:, None] % 2 == 1, 1 - 2.0**-24 - before, numbers)


def _low_bits(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): a linear generator, whose neighbouring numbers hang together."""
    places = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    return ((seed % 65_536 + places * 75) % 65_537) / 65_537


def _fresh() -> Attend:
    """One that draws anew at each call."""
    calls = count(1)
    return as_attend(lambda call: attention(call.but(
        seed=None if call.seed is None else call.seed + 7919 * next(calls))))


def _after_another() -> Attend:
    """One whose generator is set at the first call, and runs on."""
    state: dict[int, int] = {}

    def seed(given: int) -> int:
        state[given] = state.get(given, -1) + 1
        return given + 7919 * state[given]

    return as_attend(lambda call: attention(call if call.seed is None else call.but(seed=seed(call.seed))))


def _left_on() -> Attend:
    """One that goes on dropping after the first call that asked for it."""
    state: dict[str, float | None] = {}

    def answer(rate: float | None) -> float | None:
        state["rate"] = rate or state.get("rate")
        return state["rate"] if rate is None else rate

    return as_attend(lambda call: attention(call.but(dropout_rate=answer(call.dropout_rate))))


def _by_contents(weights: Array, work: PreparedCall) -> Array:
    """A `drop` stage (B,H,T,S) whose seed is mixed with what the first query holds."""
    mixed = int(np.nan_to_num(np.abs(work.query[0, 0, 0, 0])) * 1000) % 2**31
    return SOUND.drop(weights, work.but(seed=(work.seed or 0) ^ mixed))


def _drop_fault(name: str, story: str, draw: Draw, reach: str = ANY) -> Fault:
    return Fault(f"drop_{name}", Stage.SEED, story, reach, staged(drop=drop_by(draw)))


_SHARED = (
    _drop_fault("alike_in_heads", "All heads drop the same.", _shared(1), "H > 1"),
    _drop_fault("alike_in_batch", "All batch entries drop the same.", _shared(0), "B > 1"),
    _drop_fault("alike_in_queries", "All queries of a head drop the same keys.", _shared(2), "T > 1"),
    _drop_fault("alike_in_keys", "A query keeps all keys, or none.", _shared(3), "S > 1"),
    _drop_fault("alike_in_pairs_of_heads", "Two heads each drop the same, as those that share a key do.",
                _pairs_of_heads, "H > 1"),
    _drop_fault("alike_in_tiles", "The seed's offset is that of a tile: all tiles of 16 by 16 drop the same.",
                _tiles_alike, "T > 16 or S > 16"),
    _drop_fault("repeated_queries", "What is dropped repeats itself after 16 queries.", _repeated(2), "T > 16"),
    _drop_fault("repeated_keys", "What is dropped repeats itself after 16 keys.", _repeated(3), "S > 16"),
    _drop_fault("along_diagonals", "The counter is the sum of the places, not their number.",
                _by_place(lambda b, h, i, j, n: (b * n[1] + h) * (n[2] + n[3]) + i + j), "T > 1 and S > 1"),
    _drop_fault("rows_overlap", "A row's counter begins 16 places behind the row before.",
                _by_place(lambda b, h, i, j, n: (b * n[1] + h) * 10**6 + i * 16 + j), "T > 1 and S > 16"),
    _drop_fault("batch_is_head", "The counter adds the numbers of batch entry and head.",
                _by_place(lambda b, h, i, j, n: ((b + h) * n[2] + i) * n[3] + j), "B > 1 and H > 1"),
    _drop_fault("antithetic", "Each second query draws one minus the numbers of the query before.",
                _antithetic, "T > 1"),
    _drop_fault("linear_generator", "A linear generator draws, whose neighbours hang together.", _low_bits),
    _drop_fault("seeds_overlap", "The counter is the place plus the seed: the next seed drops the same, one place on.",
                lambda seed, shape: counted(1, np.arange(np.prod(shape)).reshape(shape) + seed),
                "two seeds that lie close together"),
    _drop_fault("seed_ignored", "What is dropped is always the same, whatever the seed.",
                lambda _, shape: by_counter(0, shape), "two seeds that differ"),
    _drop_fault("seed_low_bits", "Of the seed 16 bits are read.", lambda seed, shape: by_counter(seed % 2**16, shape),
                "two seeds that differ by a multiple of 2^16"),
)

_AGAIN = "a second call with the same seed"

_STATE = (
    Fault("drop_anew_each_call", Stage.SEED, "The seed is ignored, and each call draws anew.", _AGAIN, _fresh),
    Fault("drop_generator_runs_on", Stage.SEED, "The seed is set once, and the generator runs on.", _AGAIN,
          _after_another),
    Fault("drop_left_on", Stage.SEED, "A module that has dropped once goes on in evaluation.",
          "a call without a rate after one with a rate", _left_on,
          link="https://github.com/facebookresearch/vjepa2/pull/160"),
    Fault("drop_by_contents", Stage.SEED, "What is dropped hangs on what the queries hold.",
          "two calls with one seed and different queries", staged(drop=_by_contents)),
)


def _backward(name: str, story: str, reach: str = "gradients under dropout", link: str = "", **edits: Edit) -> Fault:
    """A fault whose forward pass is sound."""
    made = cast(Edits, edits)  # keywords are spots
    return Fault(f"grad_drop_{name}", Stage.SEED, story, reach, staged(), link,
                 backward=lambda: as_backward(BackwardMethod(), made))


def _other_factor(draw: Draw) -> Edit:
    """An edit of the factors (B,H,T,S), drawn otherwise."""
    def edit(array: Array, known: BackwardValues) -> Array:
        """(B,H,T,S)."""
        B, H, T, S = array.shape
        factor = factors_of(known.taken.call, (B, H, T, S), draw)
        return array if factor is None else factor.astype(array.dtype)
    return edit


def _times_keep(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): what was divided by one minus the rate, and is not."""
    return array * array.dtype.type(1 - (known.taken.call.dropout_rate or 0))


def _turned(seed: int, shape: Shape) -> Array:
    """(B,H,T,S): the numbers with queries and keys exchanged."""
    B, H, T, S = shape
    return by_counter(seed, (B, H, S, T)).swapaxes(-1, -2)


def _of_value_undropped(_: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): the weights before they were dropped."""
    return known.weights


def _scores_dropped(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): dS is dropped once more."""
    return array if known.factor is None else array * known.factor


def _by_rate(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): multiplied by the rate in the place of 1/(1 - rate)."""
    rate = known.taken.call.dropout_rate or 0
    return array * array.dtype.type((1 - rate) * rate)


def _nan_at_one(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): at rate 1, 0 divided by 0."""
    return array * np.nan if known.taken.call.dropout_rate == 1 else array


def _delta_of_kept(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,1): the mean of dP with the weights as they were applied, dropped twice."""
    if known.factor is None:
        return array
    return (known.weights * known.factor * known.products).sum(axis=-1, keepdims=True)


def _undropped(array: Array, known: BackwardValues) -> Array:
    """(B,H,T,S): dP, as if nothing had been dropped."""
    return known.taken.grad @ known.taken.value.swapaxes(-1, -2) if known.factor is not None else array


_OF_BACKWARD = (
    _backward("other_mask", "The backward pass draws anew.", factor=_other_factor(
        lambda seed, shape: by_counter(seed + 1, shape))),
    _backward("offset_forgotten", "The backward pass draws without the offset of heads and batch entries.",
              "gradients under dropout, B·H > 1", factor=_other_factor(
                  lambda seed, shape: np.broadcast_to(by_counter(seed, shape)[:1, :1], shape))),
    _backward("mask_turned", "The backward pass reads what is dropped with queries and keys exchanged.",
              "gradients under dropout, T > 1 and S > 1",
              factor=_other_factor(_turned)),
    _backward("mask_late", "The backward pass reads what is dropped one key on.",
              "gradients under dropout, S > 1",
              factor=lambda array, _: np.roll(array, 1, axis=-1)),
    _backward("none", "The backward pass drops nothing.", factor=lambda array, _: np.ones_like(array)),
    _backward("not_rescaled", "The backward pass does not divide by one minus the rate.", factor=_times_keep),
    _backward("rescaled_by_rate", "The backward pass multiplies by the rate.", factor=_by_rate,
              link="https://github.com/NVIDIA/apex/pull/816"),
    _backward("value_not_dropped", "The value's gradient is formed with all weights.",
              value_weights=_of_value_undropped),
    _backward("value_not_rescaled", "The value's gradient is not divided by one minus the rate.",
              value_weights=_times_keep),
    _backward("products_not_dropped", "dP is formed as if nothing had been dropped.", products=_undropped),
    _backward("products_not_rescaled", "dP is not divided by one minus the rate.", products=_times_keep),
    _backward("scores_dropped", "dS is dropped, too.", wide_scores=_scores_dropped),
    _backward("delta_dropped_twice", "Dropout is applied twice in the row's mean of dP.",
              delta=_delta_of_kept),
    _backward("nan_at_one", "At rate 1 gradients are NaN.", "gradients at a dropout rate of 1", factor=_nan_at_one),
)

FAULTS = (*_SHARED, *_STATE, *_OF_BACKWARD)
