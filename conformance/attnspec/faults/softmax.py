"""Softmax over the wrong axis, without its stabiliser, with another denominator, or gone wrong block by block.

Exponentials are approximated or cut, logits bounded; in blocks, nothing is rescaled, tails are lost or counted. A
diagnosis tries blocks of other sizes, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import BFLOAT16, FLOAT16, round_through, running_sum
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import Array


def _grown_by(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax whose exponentials are changed, given logits (B,H,T,S) less their row's maximum."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S) by the changed exponential; hidden keys weigh nothing."""
        top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
        return sound.normalise(np.where(np.isneginf(logits), 0, change(logits - top)).astype(logits.dtype))
    return softmax


def _polynomial(lowered: Array) -> Array:
    """Exponentials (B,H,T,S) as 2^x by a cubic in the fraction: some 1e-4 off."""
    power = np.maximum(lowered * np.log2(np.e), -126)  # the least exponent of a normal float32
    whole = np.floor(power)
    part = power - whole
    return np.exp2(whole) * (1 + part * (0.6951 + part * (0.2276 + part * 0.0773)))


def _bits(lowered: Array) -> Array:
    """Schraudolph's trick, (B,H,T,S): the exponent field is filled with a linear function, up to some 4 % off."""
    power = np.maximum(lowered * np.log2(np.e), -126)
    whole = np.floor(power)
    return np.exp2(whole) * (1 + power - whole)


def _top(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): all but the 32 largest of a row are dropped."""
    if work.shape[3] <= 32:
        return weights
    least = np.sort(weights, axis=-1)[..., -32, None]
    return sound.normalise(np.where(weights < least, 0, weights))


def _square_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) squared, their signs kept."""
    dots = sound.logits(work, factor)
    return dots * np.abs(dots)


