"""Faults of dropout: what becomes of a weight, or which weights are dropped, also in the backward
pass.

Which weights are dropped is drawn in several ways. Sound formulations compute, and draw, in such
ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, cast

import numpy as np

from attnspec.core.keyword import DROPOUT_POOL, RATE, SEED
from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as sound
from attnspec.faults.backward import BackwardMethod, BackwardValues, Edit, Edits, as_backward
from attnspec.faults.fault import AspectFaults, Fault, Outside, SoundFormulation
from attnspec.faults.staged import SOUND, Attend, around, as_attend, attention, drop, staged
from attnspec.faults.staged_work import Answer, AspectStage, HandedOver, PreparedCall, wide_dtype
from attnspec.problems.problem import Array

Shape = tuple[int, int, int, int]
Draw = Callable[[int, Shape], Array]
"""From a seed and (B,H,T,S) to numbers in [0, 1), one for each weight."""

TILE = 16
BLOCK = 16


def mix_words(words: Array) -> Array:
    """64-bit words of any shape, mixed as by SplitMix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):  # modulo 2^64
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def number_of(words: Array) -> Array:
    """64-bit words of any shape as numbers in [0, 1)."""
    return (words >> np.uint64(40)) * 2.0**-24


def draw_by_counter(seed: int, counters: Array) -> Array:
    """Numbers in [0, 1) by a seed and counters, in the shape of the counters (any shape)."""
    key = mix_words(np.array(seed % 2**64, np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    with np.errstate(over="ignore"):
        return number_of(mix_words(mix_words(counters.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + key))


def by_counter(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), each drawn by the weight's place as a counter."""
    return draw_by_counter(seed, np.arange(np.prod(shape)).reshape(shape))


def by_generator(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), drawn one after the other by NumPy's generator."""
    return np.random.default_rng(seed).random(shape, np.float32)


def by_tile(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), each tile of 16 queries and 16 keys drawn by a generator of its own."""
    numbers = np.empty(shape)
    for b, h in np.ndindex(shape[:2]):
        for i in range(0, shape[2], TILE):
            for j in range(0, shape[3], TILE):
                tile = np.random.default_rng([seed, b, h, i, j]).random((TILE, TILE))
                numbers[b, h, i:i + TILE, j:j + TILE] = tile[:shape[2] - i, :shape[3] - j]
    return numbers


def factors_of(call: KeywordArguments[Array], shape: Shape, draw: Draw = by_counter) -> Array | None:
    """What a call multiplies its weights by, (B,H,T,S); None if it drops nothing."""
    rate = call.dropout_rate
    if not rate:
        return None
    kept = draw(call.seed or 0, shape) >= rate
    return np.where(kept, 1 / (1 - rate) if rate < 1 else 0, 0)


def drop_by(draw: Draw) -> Callable[[Array, KeywordArguments[Array]], Array]:
    """A `drop` stage, whose factors (B,H,T,S) are drawn in this way."""
    def drop(weights: Array, work: KeywordArguments[Array]) -> Array:
        """The weights that meet the values, (B,H,T,S)."""
        B, H, T, S = weights.shape
        factor = factors_of(work, (B, H, T, S), draw)
        return weights if factor is None else weights * factor.astype(weights.dtype)
    return drop


def _in_one_pass(call: HandedOver, stored: np.dtype[Any]) -> Answer:
    """One pass over blocks of 16 keys, each of which draws its own numbers.

    All weights are summed, and the output is multiplied by 1/(1 - rate) at the end.
    """
    work, rate = sound.prepare(call), call.dropout_rate or 0.0
    logits = sound.bend(sound.logits(work, sound.scale(work)), work)
    hidden = sound.hide(sound.add_bias(logits, work), work)
    value = np.where(np.asarray(work.visible.any(axis=-2))[..., None], work.value, 0)
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
    """Which weights of these keys are kept, (B,H,T,·), by their places."""
    B, H, T, S = work.shape
    if not rate:
        return np.ones((), bool)
    rows = np.arange(B * H * T).reshape(B, H, T, 1)
    return draw_by_counter(work.seed or 0, rows * S + np.arange(S)[keys]) >= rate


FORMULATIONS = (
    SoundFormulation("dropout_by_counter", "each weight has its place as the counter of a generator",
                     staged(drop=drop_by(by_counter)), DROPOUT_POOL),
    SoundFormulation("dropout_by_generator", "one generator of NumPy draws a number for each weight",
                     staged(drop=drop_by(by_generator)), DROPOUT_POOL),
    SoundFormulation("dropout_by_tile", "each tile of 16 queries and 16 keys has a generator of its own",
                     staged(drop=drop_by(by_tile)), DROPOUT_POOL),
    SoundFormulation("dropout_in_blocks", "one pass over blocks of 16 keys, rescaled at the end",
                     around(lambda call: _in_one_pass(call, wide_dtype(call.query.dtype))), DROPOUT_POOL),
    SoundFormulation("dropout_fused", "the same, with weights in the dtype of the inputs where they meet the values",
                     around(lambda call: _in_one_pass(call, call.query.dtype)), DROPOUT_POOL, grade="G1"),
)


class DropoutStage(AspectStage):
    """Dropout as attention computes it: each weight draws by its place."""

    def weight_factors(self, call: KeywordArguments[Array], shape: Shape) -> Array | None:
        """The factors (B,H,T,S), as `shape`: 0 or 1/(1 - rate); None without dropout."""
        return factors_of(call, shape)


STAGE = DropoutStage()

Gain = Callable[[float], float]
Drop = Callable[[Array, PreparedCall], Array]


def uniform(work: PreparedCall, weights: Array) -> Array:
    """Numbers in [0, 1) in the shape of the weights, (B,H,T,S)."""
    B, H, T, S = weights.shape
    return by_counter(work.seed or 0, (B, H, T, S))


def _drop(gain: Gain, chance: Gain = lambda rate: rate) -> Drop:
    """A `drop` stage with another factor of what is kept, or another chance of being dropped."""
    def drop(weights: Array, work: PreparedCall) -> Array:
        """The weights that meet the values, (B,H,T,S)."""
        if not (rate := work.dropout_rate):
            return weights
        kept = uniform(work, weights) >= chance(rate)
        return np.where(kept & (rate < 1), weights * weights.dtype.type(gain(min(rate, 0.999))), 0)
    return drop


def _rescaling_factor(rate: float) -> float:
    return 1 / (1 - rate)


def _before_softmax(logits: Array, work: PreparedCall) -> Array:
    """The weights (B,H,T,S) of logits of which some are dropped: each row sums to one again."""
    if not (rate := work.dropout_rate):
        return sound.softmax(logits, work)
    kept = uniform(work, logits) >= rate
    return sound.softmax(np.where(kept, logits, -np.inf).astype(logits.dtype), work)


def _logits_to_zero(logits: Array, work: PreparedCall) -> Array:
    """The weights (B,H,T,S) of logits of which some become 0, while the others grow."""
    if not (rate := work.dropout_rate) or rate == 1:
        return sound.softmax(logits, work)
    kept = uniform(work, logits) >= rate
    return sound.softmax(np.where(kept, logits * logits.dtype.type(_rescaling_factor(rate)), 0), work)


def _normalise_kept(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), of which those that are kept sum to one."""
    if not (rate := work.dropout_rate):
        return weights
    return sound.normalise(np.where(uniform(work, weights) >= rate, weights, 0))


def _of_output(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), with some entries dropped."""
    if not (rate := work.dropout_rate):
        return output
    kept = draw_by_counter(work.seed or 0, np.arange(output.size).reshape(output.shape)) >= rate
    return np.where(kept & (rate < 1), output * output.dtype.type(_rescaling_factor(min(rate, 0.999))), 0)


def _of_values(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), of values with some entries dropped."""
    if not (rate := work.dropout_rate):
        return sound.mix(weights, work)
    kept = draw_by_counter(work.seed or 0, np.arange(work.value.size).reshape(work.value.shape)) >= rate
    grown = work.value * work.value.dtype.type(_rescaling_factor(min(rate, 0.999)))
    return sound.mix(weights, work.but(value=np.where(kept & (rate < 1), grown, 0)))


def _nan_at_one(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), 0/0 at a rate of 1."""
    if not (rate := work.dropout_rate):
        return weights
    kept = (uniform(work, weights) >= rate).astype(weights.dtype)
    return weights * (kept / weights.dtype.type(1 - rate))


def _default_at_zero(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), dropped at a default rate of 0.1 if the rate is 0."""
    return drop(weights, work.but(dropout_rate=0.1) if work.dropout_rate == 0 else work)


def _coarse(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), with a factor that is rounded to eight bits."""
    if not (rate := work.dropout_rate):
        return weights
    gain = np.round(_rescaling_factor(min(rate, 0.999)) * 128) / 128 * (1 - 2.0**-5)
    return np.where((uniform(work, weights) >= rate) & (rate < 1), weights * weights.dtype.type(gain), 0)


def _small_kept(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), of which only those above the row's mean are dropped."""
    dropped = drop(weights, work)
    if not work.dropout_rate or work.dropout_rate == 1:
        return dropped
    mean = weights.mean(axis=-1, keepdims=True)
    return np.where(weights > mean, dropped, weights * weights.dtype.type(_rescaling_factor(work.dropout_rate)))


def _largest_kept(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), of which the largest of a row is never dropped."""
    dropped = drop(weights, work)
    if not work.dropout_rate or work.dropout_rate == 1:
        return dropped
    is_top = weights == weights.max(axis=-1, keepdims=True)
    return np.where(is_top, weights * weights.dtype.type(_rescaling_factor(work.dropout_rate)), dropped)


_ABOVE = "a dropout rate above 0"
_ANY = f"{_ABOVE} and below 1"


def _fault(name: str, story: str, reach: str = _ANY, **stages: Callable[..., Array]) -> Fault:
    return Fault(f"drop_{name}", RATE, story, reach, staged(**stages))


_OF_RATES = (
    _fault("not_rescaled", "What is kept is not divided by one minus the rate.", drop=_drop(lambda _: 1.0)),
    _fault("rescaled_twice", "What is kept is divided in the kernel and after it.",
           drop=_drop(lambda rate: _rescaling_factor(rate) ** 2)),
    _fault("rescaled_by_rate", "What is kept is divided by the rate.",
           "a rate other than 0, 1/2 and 1", drop=_drop(lambda rate: 1 / rate)),
    _fault("multiplied_by_keep", "What is kept is multiplied by one minus the rate, as evaluation once was.",
           drop=_drop(lambda rate: 1 - rate)),
    _fault("gain_off", "The factor of what is kept is a hundredth too small.",
           drop=_drop(lambda rate: _rescaling_factor(rate) * 0.99)),
    _fault("gain_coarse", "The factor of what is kept is about 3 % too small, as from a coarse table.", drop=_coarse),
    _fault("rate_is_keep", "The rate is taken for the probability of being kept.", "a rate other than 0, 1/2 and 1",
           drop=_drop(lambda rate: 1 / rate, lambda rate: 1 - rate)),
    _fault("rate_is_keep_unscaled", "Weights are dropped with one minus the rate, and scaled for the rate.",
           "a rate other than 0, 1/2 and 1", drop=_drop(_rescaling_factor, lambda rate: 1 - rate)),
    _fault("rate_halved", "Half as many are dropped as should be, and the others scaled for the rate.",
           drop=_drop(_rescaling_factor, lambda rate: rate / 2)),
    _fault("rate_a_tenth", "A tenth is dropped whatever the rate, and the rest scaled for the rate.",
           "a rate other than 0, 0.1 and 1", drop=_drop(_rescaling_factor, lambda _: 0.1)),
    _fault("rate_off", "Of 256 draws eight more are dropped than should be.",
           drop=_drop(_rescaling_factor, lambda rate: rate + 8 / 256)),
    _fault("before_softmax", "Logits are dropped before the softmax, which makes the rest sum to one.",
           softmax=_before_softmax, drop=lambda weights, _: weights),
    _fault("logits_to_zero", "Logits are dropped before the softmax, to 0.",
           _ABOVE, softmax=_logits_to_zero, drop=lambda weights, _: weights),
    _fault("renormalised", "What is kept is divided by its sum.", drop=_normalise_kept),
    _fault("ignored", "The rate is accepted and nothing is dropped.", _ABOVE, drop=lambda weights, _: weights),
    _fault("on_output", "The output is dropped, not the weights.", drop=lambda weights, _: weights, finish=_of_output),
    _fault("on_values", "The values are dropped, not the weights.", drop=lambda weights, _: weights, mix=_of_values),
    _fault("on_output_too", "The output is dropped besides the weights.",
           mix=lambda weights, work: _of_output(sound.mix(weights, work), work)),
    _fault("nan_at_one", "At rate 1 what is kept, nothing, is divided by 0.", "a dropout rate of 1", drop=_nan_at_one),
    _fault("one_keeps_all", "A rate of 1 drops nothing.", "a dropout rate of 1",
           drop=lambda weights, work: weights if work.dropout_rate == 1 else drop(weights, work)),
    _fault("default_at_zero", "A rate of 0 is taken for none, and the default is a tenth.",
           "a dropout rate of 0", drop=_default_at_zero),
    _fault("small_kept", "Weights below the row's mean are never dropped.", drop=_small_kept),
    _fault("largest_kept", "The largest weight of a row is never dropped.", drop=_largest_kept),
)


def _share_first_entry(axis: int) -> Draw:
    """Numbers that are the same for all entries along an axis."""
    def draw(seed: int, shape: Shape) -> Array:
        """Numbers (B,H,T,S)."""
        return np.broadcast_to(np.take(by_counter(seed, shape), [0], axis=axis), shape)
    return draw


def _repeat_along(axis: int) -> Draw:
    """The numbers repeat themselves along an axis, after a tile."""
    def draw(seed: int, shape: Shape) -> Array:
        """Numbers (B,H,T,S)."""
        return np.take(by_counter(seed, shape), np.arange(shape[axis]) % TILE, axis=axis)
    return draw


def _by_place(number: Callable[[Array, Array, Array, Array, Shape], Array]) -> Draw:
    """Numbers drawn by a counter that is made of the places along each axis."""
    def draw(seed: int, shape: Shape) -> Array:
        """Numbers (B,H,T,S)."""
        b, h, i, j = np.ogrid[:shape[0], :shape[1], :shape[2], :shape[3]]
        return draw_by_counter(seed, np.broadcast_to(number(b, h, i, j, shape), shape))
    return draw


def _tiles_alike(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), the same in each tile of 16 by 16."""
    rows, columns = (np.arange(length) % TILE for length in shape[2:])
    return by_counter(seed, shape)[:, :, rows][..., columns]


def _antithetic(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), those of each odd query one minus those of the query before."""
    numbers = by_counter(seed, shape)
    before = np.take(numbers, np.arange(shape[2]) // 2 * 2, axis=2)
    return np.where(np.arange(shape[2])[:, None] % 2 == 1, 1 - 2.0**-24 - before, numbers)


def _low_bits(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S) of a linear generator, whose neighbours are related."""
    places = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    return ((seed % 65_536 + places * 75) % 65_537) / 65_537


def _fresh() -> Attend:
    """A function that draws anew at each call."""
    calls = count(1)

    def answer(call: HandedOver) -> Answer:
        return attention(call if call.seed is None else call.but(seed=call.seed + 7919 * next(calls)))

    return as_attend(answer)


def _after_another() -> Attend:
    """A function whose generator is set at the first call, and runs on."""
    calls: dict[int, int] = {}

    def answer(call: HandedOver) -> Answer:
        if call.seed is None:
            return attention(call)
        calls[call.seed] = calls.get(call.seed, -1) + 1
        return attention(call.but(seed=call.seed + 7919 * calls[call.seed]))

    return as_attend(answer)


def _left_on() -> Attend:
    """A function that goes on dropping after the first call that asked for it."""
    last: list[float | None] = [None]

    def answer(call: HandedOver) -> Answer:
        last[0] = call.dropout_rate or last[0]
        return attention(call.but(dropout_rate=last[0]) if call.dropout_rate is None else call)

    return as_attend(answer)


def _by_contents(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), dropped by a seed that is mixed with an entry of the query."""
    mixed = int(np.nan_to_num(np.abs(work.query[0, 0, 0, 0])) * 1000) % 2**31
    return SOUND.drop(weights, work.but(seed=(work.seed or 0) ^ mixed))


def _drop_fault(name: str, story: str, draw: Draw, reach: str = _ANY) -> Fault:
    return Fault(f"drop_{name}", SEED, story, reach, staged(drop=drop_by(draw)))


_SHARED = (
    _drop_fault("alike_in_heads", "All heads drop the same.", _share_first_entry(1), "H > 1"),
    _drop_fault("alike_in_batch", "All batch entries drop the same.", _share_first_entry(0), "B > 1"),
    _drop_fault("alike_in_queries", "All queries of a head drop the same keys.", _share_first_entry(2), "T > 1"),
    _drop_fault("alike_in_keys", "A query keeps all keys, or none.", _share_first_entry(3), "S > 1"),
    _drop_fault("alike_in_pairs_of_heads", "Two heads each drop the same, as those that share a key do.",
                lambda seed, shape: np.take(by_counter(seed, shape), np.arange(shape[1]) // 2 * 2, axis=1), "H > 1"),
    _drop_fault("alike_in_tiles", "The seed's offset is that of a tile: all tiles of 16 by 16 drop the same.",
                _tiles_alike, "T > 16 or S > 16"),
    _drop_fault("repeated_queries", "What is dropped repeats itself after 16 queries.", _repeat_along(2), "T > 16"),
    _drop_fault("repeated_keys", "What is dropped repeats itself after 16 keys.", _repeat_along(3), "S > 16"),
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
                lambda seed, shape: draw_by_counter(1, np.arange(np.prod(shape)).reshape(shape) + seed),
                "two seeds that lie close together"),
    _drop_fault("seed_ignored", "What is dropped is always the same, whatever the seed.",
                lambda _, shape: by_counter(0, shape), "two seeds that differ"),
    _drop_fault("seed_low_bits", "Of the seed 16 bits are read.", lambda seed, shape: by_counter(seed % 2**16, shape),
                "two seeds that differ by a multiple of 2^16"),
)

_AGAIN = "a second call with the same seed"

_STATE = (
    Fault("drop_anew_each_call", SEED, "The seed is ignored, and each call draws anew.", _AGAIN, _fresh),
    Fault("drop_generator_runs_on", SEED, "The seed is set once, and the generator runs on.", _AGAIN, _after_another),
    Fault("drop_left_on", SEED, "A module that has dropped once goes on in evaluation.",
          "a call without a rate after one with a rate", _left_on),
    Fault("drop_by_contents", SEED, "What is dropped hangs on what the queries hold.",
          "two calls with one seed and different queries", staged(drop=_by_contents)),
)


def _backward(name: str, story: str, reach: str = "gradients under dropout", **edits: Edit) -> Fault:
    """A fault of the backward pass under dropout, beside a sound forward pass."""
    made = cast(Edits, edits)  # keywords are spots
    return Fault(f"grad_drop_{name}", SEED, story, reach, staged(),
                 backward=lambda: as_backward(BackwardMethod(), made))


def _other_factor(draw: Draw) -> Edit:
    """An edit of the factors (B,H,T,S), which draws them in another way."""
    def edit(array: Array, known: BackwardValues) -> Array:
        """The factors (B,H,T,S)."""
        B, H, T, S = array.shape
        factor = factors_of(known.taken.call, (B, H, T, S), draw)
        return array if factor is None else factor.astype(array.dtype)
    return edit


def _times_keep(array: Array, known: BackwardValues) -> Array:
    """An array (B,H,T,S), multiplied by one minus the rate."""
    return array * array.dtype.type(1 - (known.taken.call.dropout_rate or 0))


def _exchange_places(seed: int, shape: Shape) -> Array:
    """Numbers (B,H,T,S), with queries and keys exchanged."""
    B, H, T, S = shape
    return by_counter(seed, (B, H, S, T)).swapaxes(-1, -2)


def _by_rate(array: Array, known: BackwardValues) -> Array:
    """An array (B,H,T,S) with a factor of the rate in place of 1/(1 - rate)."""
    rate = known.taken.call.dropout_rate or 0
    return array * array.dtype.type((1 - rate) * rate)


def _delta_of_kept(array: Array, known: BackwardValues) -> Array:
    """The mean of dP, (B,H,T,1), with weights that are dropped twice."""
    if known.factor is None:
        return array
    return (known.weights * known.factor * known.products).sum(axis=-1, keepdims=True)


def _products_undropped(array: Array, known: BackwardValues) -> Array:
    """The products dP (B,H,T,S), as if nothing had been dropped."""
    if known.factor is None:
        return array
    return known.taken.grad @ known.taken.value.swapaxes(-1, -2)


_OF_BACKWARD = (
    _backward("other_mask", "The backward pass draws anew.", factor=_other_factor(
        lambda seed, shape: by_counter(seed + 1, shape))),
    _backward("offset_forgotten", "The backward pass draws without the offset of heads and batch entries.",
              "gradients under dropout, B·H > 1", factor=_other_factor(
                  lambda seed, shape: np.broadcast_to(by_counter(seed, shape)[:1, :1], shape))),
    _backward("mask_turned", "The backward pass reads what is dropped with queries and keys exchanged.",
              "gradients under dropout, T > 1 and S > 1", factor=_other_factor(_exchange_places)),
    _backward("mask_late", "The backward pass reads what is dropped one key on.", "gradients under dropout, S > 1",
              factor=lambda array, _: np.roll(array, 1, axis=-1)),
    _backward("none", "The backward pass drops nothing.", factor=lambda array, _: np.ones_like(array)),
    _backward("not_rescaled", "The backward pass does not divide by one minus the rate.", factor=_times_keep),
    _backward("rescaled_by_rate", "The backward pass multiplies by the rate.", factor=_by_rate),
    _backward("value_not_dropped", "The value's gradient is formed with all weights.",
              value_weights=lambda _, known: known.weights),
    _backward("value_not_rescaled", "The value's gradient is not divided by one minus the rate.",
              value_weights=_times_keep),
    _backward("products_not_dropped", "dP is formed as if nothing had been dropped.", products=_products_undropped),
    _backward("products_not_rescaled", "dP is not divided by one minus the rate.", products=_times_keep),
    _backward("scores_dropped", "dS is dropped, too.",
              wide_scores=lambda array, known: array if known.factor is None else array * known.factor),
    _backward("delta_dropped_twice", "Dropout is applied twice in the row's mean of dP.", delta=_delta_of_kept),
    _backward("nan_at_one", "At rate 1 gradients are NaN.", "gradients at a dropout rate of 1",
              factor=lambda array, known: array * np.nan if known.taken.call.dropout_rate == 1 else array),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {"dropout": {
    "Dao-AILab/flash-attention/issues/2088": "drop_seed_ignored",
    "Dao-AILab/flash-attention/pull/2439": "drop_alike_in_tiles drop_repeated_keys",
    "pytorch/pytorch/pull/197563": "grad_drop_other_mask",
    "aws-neuron/nki-samples/pull/80": "drop_renormalised",
    "PaddlePaddle/Parakeet/pull/75": "drop_before_softmax drop_logits_to_zero",
    "zhouhaoyi/Informer2020/issues/97": "drop_ignored",
}}

MISTAKES = AspectFaults(about={RATE: _OF_RATES, SEED: (*_SHARED, *_STATE, *_OF_BACKWARD)}, bugs=_BUGS,
                        sound=FORMULATIONS)
