"""Faults of the softmax: it has a wrong axis, no stabiliser, or another denominator, or fails
block by block.

Other faults approximate or cut off exponentials, or bound logits. Faults of blocks are made for
further sizes of a block, too: a diagnosis tries these.
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


def _with_exponential(exponential: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax with another exponential of logits (B,H,T,S) less their maxima."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S); hidden keys weigh nothing."""
        top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
        grown = np.where(np.isneginf(logits), 0, exponential(logits - top))
        return sound.normalise(grown.astype(logits.dtype))
    return softmax


def _polynomial(lowered: Array) -> Array:
    """2^x by a cubic in the fraction of x, (B,H,T,S): off by some 1e-4."""
    power = np.maximum(lowered * np.log2(np.e), -126)  # the least exponent of a normal float32
    whole = np.floor(power)
    part = power - whole
    return np.exp2(whole) * (1 + part * (0.6951 + part * (0.2276 + part * 0.0773)))


def _bits(lowered: Array) -> Array:
    """Schraudolph's trick, (B,H,T,S): a linear function fills the exponent; up to 4 % off."""
    power = np.maximum(lowered * np.log2(np.e), -126)
    whole = np.floor(power)
    return np.exp2(whole) * (1 + power - whole)


def _keep_largest(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), of which the 32 largest of each row are kept."""
    if work.shape[3] <= 32:
        return weights
    least = np.sort(weights, axis=-1)[..., -32, None]
    return sound.normalise(np.where(weights < least, 0, weights))


def _square_logits(work: PreparedCall, factor: float) -> Array:
    """The squares of the logits (B,H,T,S), with the logits' signs."""
    dots = sound.logits(work, factor)
    return dots * np.abs(dots)


def _cosine(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of queries and keys that are divided by their norms first."""
    query, key = (array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)
                  for array in (work.query, work.key))
    return sound.logits(work.but(query=query, key=key), factor)


def _distance(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) less half the square of each key's norm: nearer keys weigh more."""
    return sound.logits(work, factor) - factor * (work.key ** 2).sum(axis=-1)[:, :, None, :] / 2


def _count_first_of_ties(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): of keys with the same largest logit, only the first counts."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    is_later = (logits == top) & (np.cumsum(logits == top, axis=-1) > 1)
    return sound.softmax(np.where(is_later, -np.inf, logits).astype(logits.dtype), work)


EXPONENTIAL_FAULTS = (
    Fault("exp_polynomial", Stage.SOFTMAX, "exp by a cubic on the fraction, for speed.",
          "logits that differ", staged(softmax=_with_exponential(_polynomial))),
    Fault("exp_bit_trick", Stage.SOFTMAX, "exp by writing into the exponent field, for speed.",
          "logits that differ", staged(softmax=_with_exponential(_bits))),
    Fault("exp_oscillating", Stage.SOFTMAX, "exp from a small table without interpolation, off by up to ±1e-4.",
          "logits that differ",
          staged(softmax=_with_exponential(lambda lowered: np.exp(lowered) * (1 + 1e-4 * np.sin(100 * lowered))))),
    Fault("exp_zero_below_20", Stage.SOFTMAX, "Exponentials of less than -20 are flushed to zero.",
          "weights below 2e-9 on large values, or read out",
          staged(softmax=_with_exponential(lambda lowered: np.where(lowered < -20, 0, np.exp(lowered))))),
    Fault("exp_clamped_at_20", Stage.SOFTMAX, "The argument of exp is clamped at -20, so small weights stay up.",
          "weights below 2e-9 on large values, or read out",
          staged(softmax=_with_exponential(lambda lowered: np.exp(np.maximum(lowered, -20))))),
    Fault("weights_top_32", Stage.WEIGHTS, "Only the 32 largest weights are kept.",
          "more than 32 visible keys", staged(weigh=_keep_largest)),
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
          "two keys with the same largest logit", staged(softmax=_count_first_of_ties)),
)


_BELOW = "1e-6 is about what float32 arithmetic inside may lose anyway, and far below the rounding of the output"
_HALVES = {DType.FLOAT16: _BELOW, DType.BFLOAT16: _BELOW}


