"""Faults of ends and of masks: what comes last is lost or never written, what does not exist is
read, and hidden keys are only lowered by a constant, or counted after all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import smooth_weights
from attnspec.faults.staged import Stages, around, attention, change_output, staged, with_mask
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

LOWEST_HALF = -65504.0
_EMPTY = "a row that sees no key"
_ATTACK = f"visible logits far below zero, at the constant or below it; or {_EMPTY}"
_HIDDEN = "a hidden key"


def _replaced_by(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A `hide` stage: logits (B,H,T,S), hidden ones replaced by a finite constant."""
    return lambda logits, work: np.where(work.visible, logits, logits.dtype.type(constant))


def _lowered_by(constant: float) -> Callable[[Array, PreparedCall], Array]:
    """A `hide` stage: logits (B,H,T,S), a finite constant added to hidden ones."""
    return lambda logits, work: logits + np.where(work.visible, 0, constant).astype(logits.dtype)


def _hidden_counted_as_one(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); hidden keys count as logit 0 in the denominator."""
    grown = sound.normalise(sound.exponentials(np.where(work.visible, logits, 0)))
    return np.where(work.visible, grown, 0)


def _overflowing(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), the lowest number added once for the mask and once for the triangle."""
    lowest = np.finfo(logits.dtype).min
    for allowed in (sound.masked(work), sound.past(work)):
        logits = logits + np.where(allowed, 0, lowest).astype(logits.dtype)
    return logits


def over_zero(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) whose rows are divided by their sum, even if that is 0."""
    grown = sound.exponentials(logits)
    return grown / grown.sum(axis=-1, keepdims=True)


def _uniform_if_hidden(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), the same for all keys in a row that sees none."""
    return np.where(work.visible.any(axis=-1, keepdims=True), weights, 1 / work.shape[3]).astype(weights.dtype)