def _cosine(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of queries and keys that are normalised first."""
    query, key = (array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)
                  for array in (work.query, work.key))
    return sound.logits(work.but(query=query, key=key), factor)


def _distance(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) as minus half the squared distance: the keys' norms are left in."""
    return sound.logits(work, factor) - factor * (work.key ** 2).sum(axis=-1)[:, :, None, :] / 2


def _ties(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): among equal largest logits only the first counts."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    is_later = (logits == top) & (np.cumsum(logits == top, axis=-1) > 1)
    return sound.softmax(np.where(is_later, -np.inf, logits).astype(logits.dtype), work)


EXPONENTIAL_FAULTS = (
    Fault("exp_polynomial", Stage.SOFTMAX, "exp by a cubic on the fraction, for speed.",
          "logits that differ", staged(softmax=_grown_by(_polynomial))),
    Fault("exp_bit_trick", Stage.SOFTMAX, "exp by writing into the exponent field, for speed.",
          "logits that differ", staged(softmax=_grown_by(_bits))),
    Fault("exp_oscillating", Stage.SOFTMAX, "exp from a small table without interpolation, off by up to ±1e-4.",
          "logits that differ",
          staged(softmax=_grown_by(lambda lowered: np.exp(lowered) * (1 + 1e-4 * np.sin(100 * lowered))))),
    Fault("exp_zero_below_20", Stage.SOFTMAX, "Exponentials of less than -20 are flushed to zero.",
          "weights below 2e-9 on large values, or read out",
          staged(softmax=_grown_by(lambda lowered: np.where(lowered < -20, 0, np.exp(lowered))))),
    Fault("exp_clamped_at_20", Stage.SOFTMAX, "The argument of exp is clamped at -20, so small weights stay up.",
          "weights below 2e-9 on large values, or read out",
          staged(softmax=_grown_by(lambda lowered: np.exp(np.maximum(lowered, -20))))),
    Fault("weights_top_32", Stage.WEIGHTS, "Only the 32 largest weights are kept.",
          "more than 32 visible keys", staged(weigh=_top)),
    Fault("weights_small_dropped", Stage.WEIGHTS, "Weights below 1e-3 are skipped to save work.",
          "rows with small weights", staged(weigh=lambda weights, _: np.where(weights < 1e-3, 0, weights))),
    Fault("logits_clipped_50", Stage.LOGITS, "Logits are clipped to ±50 against overflow.", "logits beyond 50",
          staged(logits=lambda work, factor: np.clip(sound.logits(work, factor), -50, 50))),
    Fault("logits_squared", Stage.LOGITS, "A sharpening power is left on.",
          "logits other than 0 and ±1", staged(logits=_square_logits)),
    Fault("logits_cosine", Stage.LOGITS,
          "Queries and keys are normalised (QK-norm), although the caller did not ask for it.",
          "queries or keys whose norm is not 1", staged(logits=_cosine)),
    Fault("logits_distance", Stage.LOGITS, "Squared distances are used instead of dot products.",
          "keys of different norms", staged(logits=_distance)),
    Fault("softmax_first_of_ties", Stage.SOFTMAX, "Of keys with the same largest logit, only the first counts.",
          "two keys with the same largest logit", staged(softmax=_ties)),
)


_BELOW = "1e-6 is about what float32 arithmetic inside may lose anyway, and far below the rounding of the output"
_HALVES = {DType.FLOAT16: _BELOW, DType.BFLOAT16: _BELOW}


def _with_softmax(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A `softmax` stage that needs the logits (B,H,T,S) alone."""
    return lambda logits, _: change(logits)


def _softmax_over(axis: int) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) along another axis."""
    def softmax(logits: Array) -> Array:
        """Weights (B,H,T,S) that sum to 1 along `axis`."""
        turned = np.moveaxis(logits, axis, -1)
        return np.moveaxis(sound.normalise(sound.exponentials(turned)), -1, axis)
    return _with_softmax(softmax)


def _stabilised_by(statistic: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with something else than the row's maximum subtracted."""
    return _with_softmax(lambda logits: sound.normalise(np.exp(logits - statistic(logits))))


def _row_mean(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the mean of each row's finite logits."""
    seen = np.isfinite(logits)
    total = np.where(seen, logits, 0).sum(axis=-1, keepdims=True)
    return total / np.maximum(seen.sum(axis=-1, keepdims=True), 1)


def _first_logit(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the first key's logit, 0 where it is hidden."""
    first = logits[..., :1]
    return np.where(np.isneginf(first), 0, first)


def _hidden_maximum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); the maximum is taken before the mask is applied."""
    hidden = np.where(work.visible, logits, -np.inf)
    return sound.normalise(np.exp(hidden - logits.max(axis=-1, keepdims=True, initial=-np.inf)))


def _keep(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with nothing hidden."""
    return logits


def _divided_by(denominator: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with another denominator; rows without a visible key stay zeros."""
    def softmax(logits: Array) -> Array:
        """Exponentials (B,H,T,S) over what `denominator` makes of them."""
        grown = sound.exponentials(logits)
        total = denominator(grown)
        return grown / np.where(total == 0, 1, total)
    return _with_softmax(softmax)


def _plus(number: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with a number added to each row's sum."""
    return _divided_by(lambda grown: grown.sum(axis=-1, keepdims=True) + grown.dtype.type(number))


def _sum(grown: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the sum of each row."""
    return grown.sum(axis=-1, keepdims=True)


def _sink(logits: Array) -> Array:
    """Exp / (1 + sum of exp), (B,H,T,S), as if a key with logit 0 were always there."""
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), 0)
    grown = np.exp(logits - top)
    return grown / (np.exp(-top) + _sum(grown))


def _twice(logits: Array) -> Array:
    """Weights (B,H,T,S) of a softmax over the softmax."""
    once = sound.normalise(sound.exponentials(logits))
    return sound.normalise(sound.exponentials(np.where(np.isneginf(logits), -np.inf, once)))


def _hardmax(logits: Array) -> Array:
    """Weights (B,H,T,S), all of a row's weight on its first largest logit."""
    first = np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[..., None]
    return (first & ~np.isneginf(logits)).astype(logits.dtype)


def _rounded_lse(logits: Array) -> Array:
    """Weights (B,H,T,S) by each row's log of the sum, (B,H,T,1), held in bfloat16."""
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
    lse = top + np.log(np.maximum(_sum(np.exp(logits - top)), np.finfo(logits.dtype).tiny))
    return np.exp(logits - round_through(lse, BFLOAT16))


SOFTMAX_FAULTS = (
    Fault("softmax_over_queries", Stage.SOFTMAX,
          "The softmax runs over the queries, so that columns sum to 1, not rows.",
          "T > 1 or S > 1", staged(softmax=_softmax_over(-2))),
    Fault("softmax_over_heads", Stage.SOFTMAX, "The softmax runs over the heads (dim=1).",
          "H > 1 or S > 1", staged(softmax=_softmax_over(1))),
    Fault("softmax_over_batch", Stage.SOFTMAX, "The softmax runs over the batch (dim=0).",
          "B > 1 or S > 1", staged(softmax=_softmax_over(0))),
    Fault("softmax_without_maximum", Stage.SOFTMAX,
          "exp overflows: the maximum of the logits is not subtracted before it.", "logits above 88, or far below zero",
          staged(softmax=_stabilised_by(lambda logits: np.zeros((), logits.dtype)))),
    Fault("softmax_global_maximum", Stage.SOFTMAX,
          "The maximum of the whole tensor is subtracted, so other rows underflow.",
          "rows whose maxima lie 88 apart", staged(softmax=_stabilised_by(
              lambda logits: np.maximum(logits.max(initial=-np.inf), np.finfo(logits.dtype).min)))),
    Fault("softmax_mean_for_maximum", Stage.SOFTMAX, "The row's mean is subtracted instead of its maximum.",
          "a logit 88 above the mean of its row", staged(softmax=_stabilised_by(_row_mean))),
    Fault("softmax_first_for_maximum", Stage.SOFTMAX, "The first logit of the row is subtracted.",
          "a logit 88 above the first of its row; where the first is hidden, logits 88 away from zero",
          staged(softmax=_stabilised_by(_first_logit))),
    Fault("softmax_maximum_of_hidden", Stage.SOFTMAX, "The maximum is taken before the mask is applied.",
          "a masked logit 88 above the visible ones", staged(hide=_keep, softmax=_hidden_maximum)),
    Fault("softmax_epsilon_1e6", Stage.SOFTMAX, "1e-6 is added to the denominator against division by zero.",
          "float32 or float64", staged(softmax=_plus(1e-6)), equivalents=_HALVES),
    Fault("softmax_epsilon_1e3", Stage.SOFTMAX, "1e-3 is added to the denominator.",
          "any input; seen best on rows with few visible keys", staged(softmax=_plus(1e-3))),
    Fault("softmax_sink", Stage.SOFTMAX, "The softmax has one more key, with logit 0 (softmax1).",
          "logits not far above zero", staged(softmax=_with_softmax(_sink))),
    Fault("softmax_sink_after_shift", Stage.SOFTMAX, "1 is added to the sum after the maximum was subtracted.",
          "any input", staged(softmax=_plus(1.0))),
    Fault("softmax_not_normalised", Stage.SOFTMAX, "The division by the sum of the exponentials is forgotten.", "S > 1",
          staged(softmax=_with_softmax(sound.exponentials))),
    Fault("softmax_divided_by_count", Stage.SOFTMAX,
          "The exponentials are divided by the number of keys, not by their sum.", "S > 1",
          staged(softmax=_divided_by(lambda grown: np.full_like(grown[..., :1], grown.shape[-1])))),
    Fault("softmax_last_key_not_summed", Stage.SOFTMAX, "The sum of the exponentials leaves out the last key.",
          "a visible last key, S > 1", staged(softmax=_divided_by(lambda grown: _sum(grown[..., :-1])))),
    Fault("softmax_approximate_division", Stage.SOFTMAX, "A fast reciprocal without its Newton step, 2e-4 off.",
          "any input", staged(softmax=_divided_by(lambda grown: _sum(grown) * grown.dtype.type(1.0002)))),
    Fault("softmax_sum_in_bfloat16", Stage.SOFTMAX, "The running sum is kept in bfloat16.",
          "S > 1", staged(softmax=_divided_by(lambda grown: running_sum(grown, BFLOAT16)))),
    Fault("softmax_sum_in_float16", Stage.SOFTMAX, "The running sum is kept in float16.",
          "float32 or float64 with S > 1, or long rows",
          staged(softmax=_divided_by(lambda grown: running_sum(grown, FLOAT16)))),
    Fault("softmax_rounded_logsumexp", Stage.SOFTMAX, "exp(x - lse) with lse stored in bfloat16.",
          "any input", staged(softmax=_with_softmax(_rounded_lse))),
    Fault("softmax_base_two", Stage.SOFTMAX, "exp2 is used for exp: the factor log2(e) is forgotten.",
          "logits that differ", staged(softmax=_with_softmax(
              lambda logits: sound.normalise(sound.exponentials(logits * logits.dtype.type(np.log(2))))))),
    Fault("softmax_twice", Stage.SOFTMAX, "The softmax is applied twice.", "S > 1",
          staged(softmax=_with_softmax(_twice))),
    Fault("softmax_sigmoid", Stage.SOFTMAX, "A sigmoid of each logit replaces the softmax.",
          "any input", staged(softmax=_with_softmax(lambda logits: 1 / (1 + np.exp(-logits))))),
    Fault("softmax_hardmax", Stage.SOFTMAX, "Only the key with the highest logit counts.",
          "S > 1, no logit far above the others", staged(softmax=_with_softmax(_hardmax))),
)


SIZE = 16
Factor = Callable[[Array, int], Array]


def _as_it_is(factor: Array, number: int) -> Array:
    """The rescale factor (B,H,T,1) of a block, as it should be."""
    return factor


def _never(factor: Array, number: int) -> Array:
    """No rescaling: a factor (B,H,T,1) of ones."""
    return np.ones_like(factor)


def _first_time(factor: Array, number: int) -> Array:
    """The factor (B,H,T,1) at the second block, ones at all others."""
    return factor if number == 1 else np.ones_like(factor)


@dataclass(frozen=True, slots=True)
class Online:
    """Softmax in one pass over blocks of keys.

    As the output is linear in the values, rescaling an accumulated output is rescaling the weights so far: what is
    returned are the weights in effect. `sum_factor` and `output_factor` see the rescale factor and the block's number;
    `start` is the first running maximum; `guarded` is whether rows that have seen nothing yet are looked after; `size`
    is how many keys a block has; `in_tail` is whether the factors are wrong only at a last block that is shorter.
    """

    sum_factor: Factor = _as_it_is
    output_factor: Factor = _as_it_is
    start: float = -np.inf
    guarded: bool = True
    size: int = SIZE
    in_tail: bool = False

    def __call__(self, logits: Array, work: PreparedCall) -> Array:  # noqa: ARG002  (the stage's signature)
        """(B,H,T,S) logits, hidden ones -inf -> (B,H,T,S) weights."""
        top = np.full((*logits.shape[:-1], 1), self.start, logits.dtype)
        total, weights = np.zeros_like(top), np.zeros_like(logits)
        for number, first in enumerate(range(0, logits.shape[-1], self.size)):
            block = logits[..., first:first + self.size]
            new_top = np.maximum(top, block.max(axis=-1, keepdims=True))
            shift = np.where(np.isneginf(new_top), 0, new_top) if self.guarded else new_top
            grown, factor = np.exp(block - shift), np.exp(top - shift)
            is_sound = self.in_tail and block.shape[-1] == self.size
            of_sum, of_output = (_as_it_is,) * 2 if is_sound else (self.sum_factor, self.output_factor)
            weights[..., :first] *= of_output(factor, number)
            weights[..., first:first + self.size] = grown
            total = total * of_sum(factor, number) + grown.sum(axis=-1, keepdims=True)
            top = new_top
        return weights / np.where(total == 0, 1, total)


def _softmax_without(logits: Array, is_lost: Array) -> Array:
    """Softmax of logits (B,H,T,S) as if the lost keys, (S,), were hidden."""
    return sound.normalise(sound.exponentials(np.where(is_lost, -np.inf, logits).astype(logits.dtype)))


def _tail_dropped(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) without the keys after the last whole block, where there is one."""
    S = work.shape[3]
    return _softmax_without(logits, (np.arange(S) >= S // size * size) & (size < S))


def _of_first_tile(logits: Array, work: PreparedCall, size: int = 64) -> Array:
    """Weights (B,H,T,S) of the first 64 keys alone."""
    return _softmax_without(logits, np.arange(work.shape[3]) >= size)


def _tail_counted(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): the last block is filled up with zero keys, whose logit is 0."""
    padding = -work.shape[3] % size
    filled = np.concatenate([logits, np.zeros((*logits.shape[:-1], padding), logits.dtype)], axis=-1)
    return sound.normalise(sound.exponentials(filled))[..., :work.shape[3]]


def _tail_repeated(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): lanes past the end are clamped to the last key, which is counted again and again."""
    S = work.shape[3]
    times = np.where(np.arange(S) == S - 1, 1 + (-S % size), 1).astype(logits.dtype)
    return sound.normalise(sound.exponentials(logits) * times)


def _blocks(logits: Array, size: int) -> tuple[Array, Array]:
    """Logits (B,H,T,S) filled up to whole blocks, (B,H,T,·,size), and each block's maximum, (B,H,T,·,1)."""
    padding = -logits.shape[-1] % size
    filled = np.pad(logits, [(0, 0)] * 3 + [(0, padding)], constant_values=-np.inf)
    blocks = filled.reshape(*logits.shape[:-1], -1, size)
    return blocks, blocks.max(axis=-1, keepdims=True)


def _join_blocks(blocks: Array, S: int) -> Array:
    """Blocks (B,H,T,·,size) side by side again, (B,H,T,S), without the padding."""
    return blocks.reshape(*blocks.shape[:-2], -1)[..., :S]


def _quiet_skipped(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) without the blocks whose largest logit is more than 8 below the row's."""
    blocks, tops = _blocks(logits, size)
    quiet = tops < tops.max(axis=-2, keepdims=True) - 8
    kept = np.where(quiet, -np.inf, blocks).astype(logits.dtype)
    return sound.normalise(sound.exponentials(_join_blocks(kept, work.shape[3])))


def _average_blocks(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): each block is normalised by itself, and the blocks are averaged."""
    blocks, tops = _blocks(logits, size)
    count = np.maximum((~np.isneginf(tops)).sum(axis=-2, keepdims=True), 1).astype(logits.dtype)
    return _join_blocks(sound.normalise(sound.exponentials(blocks)) / count, work.shape[3])


def _merged_without_maxima(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) merged by the blocks' sums, though each block has its own maximum subtracted."""
    blocks, _ = _blocks(logits, size)
    return sound.normalise(_join_blocks(sound.exponentials(blocks), work.shape[3]))


def _mask_of_first_block(work: PreparedCall, size: int = SIZE) -> Array:
    """The mask (B,H,T,S) in which every block of keys has the columns of the first."""
    allowed = sound.masked(work)
    return np.take(allowed, np.arange(work.shape[3]) % size, axis=-1)


def _late_values(weights: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """The output (B,H,T,Dv) under double buffering: each block but the first meets the values of the block before."""
    positions = np.arange(work.shape[3])
    late = np.where(positions >= size, positions - size, positions)
    return weights @ work.value[:, :, late]


def _rows_of_first_tile(output: Array, work: PreparedCall, size: int = 64) -> Array:
    """The output (B,H,T,Dv) with zeros in all rows after the first 64."""
    return np.where((np.arange(work.shape[2]) >= size)[:, None], 0, output).astype(output.dtype)


_MANY = "S > 16, the largest logit not in the first block"

_RESCALES = {
    "blocks_sum_not_rescaled": Online(sum_factor=_never),
    "blocks_output_not_rescaled": Online(output_factor=_never),
    "blocks_never_rescaled": Online(sum_factor=_never, output_factor=_never),
    "blocks_rescaled_once": Online(sum_factor=_first_time, output_factor=_first_time),
    "blocks_sum_of_last": Online(sum_factor=lambda factor, _: np.zeros_like(factor))}
_OTHER_SIZES = (32, 64, 128)

BLOCK_FAULTS = (
    Fault("blocks_sum_not_rescaled", Stage.BLOCKS, "The running sum is not rescaled when the maximum rises.", _MANY,
          staged(softmax=_RESCALES["blocks_sum_not_rescaled"])),
    Fault("blocks_output_not_rescaled", Stage.BLOCKS, "The running output is not rescaled when the maximum rises.",
          _MANY, staged(softmax=_RESCALES["blocks_output_not_rescaled"])),
    Fault("blocks_never_rescaled", Stage.BLOCKS,
          "Neither the running sum nor the running output is rescaled when the maximum rises.",
          _MANY, staged(softmax=_RESCALES["blocks_never_rescaled"])),
    Fault("blocks_rescaled_once", Stage.BLOCKS, "Running sum and output are rescaled at the second block only.",
          "S > 32, the largest logit beyond the second block", staged(softmax=_RESCALES["blocks_rescaled_once"])),
    Fault("blocks_sum_of_last", Stage.BLOCKS, "The sum starts again at each block; only the last one divides.",
          "S > 16", staged(softmax=_RESCALES["blocks_sum_of_last"])),
    Fault("blocks_start_at_zero", Stage.BLOCKS, "The running maximum starts at 0, not at -inf.",
          "all logits of a row far below zero", staged(softmax=Online(start=0.0))),
    Fault("blocks_hidden_first_nan", Stage.BLOCKS, "A first block without visible keys gives NaN: -inf minus -inf.",
          "a row whose first 16 keys are masked", staged(softmax=Online(guarded=False))),
    Fault("blocks_tail_dropped", Stage.BLOCKS,
          "The keys after the last whole block are lost: there are S // 16 blocks.",
          "S > 16, not a multiple of 16", staged(softmax=_tail_dropped)),
    Fault("blocks_tail_counted", Stage.BLOCKS,
          "The last block is padded with zero keys that are not masked.", "S not a multiple of 16",
          staged(softmax=_tail_counted), link="https://github.com/ggml-org/llama.cpp/pull/29034"),
    Fault("blocks_tail_repeated", Stage.BLOCKS, "Indices past the end are clamped to the last key.",
          "S > 1, not a multiple of 16", staged(softmax=_tail_repeated)),
    Fault("blocks_keys_after_64_lost", Stage.BLOCKS, "Keys after the first 64 are lost: there is one tile only.",
          "S > 64", staged(softmax=_of_first_tile)),
    Fault("blocks_rows_after_64_lost", Stage.BLOCKS, "Rows after the first 64 stay zero: there is one tile only.",
          "T > 64", staged(finish=_rows_of_first_tile)),
    Fault("blocks_quiet_skipped", Stage.BLOCKS, "Blocks 8 below the row's maximum are skipped to save work.",
          "S > 16, a block of low logits with large values or read out", staged(softmax=_quiet_skipped)),
    Fault("blocks_averaged", Stage.BLOCKS, "Each block is normalised by itself and the results averaged.", "S > 16",
          staged(softmax=_average_blocks)),
    Fault("blocks_merged_without_maxima", Stage.BLOCKS, "Split-KV partials are merged by their sums alone.", "S > 16",
          staged(softmax=_merged_without_maxima)),
    Fault("blocks_mask_of_first", Stage.BLOCKS, "The mask's pointer does not move on with the blocks.",
          "S > 16 with a mask", staged(masked=_mask_of_first_block)),
    Fault("blocks_late_values", Stage.BLOCKS,
          "Each block uses the values of the block before it (a barrier is missing).",
          "S > 16", staged(mix=_late_values)),
)

_SIZED: Mapping[str, Mapping[str, Callable[..., Array]]] = {
    "blocks_start_at_zero": {"softmax": Online(start=0.0)},
    "blocks_hidden_first_nan": {"softmax": Online(guarded=False)},
    "blocks_tail_dropped": {"softmax": _tail_dropped}, "blocks_tail_counted": {"softmax": _tail_counted},
    "blocks_tail_repeated": {"softmax": _tail_repeated}, "blocks_keys_after_64_lost": {"softmax": _of_first_tile},
    "blocks_rows_after_64_lost": {"finish": _rows_of_first_tile}, "blocks_quiet_skipped": {"softmax": _quiet_skipped},
    "blocks_averaged": {"softmax": _average_blocks},
    "blocks_merged_without_maxima": {"softmax": _merged_without_maxima},
    "blocks_mask_of_first": {"masked": _mask_of_first_block}, "blocks_late_values": {"mix": _late_values},
    **{name: {"softmax": online} for name, online in _RESCALES.items()}}
"""By name, the stage that goes by a block's size."""
_NUMBER = re.compile(r"\b(16|32|64)\b")  # in a story or a reach: the size, or twice the size


def of_size(size: int) -> tuple[Fault, ...]:
    """The faults of the catalogue with blocks of another size, by the name before the @. Those of rescaling come also
    as they are where a kernel has a path of its own for the last, shorter block.
    """
    whole = (_resize_fault(fault, size, "",
                           {stage: _with_size(step, size) for stage, step in _SIZED[fault.name].items()})
             for fault in BLOCK_FAULTS)
    tails = (_resize_fault(fault, size, "_in_tail",
                           {"softmax": replace(_RESCALES[fault.name], size=size, in_tail=True)})
             for fault in BLOCK_FAULTS if fault.name in _RESCALES and fault.name != "blocks_rescaled_once")
    return (*whole, *tails)


def _resize_fault(fault: Fault, size: int, how: str, stages: Mapping[str, Callable[..., Array]]) -> Fault:
    story, reach = _in_numbers(fault.story, size), _in_numbers(fault.reach, size)
    if how:
        story = f"In the last, shorter block alone: {story[0].lower()}{story[1:]}"
        reach = reach.replace(f"S > {size}", f"S > {size}, not a multiple of {size}")
        reach = reach.replace("not in the first block", "in the last block")
    return replace(fault, name=f"{fault.name}@{size}{how}", story=story, reach=reach, make=staged(**stages))


def _in_numbers(text: str, size: int) -> str:
    """A story or a reach with the numbers of this size."""
    return _NUMBER.sub(lambda found: str(2 * size if found[0] == "32" else size), text)


def _with_size(step: Callable[..., Array], size: int) -> Callable[..., Array]:
    return replace(step, size=size) if isinstance(step, Online) else partial(step, size=size)


OF_OTHER_SIZES: tuple[Fault, ...] = tuple(
    fault for size in _OTHER_SIZES for fault in of_size(size) if fault.name.partition("@")[0] in _RESCALES)
"""Those of rescaling with blocks that are common: a diagnosis tries them unasked."""
