"""Reads of what is not there, or is somebody else's: past an end, of the next head, of all sequences at once."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.masks import with_mask
from attnspec.faults.staged import Answer, Call, Stages, Work, around, attention, staged
from attnspec.problems.problem import Array

BLOCK = 16


def _row_stride_padded(mask: Array, work: Work) -> Array:
    """The kernel takes rows to be as long as S rounded up to a block; past the buffer's end it reads True."""
    B, H, T, S = work.shape
    stride = -(-S // BLOCK) * BLOCK
    memory = np.concatenate([mask.reshape(B * H, T * S), np.ones((B * H, T * (stride - S)), bool)], axis=-1)
    return memory.reshape(B, H, T, stride)[..., :S]


def _whole_blocks(mask: Array, work: Work) -> Array:
    """A block of 16 keys is seen as a whole where one of them is."""
    S = work.shape[3]
    padded = np.pad(mask, [(0, 0)] * 3 + [(0, -S % BLOCK)])
    blocks = padded.reshape(*mask.shape[:-1], -1, BLOCK).any(axis=-1, keepdims=True)
    return np.broadcast_to(blocks, (*blocks.shape[:-1], BLOCK)).reshape(padded.shape)[..., :S]


def _beyond_queries(work: Work) -> Array:
    """Keys past the number of queries are never reached."""
    return sound.masked(work) & (np.arange(work.shape[3]) < max(work.shape[2], 1))


def _of_next_head(array: Array, H: int) -> Array:
    """The second half of the keys is read one head on."""
    grouped = sound.group(array, H)
    S = array.shape[2]
    is_second = (np.arange(S) >= (S + 1) // 2)[:, None]
    return np.where(is_second, np.roll(grouped, -1, axis=1), grouped)


def _two_passes(call: Call) -> Answer:
    """One query and grouped heads take a kernel in two passes, whose second one has the wrong offset."""
    takes_it = call.query.shape[2] == 1 and call.key.shape[1] != call.query.shape[1]
    return attention(call, _SECOND_PASS) if takes_it else attention(call)


_SECOND_PASS = Stages(group_key=_of_next_head, group_value=_of_next_head)


def _with_more_keys(call: Call, key: Array, value: Array) -> Answer:
    """Attention with keys appended that every row sees; the answer's weights are those of the caller's keys."""
    B, H, T, S = *call.query.shape[:3], call.key.shape[2]
    more = [(0, 0)] * 3 + [(0, key.shape[2])]
    visible = sound.masked(sound.take(call)) & (sound.triangle(T, S) if call.causal else True)
    mask = np.pad(visible, more, constant_values=True)
    bias = None if call.bias is None else np.pad(np.broadcast_to(call.bias, (B, H, T, S)), more)
    joined = (np.concatenate(pair, axis=2) for pair in ((call.key, key), (call.value, value)))
    long_key, long_value = joined
    answer = attention(call.but(key=long_key, value=long_value, mask=mask, bias=bias, causal=False))
    return (answer[0], answer[1][..., :S].copy()) if isinstance(answer, tuple) else answer


def _tail_reads_on(call: Call) -> Answer:
    """The last block is filled up with what follows in memory: the first keys of the next head."""
    missing = min(-call.key.shape[2] % BLOCK, call.key.shape[2])
    return _with_more_keys(call, *(np.roll(array, -1, axis=1)[:, :, :missing] for array in (call.key, call.value)))


def _packed(call: Call) -> Answer:
    """The batch is packed into one long sequence, and nothing keeps its sequences apart."""
    B, Hkv, S, _ = call.key.shape
    others = [np.stack([np.delete(array, b, axis=0).swapaxes(0, 1).reshape(Hkv, (B - 1) * S, array.shape[-1])
                        for b in range(B)]) for array in (call.key, call.value)]
    return _with_more_keys(call, *others)


def _first_heads(call: Call) -> Answer:
    """The output is allocated with as many heads as there are keys'."""
    answer, Hkv = attention(call), call.key.shape[1]
    return (answer[0][:, :Hkv].copy(), answer[1]) if isinstance(answer, tuple) else answer[:, :Hkv].copy()


def _chosen_first(hidden: Array, work: Work) -> Array:
    """The 8 largest logits of a row are chosen among all keys, and hidden ones among them are lost afterwards."""
    logits = sound.add_bias(sound.logits(work, sound.scale(work)), work)
    count = min(8, work.shape[3])
    least = np.partition(logits, -count, axis=-1)[..., -count, None]
    return sound.softmax(np.where(logits >= least, hidden, -np.inf).astype(hidden.dtype), work)


def _balanced_rows(output: Array, work: Work) -> Array:
    """Rows are dealt from both ends, so that causal work is even; only the causal path deals them back."""
    T = work.shape[2]
    dealt = np.argsort(np.minimum(np.arange(T), T - 1 - np.arange(T)), kind="stable")
    return output if work.causal else output[:, :, dealt]


def _with_sink(hidden: Array, work: Work) -> Array:
    """A row's sum has one more term, exp(0), where there is one query."""
    if work.shape[2] > 1:
        return sound.softmax(hidden, work)
    top = np.maximum(hidden.max(axis=-1, keepdims=True), 0)
    grown = np.exp(hidden - top)
    return grown / (grown.sum(axis=-1, keepdims=True) + np.exp(-top))


FAULTS = (
    Fault("mask_row_stride_padded", Stage.MASK, "The kernel reads mask rows padded to a block, the buffer has none.",
          "a mask, T > 1, S no multiple of 16", staged(masked=with_mask(_row_stride_padded)),
          link="https://github.com/Luce-Org/lucebox/pull/128"),
    Fault("mask_whole_blocks", Stage.MASK, "A sliced block mask forgets the mask within its blocks.",
          "a mask that hides some keys of 16", staged(masked=with_mask(_whole_blocks)),
          link="https://github.com/pytorch/pytorch/issues/163314"),
    Fault("keys_beyond_queries_lost", Stage.TAILS, "One length serves for queries and keys.", "S > T",
          staged(masked=_beyond_queries), link="https://github.com/NVIDIA/TransformerEngine/pull/399"),
    Fault("blocks_tail_reads_on", Stage.BLOCKS, "The last block reads on past its head's end, into the next.",
          "S no multiple of 16", around(_tail_reads_on),
          link="https://github.com/Dao-AILab/flash-attention/issues/1076"),
    Fault("one_query_second_pass_off", Stage.HEADS, "The decoding kernel's second pass has the offset of another head.",
          "T = 1, Hkv < H, S > 1", around(_two_passes), link="https://github.com/pytorch/pytorch/issues/174861"),
    Fault("one_query_sink", Stage.SOFTMAX, "The decoding path (T = 1) counts an attention sink.", "T = 1",
          staged(softmax=_with_sink), link="https://github.com/ml-explore/mlx/issues/3452"),
    Fault("batch_packed_together", Stage.HEADS, "The batch is packed into one sequence without a mask between.",
          "B > 1", around(_packed), link="https://github.com/pytorch/pytorch/issues/177378"),
    Fault("output_heads_of_keys", Stage.OUTPUT, "The output is allocated with the keys' number of heads.", "Hkv < H",
          around(_first_heads), link="https://github.com/microsoft/onnxruntime/pull/29892"),
    Fault("keys_chosen_before_mask", Stage.WEIGHTS, "The 8 best keys are chosen before the mask is looked at.",
          "S > 8 with a mask or causal", staged(softmax=_chosen_first),
          link="https://github.com/HKUSTDial/flash-sparse-attention/issues/146"),
    Fault("rows_dealt_out", Stage.OUTPUT, "Rows are reordered to balance causal work, and back only if it is causal.",
          "T > 2 without causal", staged(finish=_balanced_rows),
          link="https://github.com/pytorch/pytorch/issues/141429"),
)
