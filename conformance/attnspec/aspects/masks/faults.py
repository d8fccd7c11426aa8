"""Faults of masks, biases and the causal flag: ignored, dropped, misaligned, or misread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType, Kind
from attnspec.faults import staged as sound
from attnspec.faults.fault import AspectFaults, Fault
from attnspec.faults.lost_keywords import LostKeyword, forget, forget_in_layer, heed_in_first
from attnspec.faults.precision import BFLOAT16, FLOAT16, round_through
from attnspec.faults.staged import staged, with_mask
from attnspec.faults.staged_forms import Layer, attending, staged_layer
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.problems.problem import Array


def _with_bias(change: Callable[[Array, PreparedCall], Array]) -> Callable[[Array, PreparedCall], Array]:
    """An `add_bias` stage that changes the bias (B,H,T,S) before it adds it."""
    return lambda logits, work: logits if work.bias is None else logits + change(work.bias, work)


def _one_for_all(array: Array, axis: int) -> Array:
    """A mask or bias (B,H,T,S), whose first entry along an axis serves for all."""
    return np.broadcast_to(np.take(array, [0], axis=axis), array.shape)


def _before_scale(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the scaled bias, as if it were added before the scale."""
    return logits if work.bias is None else logits + work.bias * logits.dtype.type(sound.scale(work))


def _read_transposed(array: Array, work: PreparedCall) -> Array:
    """A mask or bias (B,H,T,S), read as (B,H,S,T) and turned: its transpose if T = S."""
    B, H, T, S = work.shape
    return array.reshape(B, H, S, T).swapaxes(-1, -2)


def _to_weights(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) plus the bias, at visible keys."""
    return weights if work.bias is None else weights + np.where(work.visible, work.bias, 0)


def _multiply_by_bias(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) times the bias; hidden ones are left alone."""
    return logits if work.bias is None else logits * np.where(work.visible, work.bias, 1)


def _last_key_lost(bias: Array, work: PreparedCall) -> Array:
    """The bias (B,H,T,S) with 0 for the last key."""
    return np.where(np.arange(work.shape[3]) == work.shape[3] - 1, 0, bias).astype(bias.dtype)


def _as_mask(call: HandedOver) -> PreparedCall:
    """The bias becomes a mask: entries other than 0 are True."""
    if call.bias is None:
        return sound.take(call)
    allowed = np.asarray(call.bias != 0)
    return sound.take(call.but(bias=None, mask=allowed if call.mask is None else allowed & call.mask))


def _clip_bias(call: HandedOver) -> PreparedCall:
    """The bias is clipped to ±30, `to keep gradients finite`; -inf, too."""
    if call.bias is None:
        return sound.take(call)
    bias = np.clip(np.asarray(call.bias, np.float64), -30, 30)
    return sound.take(call.but(bias=bias.astype(call.bias.dtype)))