def _first_key_if_hidden(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), all of it on the first key in a row that sees none."""
    is_empty = ~work.visible.any(axis=-1, keepdims=True)
    return np.where(is_empty, np.arange(work.shape[3]) == 0, weights).astype(weights.dtype)


CONSTANT_FAULTS = (
    Fault("mask_constant_100", Stage.MASK, "Masked logits are set to -100, which looks low enough.", _ATTACK,
          staged(hide=_replaced_by(-100.0))),
    Fault("mask_constant_1e4", Stage.MASK, "Masked logits are set to -1e4, chosen for float16.",
          _ATTACK, staged(hide=_replaced_by(-1e4))),
    Fault("mask_constant_1e9", Stage.MASK, "Masked logits are set to -1e9, as in the annotated Transformer.", _ATTACK,
          staged(hide=_replaced_by(-1e9))),
    Fault("mask_constant_half_lowest", Stage.MASK, "Masked logits are set to float16's lowest number in any dtype.",
          _ATTACK, staged(hide=_replaced_by(LOWEST_HALF))),
    Fault("mask_adds_100", Stage.MASK, "-100 is added to masked logits.",
          f"masked logits about 100 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-100.0))),
    Fault("mask_adds_1e4", Stage.MASK, "(1 - mask) · -1e4 is added, as in the first BERT.",
          f"masked logits about 1e4 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-1e4))),
    Fault("mask_adds_1e9", Stage.MASK, "(1 - mask) · -1e9 is added.",
          f"masked logits about 1e9 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(-1e9))),
    Fault("mask_adds_half_lowest", Stage.MASK, "float16's lowest number is added in any dtype.",
          f"masked logits about 65,500 above visible ones, or {_EMPTY}", staged(hide=_lowered_by(LOWEST_HALF))),
    Fault("mask_added_as_number", Stage.MASK, "A boolean mask is added to the logits: True counts as +1.", _HIDDEN,
          staged(hide=lambda logits, work: logits + work.visible.astype(logits.dtype)),
          link="https://github.com/huggingface/transformers/pull/41443"),
    Fault("mask_multiplied_into_logits", Stage.MASK, "Logits are multiplied by the mask: 0 instead of -inf.", _HIDDEN,
          staged(hide=lambda logits, work: logits * work.visible)),
    Fault("mask_after_softmax", Stage.MASK,
          "The weights are masked after the softmax and not normalised again.", _HIDDEN,
          staged(hide=lambda logits, _: logits, weigh=lambda weights, work: np.where(work.visible, weights, 0))),
    Fault("mask_hidden_counted_as_one", Stage.MASK, "Masked keys stay in the denominator with logit 0.",
          _HIDDEN, staged(softmax=_hidden_counted_as_one)),
    Fault("mask_overflows_twice", Stage.MASK, "The lowest number is added for the mask and again for the triangle.",
          _EMPTY, staged(hide=_overflowing)),
    Fault("hidden_row_nan", Stage.MASK,
          "A fully masked row is divided by its sum, 0, and becomes NaN; zeros are declared.",
          "a fully masked row", staged(softmax=over_zero), link="https://github.com/pytorch/pytorch/issues/103963"),
    Fault("hidden_row_uniform", Stage.MASK, "A fully masked row attends to all keys, while zeros are declared.",
          "a fully masked row", staged(weigh=_uniform_if_hidden)),
    Fault("hidden_row_first_key", Stage.MASK, "A fully masked row attends to the first key, to avoid NaN.",
          "a fully masked row", staged(weigh=_first_key_if_hidden)),
    Fault("hidden_value_leaks", Stage.MASK, "NaN and infinities in masked values reach the output: 0 · inf is NaN.",
          "NaN or infinity in a masked value", staged(mix=lambda weights, work: weights @ work.value)),
    Fault("hidden_key_leaks", Stage.MASK, "-inf is added to a logit that is NaN.", "NaN or infinity in a masked key",
          staged(hide=lambda logits, work: logits + np.where(work.visible, 0, -np.inf).astype(logits.dtype))),
)


def _without_key(position: int, count: int = 1) -> dict[str, object]:
    """A `hide` stage that loses one key, counted from either end, of more than `count`."""
    def hide(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S), -inf at hidden keys and at the lost one."""
        S = work.shape[3]
        is_lost = (np.arange(S) == position % S) & (count < S)
        return np.where(is_lost, -np.inf, sound.hide(logits, work)).astype(logits.dtype)
    return {"hide": hide}