def _with_softmax(softmax: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A `softmax` stage that needs nothing but the logits (B,H,T,S)."""
    return lambda logits, _: softmax(logits)


def _softmax_over(axis: int) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) along another axis."""
    def softmax(logits: Array) -> Array:
        """Weights (B,H,T,S) whose sums along `axis` are 1."""
        turned = np.moveaxis(logits, axis, -1)
        return np.moveaxis(sound.normalise(sound.exponentials(turned)), -1, axis)
    return _with_softmax(softmax)


def _stabilised_by(statistic: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) that subtracts a statistic of them, not the row's maximum."""
    return _with_softmax(lambda logits: sound.normalise(np.exp(logits - statistic(logits))))


def _row_mean(logits: Array) -> Array:
    """The mean of each row's finite logits: (B,H,T,S) -> (B,H,T,1)."""
    seen = np.isfinite(logits)
    total = np.where(seen, logits, 0).sum(axis=-1, keepdims=True)
    return total / np.maximum(seen.sum(axis=-1, keepdims=True), 1)


def _first_logit(logits: Array) -> Array:
    """The first key's logit, or 0 where that key is hidden: (B,H,T,S) -> (B,H,T,1)."""
    first = logits[..., :1]
    return np.where(np.isneginf(first), 0, first)


def _hidden_maximum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) less a maximum that hidden keys have a part in."""
    hidden = np.where(work.visible, logits, -np.inf)
    return sound.normalise(np.exp(hidden - logits.max(axis=-1, keepdims=True, initial=-np.inf)))


def _hide_nothing(logits: Array, work: PreparedCall) -> Array:
    """The logits (B,H,T,S) as they are."""
    return logits


def _divided_by(denominator: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with another divisor; rows without visible keys stay 0."""
    def softmax(logits: Array) -> Array:
        """The exponentials (B,H,T,S), divided."""
        grown = sound.exponentials(logits)
        total = denominator(grown)
        return grown / np.where(total == 0, 1, total)
    return _with_softmax(softmax)


def _add_to_sum(number: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) that adds a number to each row's sum."""
    return _divided_by(lambda grown: _sum(grown) + grown.dtype.type(number))


def _sum(grown: Array) -> Array:
    """The sum of each row: (B,H,T,S) -> (B,H,T,1)."""
    return grown.sum(axis=-1, keepdims=True)


def _sink(logits: Array) -> Array:
    """Weights (B,H,T,S) as if every row had one more key, with logit 0."""
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), 0)
    grown = np.exp(logits - top)
    return grown / (np.exp(-top) + _sum(grown))


def _twice(logits: Array) -> Array:
    """The softmax of the softmax, (B,H,T,S)."""
    once = sound.normalise(sound.exponentials(logits))
    return sound.normalise(sound.exponentials(np.where(np.isneginf(logits), -np.inf, once)))


def _hardmax(logits: Array) -> Array:
    """Weights (B,H,T,S): 1 for the first of a row's largest logits, 0 for all others."""
    first = np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[..., None]
    return (first & ~np.isneginf(logits)).astype(logits.dtype)