def _added_in_float16(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, rounded to float16."""
    return logits if work.bias is None else round_through(sound.add_bias(logits, work), FLOAT16)


def _is_square(call: HandedOver) -> bool:
    """Whether there are as many queries as keys."""
    return call.query.shape[2] == call.key.shape[2]


_BIAS, _MASK = LostKeyword("bias", "The bias is", "a bias"), LostKeyword("mask", "The mask is", "a mask")
_CAUSAL = LostKeyword("causal", "The causal flag is", "causal")

_OF_BIAS = (
    Fault("bias_ignored", "bias", "The bias is ignored: the fused path takes none.", "a bias", forget("bias")),
    Fault("bias_before_scale", "bias", "The bias is added to the raw dot products and scaled with them.",
          "a bias and a scale other than 1", staged(add_bias=_before_scale)),
    Fault("bias_doubled", "bias", "The bias is added twice, by the caller and by the kernel.",
          "a bias", staged(add_bias=_with_bias(lambda bias, _: bias + bias))),
    Fault("bias_subtracted", "bias", "The bias is subtracted, as if it were a penalty on distance.", "a bias",
          staged(add_bias=_with_bias(lambda bias, _: -np.where(np.isneginf(bias), 0, bias)))),
    Fault("bias_multiplied", "bias", "The logits are multiplied by the bias, as by a gate.",
          "a bias", staged(add_bias=_multiply_by_bias)),
    Fault("bias_after_softmax", "bias", "The bias is added to the weights.", "a bias",
          staged(add_bias=lambda logits, _: logits, weigh=_to_weights)),
    Fault("bias_transposed", "bias", "Rows and columns of the bias are exchanged.",
          "a bias that is not symmetric", staged(add_bias=_with_bias(_read_transposed))),
    Fault("bias_of_first_head", "bias", "The head axis of the bias is dropped.",
          "a bias with H > 1", staged(add_bias=_with_bias(lambda bias, _: _one_for_all(bias, 1)))),
    Fault("bias_of_first_batch", "bias", "The bias of the first batch entry is used for the whole batch.",
          "a bias with B > 1", staged(add_bias=_with_bias(lambda bias, _: _one_for_all(bias, 0)))),
    Fault("bias_of_first_row", "bias", "The first row of the bias is used for all queries.",
          "a bias with T > 1", staged(add_bias=_with_bias(lambda bias, _: _one_for_all(bias, 2)))),
    Fault("bias_averaged_over_heads", "bias", "Relative positions are shared, so the heads' biases are averaged.",
          "a bias with H > 1", staged(add_bias=_with_bias(lambda bias, _: bias.mean(axis=1, keepdims=True)))),
    Fault("bias_heads_reversed", "bias", "The heads use the bias in reverse order.",
          "a bias with H > 1", staged(add_bias=_with_bias(lambda bias, _: bias[:, ::-1]))),
    Fault("bias_last_key_lost", "bias", "The bias table is one column short.", "a bias",
          staged(add_bias=_with_bias(_last_key_lost))),
    Fault("bias_shifted", "bias", "The bias is indexed one column off.", "a bias with S > 1",
          staged(add_bias=_with_bias(lambda bias, _: np.roll(bias, 1, axis=-1)))),
    Fault("bias_as_mask", "bias", "A float mask is cast to boolean, so every key whose bias is not 0 is allowed.",
          "a bias", staged(take=_as_mask)),
    Fault("bias_clipped_30", "bias", "The bias is clipped to ±30; -inf becomes -30.",
          "a bias beyond ±30, or -inf", staged(take=_clip_bias)),
    *_BIAS.dropped("with_weights", "for_one_query", with_mask="both share one argument",
                   with_causal="that kernel takes none"),
    Fault("bias_rounded_to_bfloat16", "bias", "The bias is stored in bfloat16.", "a bias that bfloat16 cannot hold",
          staged(add_bias=_with_bias(lambda bias, _: round_through(bias, BFLOAT16))),
          equivalents={DType.BFLOAT16: "a bias in bfloat16 is in bfloat16 already"}),
    Fault("bias_sum_in_float16", "bias", "Logits and bias are added in float16.",
          "a bias, and logits that float16 cannot hold with it",
          staged(add_bias=_added_in_float16)),
)


BLOCK = 16


def _head_major(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), its B·H tables read head by head."""
    B, H, T, S = work.shape
    return mask.reshape(H, B, T, S).swapaxes(0, 1)


def _one_per_batch(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), read with a step of one table for each batch entry."""
    B, H, T, S = work.shape
    return np.broadcast_to(mask.reshape(B * H, 1, T, S)[:B], mask.shape)


def _lengths(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) that shows the first keys of a row, as many as are visible."""
    return np.arange(work.shape[3]) < mask.sum(axis=-1, keepdims=True)


def _one_more(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) with one more key behind the last visible one."""
    last = work.shape[3] - 1 - np.argmax(mask[..., ::-1], axis=-1)
    after = np.arange(work.shape[3]) == last[..., None] + 1
    return mask | (after & mask.any(axis=-1, keepdims=True))


def _one_less(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) without the last visible key, unless it is the only one."""
    last = work.shape[3] - 1 - np.argmax(mask[..., ::-1], axis=-1)
    is_last = np.arange(work.shape[3]) == last[..., None]
    return mask & ~(is_last & (mask.sum(axis=-1, keepdims=True) > 1))


def _open_in_last_block(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) with the last of several blocks of 16 keys open."""
    S = work.shape[3]
    tail = np.arange(S) >= (S - 1) // BLOCK * BLOCK
    return mask | (tail & (S > BLOCK))


def _hides_queries(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) that hides query i if key i is hidden from query 0."""
    T, S = work.shape[2:]
    rows = np.arange(T)
    allowed = np.where(rows < S, mask[..., 0, np.minimum(rows, S - 1)], True)
    return np.broadcast_to(allowed[..., None], mask.shape)


def _byte_column(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), whose column numbers wrap in a signed byte."""
    columns = (np.arange(work.shape[3]) + 128) % 256 - 128
    return np.take(mask, columns % work.shape[3], axis=-1)


_NEXT_ENTRY = with_mask(lambda mask, _: np.roll(mask, 1, axis=0))
_HEAD_MAJOR = with_mask(_head_major)

_OF_MASK = (
    Fault("mask_ignored", "mask", "The mask is accepted and never used.", "any mask with a masked key", forget("mask"),
          link="https://github.com/jax-ml/jax/issues/23349"),
    Fault("mask_inverted", "mask", "The mask is read the wrong way round: True means that a query may attend.",
          "a mask", staged(masked=with_mask(lambda mask, _: ~mask))),
    Fault("mask_transposed", "mask", "Rows and columns of the mask are exchanged.",
          "a mask that is not symmetric", staged(masked=with_mask(_read_transposed))),
    Fault("mask_of_first_batch", "mask", "One mask is built, from the first sequence, for the whole batch.",
          "B > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 0)))),
    Fault("mask_of_next_entry", "mask", "Each batch entry has the mask of its neighbour.",
          "B > 1 with masks that differ", staged(masked=_NEXT_ENTRY)),
    Fault("mask_of_first_head", "mask", "The head axis of the mask is squeezed away by taking head 0.",
          "H > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 1)))),
    Fault("mask_of_first_row", "mask", "The first row of the mask is used for all queries, as if it were key padding.",
          "T > 1 with rows that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 2)))),
    Fault("mask_of_first_key", "mask", "The mask's last stride is ignored: one column is read for all keys.",
          "a mask whose columns differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 3)))),
    Fault("mask_head_major", "mask", "The mask is folded as (B·H), query, key and value as (H·B).",
          "B > 1 and H > 1 with masks that differ", staged(masked=_HEAD_MAJOR)),
    Fault("mask_head_stride_forgotten", "mask", "The offset into the mask assumes (B,1,T,S) where it is (B,H,T,S).",
          "H > 1 with masks that differ", staged(masked=with_mask(_one_per_batch)),
          link="https://github.com/pytorch/pytorch/pull/184180"),
    Fault("mask_shared_in_group", "mask", "Every two neighbouring heads share one mask, though each has its own.",
          "H > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, work: np.take(mask, np.arange(work.shape[1]) // 2 * 2, axis=1)))),
    Fault("mask_any_head", "mask", "Per-head masks are merged by `any` where each head has its own.",
          "H > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(1, keepdims=True), mask.shape)))),
    Fault("mask_any_batch", "mask", "A key is visible where any sequence of the batch may see it.",
          "B > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(0, keepdims=True), mask.shape)))),
    Fault("mask_all_rows", "mask", "A key is kept only if all queries see it.", "T > 1 with rows that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.all(2, keepdims=True), mask.shape)))),
    Fault("mask_all_true_shortcut", "mask", "The mask is skipped if its last row masks nothing.",
          "a mask whose last row masks nothing and an earlier one does",
          staged(masked=with_mask(lambda mask, _: np.ones_like(mask) if mask[-1, -1, -1].all() else mask))),
    Fault("mask_first_batch_decides", "mask", "The mask is skipped if the first sequence has no padding.",
          "B > 1, the first sequence unmasked, a later one not",
          staged(masked=with_mask(lambda mask, _: np.ones_like(mask) if mask[0].all() else mask))),
    Fault("mask_shifted", "mask", "The mask is indexed one column off.", "a mask that excludes some keys of a row",
          staged(masked=with_mask(lambda mask, _: np.roll(mask, 1, axis=-1)))),
    Fault("mask_one_more", "mask", "`<=` for `<`: the mask shows one key more than the length.",
          "a row whose last key is masked and another is not", staged(masked=with_mask(_one_more))),
    Fault("mask_one_less", "mask", "The mask shows one key less than the length.",
          "a mask, rows with two visible keys", staged(masked=with_mask(_one_less))),
    Fault("mask_as_lengths", "mask", "The mask is reduced to lengths, as if padding were always on the right.",
          "a mask with a gap or with padding on the left", staged(masked=with_mask(_lengths))),
    Fault("mask_padded_left", "mask", "Lengths are kept, but the padding is assumed on the left.",
          "a row with a masked key behind a visible one",
          staged(masked=with_mask(lambda mask, work: np.flip(_lengths(mask, work), axis=-1)))),
    Fault("mask_hides_queries", "mask", "The key mask is applied to the queries.",
          "any mask with a masked key", staged(masked=with_mask(_hides_queries))),
    Fault("mask_last_key_open", "mask", "The loop over the mask ends one column early.",
          "a row whose last key is masked",
          staged(masked=with_mask(lambda mask, work: mask | (np.arange(work.shape[3]) == work.shape[3] - 1)))),
    Fault("mask_dropped_in_last_block", "mask",
          "The mask is dropped in the last block, which takes another code path.",
          "S > 16 with masked keys in the last block of 16", staged(masked=with_mask(_open_in_last_block))),
    Fault("mask_column_in_a_byte", "mask", "The mask's column index is held in too few bits and wraps.",
          "a mask with S > 128, but not with S = 256", staged(masked=with_mask(_byte_column)),
          link="https://github.com/ml-explore/mlx/issues/3360"),
    *_MASK.dropped("with_weights", "without_weights", "for_one_query", with_causal="that kernel takes none",
                   with_bias="both share one argument"),
    Fault("mask_dropped_when_square", "mask", "The mask is dropped where T = S, as if that were always self-attention.",
          "T = S with a mask", forget("mask", where=_is_square)),
    Fault("mask_dropped_for_grouped_heads", "mask", "The mask is dropped for grouped heads: that kernel takes none.",
          "Hkv < H with a mask", forget("mask", where=lambda call: call.key.shape[1] < call.query.shape[1])),
)


def _where_causal(make: Callable[[int, int], Array]) -> Callable[[PreparedCall], Array]:
    """A `past` stage with another triangle (T,S) for causal calls."""
    return lambda work: make(*work.shape[2:]) if work.causal else sound.past(work)


def _in_steps(T: int, S: int, step: int) -> Array:
    """The triangle (T,S) in which a query sees all keys up to the end of its group."""
    return np.arange(S) // step <= np.arange(T)[:, None] // step


def _zero_times_infinity(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus 0 · -inf, which is NaN, at all keys that may be seen."""
    hidden = sound.hide(logits, work)
    return hidden + (1 - sound.past(work)) * np.float32(-np.inf) if work.causal else hidden


_OFF_BY_ONE = _where_causal(lambda T, S: sound.triangle(T, S, 1))

_OF_CAUSAL = (
    Fault("causal_ignored", "causal", "The causal flag is accepted and never used.",
          "causal with S > 1", forget("causal")),
    Fault("causal_off_by_one", "causal", "`>` for `>=`: each query sees one later key.",
          "causal with S > 1", staged(past=_OFF_BY_ONE)),
    Fault("causal_strict", "causal", "The diagonal is masked as well, so that a query does not see itself.",
          "causal", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, -1)))),
    Fault("causal_bottom_right", "causal", "The causal mask is aligned bottom-right, while top-left is expected.",
          "causal with T ≠ S", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, S - T))),
          link="https://github.com/openvinotoolkit/openvino/pull/36680"),
    Fault("causal_reversed", "causal", "The causal mask is turned round: queries see their own and later keys (triu).",
          "causal with S > 1 or T > 1", staged(past=_where_causal(lambda T, S: ~sound.triangle(T, S, -1)))),
    Fault("causal_blocks_of_16", "causal",
          "The causal mask is applied to whole blocks, and not inside the diagonal block.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 16)))),
    Fault("causal_four_rows", "causal", "The causal bound is computed once for four query rows together.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 4)))),
    Fault("causal_square_then_open", "causal", "The causal mask has the shape (T,T), so keys beyond T are visible.",
          "causal with S > T", staged(past=_where_causal(lambda T, S: sound.triangle(T, S) | (np.arange(S) >= T)))),
    Fault("causal_first_batch_only", "causal", "The causal mask is applied to the first batch entry only.",
          "causal with B > 1 and S > 1", heed_in_first(0, "causal")),
    Fault("causal_first_head_only", "causal", "The causal mask is applied to the first head only.",
          "causal with H > 1 and S > 1", heed_in_first(1, "causal")),
    *_CAUSAL.dropped("with_weights", "for_one_query", with_mask="it replaces the causal one",
                     with_bias="both share one argument"),
    Fault("causal_dropped_when_square", "causal", "The causal flag is dropped where T = S.",
          "causal with T = S > 1", forget("causal", where=_is_square)),
    Fault("causal_dropped_when_not_square", "causal",
          "The causal flag is dropped where T and S differ, as if that were cross-attention.",
          "causal with T ≠ S and S > 1", forget("causal", where=lambda call: not _is_square(call))),
    Fault("causal_dropped_with_all_true_mask", "causal",
          "A mask that is all True is skipped, and the causal mask with it.",
          "causal together with a mask that is all True",
          forget("causal", where=lambda call: call.mask is not None and bool(np.all(call.mask)))),
    Fault("causal_always", "causal", "It is causal even without the causal flag.",
          "no causal flag, S > 1", staged(past=lambda work: sound.triangle(*work.shape[2:]))),
    Fault("causal_after_softmax", "causal", "Later keys are cut from the weights, which are not normalised again.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool),
                                      weigh=lambda weights, work: weights * sound.past(work))),
    Fault("causal_zero_times_infinity", "causal",
          "The causal mask is added as (1 - triangle) · -inf, and 0 · inf is NaN.",
          "causal", staged(hide=_zero_times_infinity)),
)