def _even_width(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of features read in pairs: an odd last one is lost."""
    D = work.query.shape[-1] // 2 * 2
    return sound.logits(work.but(query=work.query[..., :D], key=work.key[..., :D]), factor)


def _eights(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of features read in vectors of 8, if there are more: the rest is lost."""
    D = work.query.shape[-1]
    kept = D // 8 * 8 if D > 8 else D
    return sound.logits(work.but(query=work.query[..., :kept], key=work.key[..., :kept]), factor)


def _even_values(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), 0 in an odd last feature, which is never written."""
    Dv = output.shape[-1]
    return np.where(np.arange(Dv) < Dv // 2 * 2, output, 0).astype(output.dtype)


def _as_wide_as_queries(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), 0 in the features beyond D, which are never written."""
    return np.where(np.arange(output.shape[-1]) < work.query.shape[-1], output, 0).astype(output.dtype)


def _rows_written(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), from an unwritten buffer behind the last whole tile of 16 rows."""
    T = work.shape[2]
    written = T // 16 * 16 if T > 16 else T
    return np.where((np.arange(T) < written)[:, None], output, 1).astype(output.dtype)


def _last_row_from_before(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), its last row a copy of the one before."""
    if output.shape[2] < 2:
        return output
    return np.concatenate([output[:, :, :-1], output[:, :, -2:-1]], axis=2)


def _first_row_lost(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with zeros in its first row."""
    return np.where((np.arange(work.shape[2]) == 0)[:, None], 0, output).astype(output.dtype)


def _first_batch_only(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with zeros in every batch entry but the first."""
    return np.where((np.arange(work.shape[0]) == 0)[:, None, None, None], output, 0).astype(output.dtype)


def _last_values_swapped(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with the values of the last two keys exchanged."""
    order = np.arange(work.shape[3])
    order[-2:] = order[-2:][::-1]
    return weights @ work.value[:, :, order]


def _mean_of_values(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), every row the mean of the values (B,H,S,Dv) over all keys."""
    return np.broadcast_to(work.value.mean(axis=2, keepdims=True), (*weights.shape[:-1], work.value.shape[-1]))


def _residual(call: HandedOver) -> PreparedCall:
    """The query is added to the values where their shapes agree, as by a residual connection."""
    return sound.take(call.but(value=call.value + call.query) if call.value.shape == call.query.shape else call)


def _noise(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv) with noise of relative size 1e-3 whose seed is the query's content."""
    seed = int(np.ascontiguousarray(work.query).view(np.uint8).sum())
    return output * (1 + 1e-3 * np.random.default_rng(seed).standard_normal(output.shape)).astype(output.dtype)


TAIL_FAULTS = (
    Fault("key_last_dropped", Stage.TAILS, "The last key is left out: the loop over keys is range(S - 1).", "S > 1",
          staged(**_without_key(-1))),
    Fault("key_first_dropped", Stage.TAILS, "The first key is left out: the loop over keys starts at 1.", "S > 1",
          staged(**_without_key(0))),
    Fault("key_17_dropped", Stage.TAILS, "The first key of the second block is skipped.", "S > 16",
          staged(**_without_key(16, 16))),
    Fault("keys_rotated", Stage.TAILS, "Keys are shifted by one position against their values.", "S > 1",
          staged(logits=lambda work, factor: sound.logits(work.but(key=np.roll(work.key, 1, axis=2)), factor))),
    Fault("values_last_two_swapped", Stage.TAILS, "The values of the last two keys are exchanged.",
          "S > 1", staged(mix=_last_values_swapped)),
    Fault("width_odd_feature_lost", Stage.TAILS, "An odd last feature is ignored: features are read in pairs.",
          "D odd", staged(logits=_even_width)),
    Fault("width_beyond_eights_lost", Stage.TAILS,
          "Features after the last multiple of 8 are ignored: they are read in vectors of 8.",
          "D > 8, not a multiple of 8", staged(logits=_eights)),
    Fault("value_odd_feature_lost", Stage.TAILS,
          "An odd last output feature is not written: they are written in pairs.", "Dv odd",
          staged(finish=_even_values)),
    Fault("value_beyond_width_lost", Stage.TAILS, "Output features beyond D stay zero: only as many as D are written.",
          "Dv > D", staged(finish=_as_wide_as_queries)),
    Fault("rows_of_tail_unwritten", Stage.TAILS, "The last, partial tile of rows is never written.",
          "T > 16, not a multiple of 16", staged(finish=_rows_written)),
    Fault("row_last_repeated", Stage.TAILS, "The last row is a copy of the row before.", "T > 1",
          staged(finish=_last_row_from_before)),
    Fault("row_first_lost", Stage.TAILS, "The first row is left at zero.", "any input", staged(finish=_first_row_lost)),
    Fault("batch_first_only", Stage.TAILS, "Only the first batch entry is computed.", "B > 1",
          staged(finish=_first_batch_only)),
    Fault("output_zeros", Stage.OUTPUT, "The output is all zeros: the kernel never writes it.",
          "values other than 0", staged(finish=lambda output, _: np.zeros_like(output))),
    Fault("output_mean_of_values", Stage.OUTPUT,
          "Every row gets the mean of all values, which passes loose tests on long rows.", "S > 1",
          staged(mix=_mean_of_values)),
    Fault("weights_uniform", Stage.WEIGHTS, "Visible keys all weigh the same.", "logits that differ",
          staged(weigh=lambda weights, work: sound.normalise(work.visible.astype(weights.dtype)))),
    Fault("output_gain_1e3", Stage.OUTPUT, "The output is 1e-3 too large: a dequantisation factor is off.",
          "values other than 0", staged(finish=lambda output, _: output * output.dtype.type(1.001))),
    Fault("weights_smoothed_1e5", Stage.WEIGHTS, "Weights are smoothed by 1e-5 against the logarithm of zero.",
          "S > 1; in bfloat16 values of very different size", staged(weigh=smooth_weights(1e-5))),
    Fault("output_noise", Stage.OUTPUT, "The output carries noise of relative size 1e-3, as from a lossy cache.",
          "values other than 0", staged(finish=_noise)),
    Fault("output_with_residual", Stage.OUTPUT, "The query is added to the values, as by a residual connection.",
          "Dv = D, T = S and Hkv = H", staged(take=_residual)),
)


BLOCK = 16


def _row_stride_padded(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), read as if rows were padded to a block; True behind a head's end."""
    B, H, T, S = work.shape
    stride = -(-S // BLOCK) * BLOCK
    memory = np.concatenate([mask.reshape(B * H, T * S), np.ones((B * H, T * (stride - S)), bool)], axis=-1)
    return memory.reshape(B, H, T, stride)[..., :S]


def _whole_blocks(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), in which a block of 16 keys is visible if one of them is."""
    S = work.shape[3]
    padded = np.pad(mask, [(0, 0)] * 3 + [(0, -S % BLOCK)])
    blocks = padded.reshape(*mask.shape[:-1], -1, BLOCK).any(axis=-1, keepdims=True)
    return np.broadcast_to(blocks, (*blocks.shape[:-1], BLOCK)).reshape(padded.shape)[..., :S]


def _of_next_head(array: Array, H: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): the second half of the keys is read from the next head."""
    grouped = sound.group(array, H)
    S = array.shape[2]
    is_second = (np.arange(S) >= (S + 1) // 2)[:, None]
    return np.where(is_second, np.roll(grouped, -1, axis=1), grouped)


def _two_passes(call: HandedOver) -> Answer:
    """One query with grouped heads takes a kernel whose second pass has a wrong offset."""
    if call.query.shape[2] == 1 and call.key.shape[1] != call.query.shape[1]:
        return attention(call, _SECOND_PASS)
    return attention(call)


_SECOND_PASS = Stages(group_key=_of_next_head, group_value=_of_next_head)


def _with_more_keys(call: HandedOver, key: Array, value: Array) -> Answer:
    """Attention with further keys and values, (B,Hkv,·,·), that every row sees."""
    B, H, T, S = *call.query.shape[:3], call.key.shape[2]
    more = [(0, 0)] * 3 + [(0, key.shape[2])]
    visible = sound.masked(sound.take(call)) & (sound.triangle(T, S) if call.causal else True)
    mask = np.pad(visible, more, constant_values=True)
    bias = None if call.bias is None else np.pad(np.broadcast_to(call.bias, (B, H, T, S)), more)
    answer = attention(call.but(
        key=np.concatenate([call.key, key], axis=2), value=np.concatenate([call.value, value], axis=2),
        mask=mask, bias=bias, causal=False))
    return (answer[0], answer[1][..., :S].copy()) if isinstance(answer, tuple) else answer


def _tail_reads_on(call: HandedOver) -> Answer:
    """The last block is filled up with what follows in memory: the next head's first keys."""
    missing = min(-call.key.shape[2] % BLOCK, call.key.shape[2])
    key, value = (np.roll(array, -1, axis=1)[:, :, :missing] for array in (call.key, call.value))
    return _with_more_keys(call, key, value)


def _pack_batch(call: HandedOver) -> Answer:
    """The batch is one long sequence, whose entries see each other's keys."""
    return _with_more_keys(call, _keys_of_others(call.key), _keys_of_others(call.value))


def _keys_of_others(array: Array) -> Array:
    """(B,Hkv,S,·) -> (B,Hkv,(B-1)·S,·): what each batch entry does not have itself."""
    B, Hkv, S, width = array.shape
    others = [np.delete(array, b, axis=0).swapaxes(0, 1).reshape(Hkv, (B - 1) * S, width) for b in range(B)]
    return np.stack(others)


def _first_heads(call: HandedOver) -> Answer:
    """The output has as many heads as the keys have."""
    return change_output(attention(call), lambda output: output[:, :call.key.shape[1]].copy())


def _values_read_beyond(call: HandedOver) -> Answer:
    """The values are read for each key; behind their end there are zeros."""
    missing = max(0, call.key.shape[2] - call.value.shape[2])
    return attention(replace(call, value=np.pad(call.value, ((0, 0), (0, 0), (0, missing), (0, 0)))))


def _chosen_first(hidden: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) of a row's 8 largest logits, chosen before hidden ones are dropped."""
    logits = sound.add_bias(sound.logits(work, sound.scale(work)), work)
    count = min(8, work.shape[3])
    least = np.partition(logits, -count, axis=-1)[..., -count, None]
    return sound.softmax(np.where(logits >= least, hidden, -np.inf).astype(hidden.dtype), work)


def _balanced_rows(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): rows are dealt from both ends, and dealt back only if causal."""
    T = work.shape[2]
    dealt = np.argsort(np.minimum(np.arange(T), T - 1 - np.arange(T)), kind="stable")
    return output if work.causal else output[:, :, dealt]


def _with_sink(hidden: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); for one query, the sum has one more term, exp(0)."""
    if work.shape[2] > 1:
        return sound.softmax(hidden, work)
    top = np.maximum(hidden.max(axis=-1, keepdims=True), 0)
    grown = np.exp(hidden - top)
    return grown / (grown.sum(axis=-1, keepdims=True) + np.exp(-top))


READ_FAULTS = (
    Fault("mask_row_stride_padded", Stage.MASK, "The kernel reads mask rows padded to a block, the buffer has none.",
          "a mask, T > 1, S not a multiple of 16", staged(masked=with_mask(_row_stride_padded)),
          link="https://github.com/Luce-Org/lucebox/pull/128"),
    Fault("mask_whole_blocks", Stage.MASK, "A sliced block mask forgets the mask within its blocks.",
          "a mask that hides some keys of 16", staged(masked=with_mask(_whole_blocks))),
    Fault("keys_beyond_queries_lost", Stage.TAILS, "The number of queries is used as the number of keys.", "S > T",
          staged(masked=lambda work: sound.masked(work) & (np.arange(work.shape[3]) < max(work.shape[2], 1)))),
    Fault("blocks_tail_reads_on", Stage.BLOCKS, "The last block reads on past its head's end, into the next.",
          "S not a multiple of 16", around(_tail_reads_on)),
    Fault("one_query_second_pass_off", Stage.HEADS, "The decoding kernel's second pass has the offset of another head.",
          "T = 1, 1 < Hkv < H, S > 1", around(_two_passes)),
    Fault("one_query_sink", Stage.SOFTMAX, "The decoding path (T = 1) counts an attention sink.",
          "T = 1", staged(softmax=_with_sink)),
    Fault("batch_packed_together", Stage.HEADS, "The batch is packed into one sequence without a mask between.",
          "B > 1", around(_pack_batch)),
    Fault("output_heads_of_keys", Stage.OUTPUT, "The output is allocated with the keys' number of heads.", "Hkv < H",
          around(_first_heads)),
    Fault("values_read_beyond", Stage.TAILS, "Nobody looks whether there is a value for every key.",
          "fewer values than keys", around(_values_read_beyond)),
    Fault("keys_chosen_before_mask", Stage.WEIGHTS, "The 8 best keys are chosen before the mask is looked at.", "S > 8",
          staged(softmax=_chosen_first)),
    Fault("rows_dealt_out", Stage.OUTPUT, "Rows are reordered to balance causal work, and back only if it is causal.",
          "T > 2 without causal", staged(finish=_balanced_rows)),
)