def _rounded_lse(logits: Array) -> Array:
    """Weights (B,H,T,S) by each row's log-sum-exp, (B,H,T,1), which is stored in bfloat16."""
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
          "exp overflows: the maximum of the logits is not subtracted before it.",
          "logits above 88, or far below zero",
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
          "a masked logit 88 above the visible ones", staged(hide=_hide_nothing, softmax=_hidden_maximum)),
    Fault("softmax_epsilon_1e6", Stage.SOFTMAX, "1e-6 is added to the denominator against division by zero.",
          "float32 or float64", staged(softmax=_add_to_sum(1e-6)), equivalents=_HALVES),
    Fault("softmax_epsilon_1e3", Stage.SOFTMAX, "1e-3 is added to the denominator.",
          "any input; seen best on rows with few visible keys", staged(softmax=_add_to_sum(1e-3))),
    Fault("softmax_sink", Stage.SOFTMAX, "The softmax has one more key, with logit 0 (softmax1).",
          "logits not far above zero", staged(softmax=_with_softmax(_sink))),
    Fault("softmax_sink_after_shift", Stage.SOFTMAX, "1 is added to the sum after the maximum was subtracted.",
          "any input", staged(softmax=_add_to_sum(1.0))),
    Fault("softmax_not_normalised", Stage.SOFTMAX,
          "The division by the sum of the exponentials is forgotten.", "S > 1",
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


def _rescale(factor: Array, number: int) -> Array:
    """The rescale factor (B,H,T,1) of a block, as it should be."""
    return factor


def _rescale_never(factor: Array, number: int) -> Array:
    """A factor (B,H,T,1) of ones."""
    return np.ones_like(factor)


def _rescale_once(factor: Array, number: int) -> Array:
    """The factor (B,H,T,1) at the second block, ones at all others."""
    return factor if number == 1 else np.ones_like(factor)


@dataclass(frozen=True, slots=True)
class Online:
    """A softmax in one pass over blocks of keys.

    The output is linear in the values, so that rescaling the output so far is rescaling the
    weights so far. The weights in effect are returned.

    sum_factor, output_factor: the factor in use, from a block's rescale factor and number.  start:
    the first running maximum.  guarded: whether rows that have seen no key yet are looked after.
    size: keys in a block.  in_tail: whether the factors are wrong only at a last block that is
    shorter.
    """

    sum_factor: Factor = _rescale
    output_factor: Factor = _rescale
    start: float = -np.inf
    guarded: bool = True
    size: int = SIZE
    in_tail: bool = False

    def __call__(self, logits: Array, work: PreparedCall) -> Array:  # noqa: ARG002  (the stage's signature)
        """Logits (B,H,T,S), hidden ones -inf -> weights (B,H,T,S)."""
        top = np.full((*logits.shape[:-1], 1), self.start, logits.dtype)
        total, weights = np.zeros_like(top), np.zeros_like(logits)
        for number, first in enumerate(range(0, logits.shape[-1], self.size)):
            block = logits[..., first:first + self.size]
            new_top = np.maximum(top, block.max(axis=-1, keepdims=True))
            shift = np.where(np.isneginf(new_top), 0, new_top) if self.guarded else new_top
            grown, factor = np.exp(block - shift), np.exp(top - shift)
            sum_factor, output_factor = self.sum_factor, self.output_factor
            if self.in_tail and block.shape[-1] == self.size:
                sum_factor = output_factor = _rescale
            weights[..., :first] *= output_factor(factor, number)
            weights[..., first:first + self.size] = grown
            total = total * sum_factor(factor, number) + grown.sum(axis=-1, keepdims=True)
            top = new_top
        return weights / np.where(total == 0, 1, total)


def _softmax_without(logits: Array, is_lost: Array) -> Array:
    """The softmax of logits (B,H,T,S) as if the lost keys, (S,), were hidden."""
    return sound.normalise(sound.exponentials(np.where(is_lost, -np.inf, logits).astype(logits.dtype)))


def _tail_dropped(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) without the keys behind the last whole block, if one is whole."""
    S = work.shape[3]
    return _softmax_without(logits, (np.arange(S) >= S // size * size) & (size < S))


def _keep_first_tile(logits: Array, work: PreparedCall, size: int = 64) -> Array:
    """Weights (B,H,T,S) of the first tile of keys alone."""
    return _softmax_without(logits, np.arange(work.shape[3]) >= size)


def _tail_counted(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): keys of zeros, whose logit is 0, are counted in the last block."""
    padding = -work.shape[3] % size
    filled = np.concatenate([logits, np.zeros((*logits.shape[:-1], padding), logits.dtype)], axis=-1)
    return sound.normalise(sound.exponentials(filled))[..., :work.shape[3]]


def _tail_repeated(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): places behind the end are read, and counted, as the last key."""
    S = work.shape[3]
    times = np.where(np.arange(S) == S - 1, 1 + (-S % size), 1).astype(logits.dtype)
    return sound.normalise(sound.exponentials(logits) * times)


def _blocks(logits: Array, size: int) -> tuple[Array, Array]:
    """Logits cut into whole blocks, (B,H,T,·,size), and each block's maximum, (B,H,T,·,1)."""
    padding = -logits.shape[-1] % size
    filled = np.pad(logits, [(0, 0)] * 3 + [(0, padding)], constant_values=-np.inf)
    blocks = filled.reshape(*logits.shape[:-1], -1, size)
    return blocks, blocks.max(axis=-1, keepdims=True)


def _join_blocks(blocks: Array, S: int) -> Array:
    """Blocks (B,H,T,·,size), side by side without the padding, (B,H,T,S)."""
    return blocks.reshape(*blocks.shape[:-2], -1)[..., :S]


def _skip_quiet_blocks(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) without the blocks whose largest logit is more than 8 below the row's."""
    blocks, tops = _blocks(logits, size)
    quiet = tops < tops.max(axis=-2, keepdims=True) - 8
    kept = np.where(quiet, -np.inf, blocks).astype(logits.dtype)
    return sound.normalise(sound.exponentials(_join_blocks(kept, work.shape[3])))


def _average_blocks(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): each block is normalised alone, and the blocks are averaged."""
    blocks, tops = _blocks(logits, size)
    count = np.maximum((~np.isneginf(tops)).sum(axis=-2, keepdims=True), 1).astype(logits.dtype)
    return _join_blocks(sound.normalise(sound.exponentials(blocks)) / count, work.shape[3])


def _merge_without_maxima(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) merged by the blocks' sums; each sum has its own maximum taken off."""
    blocks, _ = _blocks(logits, size)
    return sound.normalise(_join_blocks(sound.exponentials(blocks), work.shape[3]))


def _mask_of_first_block(work: PreparedCall, size: int = SIZE) -> Array:
    """A mask (B,H,T,S) in which every block of keys has the columns of the first."""
    allowed = sound.masked(work)
    return np.take(allowed, np.arange(work.shape[3]) % size, axis=-1)


def _late_values(weights: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """The output (B,H,T,Dv), where each block but the first meets the values of the one before."""
    positions = np.arange(work.shape[3])
    late = np.where(positions >= size, positions - size, positions)
    return weights @ work.value[:, :, late]


def _rows_of_first_tile(output: Array, work: PreparedCall, size: int = 64) -> Array:
    """The output (B,H,T,Dv) with zeros in all rows behind the first tile."""
    return np.where((np.arange(work.shape[2]) >= size)[:, None], 0, output).astype(output.dtype)


_MANY = "S > 16, the largest logit not in the first block"

_RESCALES = {
    "blocks_sum_not_rescaled": Online(sum_factor=_rescale_never),
    "blocks_output_not_rescaled": Online(output_factor=_rescale_never),
    "blocks_never_rescaled": Online(sum_factor=_rescale_never, output_factor=_rescale_never),
    "blocks_rescaled_once": Online(sum_factor=_rescale_once, output_factor=_rescale_once),
    "blocks_sum_of_last": Online(sum_factor=lambda factor, _: np.zeros_like(factor))}
_OTHER_SIZES = (32, 64, 128)

BLOCK_FAULTS = (
    Fault("blocks_sum_not_rescaled", Stage.BLOCKS,
          "The running sum is not rescaled when the maximum rises.", _MANY,
          staged(softmax=_RESCALES["blocks_sum_not_rescaled"])),
    Fault("blocks_output_not_rescaled", Stage.BLOCKS,
          "The running output is not rescaled when the maximum rises.", _MANY,
          staged(softmax=_RESCALES["blocks_output_not_rescaled"])),
    Fault("blocks_never_rescaled", Stage.BLOCKS,
          "Neither the running sum nor the running output is rescaled when the maximum rises.",
          _MANY, staged(softmax=_RESCALES["blocks_never_rescaled"])),
    Fault("blocks_rescaled_once", Stage.BLOCKS,
          "Running sum and output are rescaled at the second block only.",
          "S > 32, the largest logit beyond the second block",
          staged(softmax=_RESCALES["blocks_rescaled_once"])),
    Fault("blocks_sum_of_last", Stage.BLOCKS, "The sum starts again at each block; only the last one divides.",
          "S > 16", staged(softmax=_RESCALES["blocks_sum_of_last"])),
    Fault("blocks_start_at_zero", Stage.BLOCKS, "The running maximum starts at 0, not at -inf.",
          "all logits of a row far below zero", staged(softmax=Online(start=0.0))),
    Fault("blocks_hidden_first_nan", Stage.BLOCKS,
          "A first block without visible keys gives NaN: -inf minus -inf.",
          "a row whose first 16 keys are masked", staged(softmax=Online(guarded=False))),
    Fault("blocks_tail_dropped", Stage.BLOCKS,
          "The keys after the last whole block are lost: there are S // 16 blocks.",
          "S > 16, not a multiple of 16", staged(softmax=_tail_dropped)),
    Fault("blocks_tail_counted", Stage.BLOCKS,
          "The last block is padded with zero keys that are not masked.", "S not a multiple of 16",
          staged(softmax=_tail_counted), link="https://github.com/ggml-org/llama.cpp/pull/29034"),
    Fault("blocks_tail_repeated", Stage.BLOCKS, "Indices past the end are clamped to the last key.",
          "S > 1, not a multiple of 16", staged(softmax=_tail_repeated)),
    Fault("blocks_keys_after_64_lost", Stage.BLOCKS,
          "Keys after the first 64 are lost: there is one tile only.",
          "S > 64", staged(softmax=_keep_first_tile)),
    Fault("blocks_rows_after_64_lost", Stage.BLOCKS,
          "Rows after the first 64 stay zero: there is one tile only.",
          "T > 64", staged(finish=_rows_of_first_tile)),
    Fault("blocks_quiet_skipped", Stage.BLOCKS,
          "Blocks 8 below the row's maximum are skipped to save work.",
          "S > 16, a block of low logits with large values or read out", staged(softmax=_skip_quiet_blocks)),
    Fault("blocks_averaged", Stage.BLOCKS,
          "Each block is normalised by itself and the results averaged.", "S > 16",
          staged(softmax=_average_blocks)),
    Fault("blocks_merged_without_maxima", Stage.BLOCKS,
          "Split-KV partials are merged by their sums alone.", "S > 16",
          staged(softmax=_merge_without_maxima)),
    Fault("blocks_mask_of_first", Stage.BLOCKS, "The mask's pointer does not move on with the blocks.",
          "S > 16 with a mask", staged(masked=_mask_of_first_block)),
    Fault("blocks_late_values", Stage.BLOCKS,
          "Each block uses the values of the block before it (a barrier is missing).",
          "S > 16", staged(mix=_late_values)),
)

_SIZED: Mapping[str, Mapping[str, Callable[..., Array]]] = {
    "blocks_start_at_zero": {"softmax": Online(start=0.0)},
    "blocks_hidden_first_nan": {"softmax": Online(guarded=False)},
    "blocks_tail_dropped": {"softmax": _tail_dropped},
    "blocks_tail_counted": {"softmax": _tail_counted},
    "blocks_tail_repeated": {"softmax": _tail_repeated},
    "blocks_keys_after_64_lost": {"softmax": _keep_first_tile},
    "blocks_rows_after_64_lost": {"finish": _rows_of_first_tile},
    "blocks_quiet_skipped": {"softmax": _skip_quiet_blocks},
    "blocks_averaged": {"softmax": _average_blocks},
    "blocks_merged_without_maxima": {"softmax": _merge_without_maxima},
    "blocks_mask_of_first": {"masked": _mask_of_first_block},
    "blocks_late_values": {"mix": _late_values},
    **{name: {"softmax": online} for name, online in _RESCALES.items()}}
"""By name, the stage that a block's size changes."""
_NUMBER = re.compile(r"\b(16|32|64)\b")  # in a story or a reach: the size, or twice the size


def of_size(size: int) -> tuple[Fault, ...]:
    """The faults of blocks with blocks of this size, as `NAME@SIZE`.

    A fault of rescaling comes again as `NAME@SIZE_in_tail`: it is wrong in the last, shorter block
    alone, for which a kernel may have a path of its own.
    """
    whole, tails = list[Fault](), list[Fault]()
    for fault in BLOCK_FAULTS:
        stages = {stage: _with_size(step, size) for stage, step in _SIZED[fault.name].items()}
        whole.append(_resize_fault(fault, size, "", stages))
        if fault.name in _RESCALES and fault.name != "blocks_rescaled_once":
            in_tail = {"softmax": replace(_RESCALES[fault.name], size=size, in_tail=True)}
            tails.append(_resize_fault(fault, size, "_in_tail", in_tail))
    return (*whole, *tails)


def _resize_fault(fault: Fault, size: int, suffix: str, stages: Mapping[str, Callable[..., Array]]) -> Fault:
    story, reach = _with_numbers(fault.story, size), _with_numbers(fault.reach, size)
    if suffix:
        story = f"In the last, shorter block alone: {story[0].lower()}{story[1:]}"
        reach = reach.replace(f"S > {size}", f"S > {size}, not a multiple of {size}")
        reach = reach.replace("not in the first block", "in the last block")
    return replace(fault, name=f"{fault.name}@{size}{suffix}", story=story, reach=reach, make=staged(**stages))


def _with_numbers(text: str, size: int) -> str:
    """A story or a reach for blocks of this size."""
    return _NUMBER.sub(lambda found: str(2 * size if found[0] == "32" else size), text)


def _with_size(step: Callable[..., Array], size: int) -> Callable[..., Array]:
    return replace(step, size=size) if isinstance(step, Online) else partial(step, size=size)


OF_OTHER_SIZES: tuple[Fault, ...] = tuple(
    fault for size in _OTHER_SIZES for fault in of_size(size) if fault.name.partition("@")[0] in _RESCALES)
"""The faults of rescaling with other common sizes of blocks: every diagnosis tries them."""