def _layer_fault(about: str, name: str, story: str, reach: str, make: Callable[[], Layer]) -> Fault:
    return Fault(f"layer_{about}_{name}", about, story, reach, make, kind=Kind.LAYER)


_MASK_OF_LAYERS = (
    _layer_fault("mask", "ignored", "The mask is accepted and never used.", "a mask", forget_in_layer("mask")),
    _layer_fault("mask", "of_next_entry", "Each batch entry has the mask of its neighbour.",
                 "B > 1 with masks that differ", staged_layer(attend=attending(masked=_NEXT_ENTRY))),
    _layer_fault("mask", "head_major", "The mask is tiled over heads, the inputs are folded (H·B).",
                 "B > 1 and H > 1 with masks that differ", staged_layer(attend=attending(masked=_HEAD_MAJOR))),
    _layer_fault("mask", "dropped_without_weights",
                 "The mask is dropped on the fast path, where no weights are asked for.",
                 "a mask without return_weights", forget_in_layer("mask", lambda call: not call.return_weights)),
    _layer_fault("mask", "dropped_with_causal", "Plain causal masking replaces the caller's mask.",
                 "a mask together with causal", forget_in_layer("mask", lambda call: call.causal)),
)
_BIAS_OF_LAYERS = (
    _layer_fault("bias", "ignored", "The bias is ignored: the layer does not pass it on.", "a bias",
                 forget_in_layer("bias")),
)
_CAUSAL_OF_LAYERS = (
    _layer_fault("causal", "ignored", "The causal flag is ignored: the layer does not pass it on.", "causal, S > 1",
                 forget_in_layer("causal")),
    _layer_fault("causal", "dropped_with_weights", "The causal flag is dropped where weights are asked for.",
                 "causal together with return_weights", forget_in_layer("causal", lambda call: call.return_weights)),
    _layer_fault("causal", "off_by_one", "`triu(diagonal=2)`: each query sees one later key.", "causal, S > 1",
                 staged_layer(attend=attending(past=_OFF_BY_ONE))),
)

MISTAKES = AspectFaults(about={
    "bias": (*_OF_BIAS, *_BIAS_OF_LAYERS), "mask": (*_OF_MASK, *_MASK_OF_LAYERS),
    "causal": (*_OF_CAUSAL, *_CAUSAL_OF_LAYERS)})
