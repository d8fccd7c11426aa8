"""Online softmax over blocks of 16 keys, gone wrong: nothing rescaled, tails lost or counted.

A diagnosis tries them with blocks of other sizes, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import Array

SIZE = 16
Factor = Callable[[Array, int], Array]


def _as_it_is(factor: Array, number: int) -> Array:  # noqa: ARG001  (faults look at the block's number)
    """The rescale factor (B,H,T,1) of a block, as it should be."""
    return factor


def _never(factor: Array, number: int) -> Array:  # noqa: ARG001  (see _as_it_is)
    """No rescaling: a factor (B,H,T,1) of ones."""
    return np.ones_like(factor)


def _first_time(factor: Array, number: int) -> Array:
    """The factor (B,H,T,1) at the second block, ones at all others."""
    return factor if number == 1 else np.ones_like(factor)


def _forgotten(factor: Array, number: int) -> Array:  # noqa: ARG001  (see _as_it_is)
    """What came before is forgotten: a factor (B,H,T,1) of zeros."""
    return np.zeros_like(factor)


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


def _unblocked(blocks: Array, S: int) -> Array:
    """Blocks (B,H,T,·,size) side by side again, (B,H,T,S), without the padding."""
    return blocks.reshape(*blocks.shape[:-2], -1)[..., :S]


def _quiet_skipped(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) without the blocks whose largest logit is more than 8 below the row's."""
    blocks, tops = _blocks(logits, size)
    quiet = tops < tops.max(axis=-2, keepdims=True) - 8
    kept = np.where(quiet, -np.inf, blocks).astype(logits.dtype)
    return sound.normalise(sound.exponentials(_unblocked(kept, work.shape[3])))


def _averaged(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S): each block is normalised by itself, and the blocks are averaged."""
    blocks, tops = _blocks(logits, size)
    count = np.maximum((~np.isneginf(tops)).sum(axis=-2, keepdims=True), 1).astype(logits.dtype)
    return _unblocked(sound.normalise(sound.exponentials(blocks)) / count, work.shape[3])


def _merged_without_maxima(logits: Array, work: PreparedCall, size: int = SIZE) -> Array:
    """Weights (B,H,T,S) merged by the blocks' sums, though each block has its own maximum subtracted."""
    blocks, _ = _blocks(logits, size)
    return sound.normalise(_unblocked(sound.exponentials(blocks), work.shape[3]))


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
    "blocks_sum_of_last": Online(sum_factor=_forgotten)}
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
          "S > 32, the largest logit beyond the second block",
          staged(softmax=_RESCALES["blocks_rescaled_once"])),
    Fault("blocks_sum_of_last", Stage.BLOCKS, "The sum starts again at each block; only the last one divides.",
          "S > 16", staged(softmax=_RESCALES["blocks_sum_of_last"])),
    Fault("blocks_start_at_zero", Stage.BLOCKS, "The running maximum starts at 0, not at -inf.",
          "all logits of a row far below zero", staged(softmax=Online(start=0.0))),
    Fault("blocks_hidden_first_nan", Stage.BLOCKS, "A first block without visible keys gives NaN: -inf minus -inf.",
          "a row whose first 16 keys are masked", staged(softmax=Online(guarded=False)),
          link="https://github.com/pytorch/pytorch/issues/110213"),
    Fault("blocks_tail_dropped", Stage.BLOCKS,
          "The keys after the last whole block are lost: there are S // 16 blocks.",
          "S > 16, not a multiple of 16", staged(softmax=_tail_dropped),
          link="https://github.com/jax-ml/jax/issues/27224"),
    Fault("blocks_tail_counted", Stage.BLOCKS, "The last block is padded with zero keys that are not masked.",
          "S not a multiple of 16", staged(softmax=_tail_counted), link="https://github.com/ggml-org/llama.cpp/pull/29034"),
    Fault("blocks_tail_repeated", Stage.BLOCKS, "Indices past the end are clamped to the last key.",
          "S > 1, not a multiple of 16", staged(softmax=_tail_repeated),
          link="https://github.com/NVIDIA/Megatron-LM/issues/132"),
    Fault("blocks_keys_after_64_lost", Stage.BLOCKS, "Keys after the first 64 are lost: there is one tile only.",
          "S > 64",
          staged(softmax=_of_first_tile)),
    Fault("blocks_rows_after_64_lost", Stage.BLOCKS, "Rows after the first 64 stay zero: there is one tile only.",
          "T > 64",
          staged(finish=_rows_of_first_tile), link="https://github.com/AMD-AGI/AgentKernelArena/pull/82"),
    Fault("blocks_quiet_skipped", Stage.BLOCKS, "Blocks 8 below the row's maximum are skipped to save work.",
          "S > 16, a block of low logits with large values or read out", staged(softmax=_quiet_skipped)),
    Fault("blocks_averaged", Stage.BLOCKS, "Each block is normalised by itself and the results averaged.", "S > 16",
          staged(softmax=_averaged)),
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
    "blocks_averaged": {"softmax": _averaged}, "blocks_merged_without_maxima": {"softmax": _merged_without_maxima},
    "blocks_mask_of_first": {"masked": _mask_of_first_block}, "blocks_late_values": {"mix": _late_values},
    **{name: {"softmax": online} for name, online in _RESCALES.items()}}
"""By name, the stage that goes by a block's size."""
_NUMBER = re.compile(r"\b(16|32|64)\b")  # in a story or a reach: the size, or twice the size


def of_size(size: int) -> tuple[Fault, ...]:
    """The faults of the catalogue with blocks of another size, by the name before the @. Those of rescaling come also
    as they are where a kernel has a path of its own for the last, shorter block.
    """
    whole = (_resized(fault, size, "", {stage: _with_size(step, size) for stage, step in _SIZED[fault.name].items()})
             for fault in BLOCK_FAULTS)
    tails = (_resized(fault, size, "_in_tail",
                      {"softmax": replace(_RESCALES[fault.name], size=size, in_tail=True)})
             for fault in BLOCK_FAULTS if fault.name in _RESCALES and fault.name != "blocks_rescaled_once")
    return (*whole, *tails)


def _resized(fault: Fault, size: int, how: str, stages: Mapping[str, Callable[..., Array]]) -> Fault:
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
