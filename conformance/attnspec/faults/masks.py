"""Masks, biases and the causal flag: ignored, dropped, misaligned, taken from elsewhere, added at the wrong place."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import BFLOAT16, FLOAT16, through
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.problems.problem import Array


def _changed(change: Callable[[Array, PreparedCall], Array]) -> Callable[[Array, PreparedCall], Array]:
    """An `add_bias` stage that adds another bias (B,H,T,S) where there is one."""
    return lambda logits, work: logits if work.bias is None else logits + change(work.bias, work)


def _drop_bias_if(condition: Callable[[HandedOver], bool]) -> Callable[[HandedOver], PreparedCall]:
    return lambda call: sound.take(call.but(bias=None) if condition(call) else call)


def _first_for_all(array: Array, axis: int) -> Array:
    """The bias (B,H,T,S) with the first entry of an axis in the place of all others."""
    return np.broadcast_to(np.take(array, [0], axis=axis), array.shape)


def _before_scale(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias times the scale, as if it had been added to the raw dot products."""
    return logits if work.bias is None else logits + work.bias * logits.dtype.type(sound.scale(work))


def _bias_transposed(bias: Array, work: PreparedCall) -> Array:
    """The bias (B,H,T,S) read as (B,H,S,T) and turned: its transpose where T = S."""
    B, H, T, S = work.shape
    return bias.reshape(B, H, S, T).swapaxes(-1, -2)


def _to_weights(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) with the bias added where a key is visible."""
    return weights if work.bias is None else weights + np.where(work.visible, work.bias, 0)


def _none(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Logits (B,H,T,S) without the bias, which is added to the weights instead."""
    return logits


def _multiplied(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) times the bias, as by a gate; hidden ones are left alone."""
    return logits if work.bias is None else logits * np.where(work.visible, work.bias, 1)


def _last_key_lost(bias: Array, work: PreparedCall) -> Array:
    """The bias (B,H,T,S) with 0 for the last key."""
    return np.where(np.arange(work.shape[3]) == work.shape[3] - 1, 0, bias).astype(bias.dtype)


def _as_mask(call: HandedOver) -> PreparedCall:
    """Entries other than 0 are taken for True."""
    if call.bias is None:
        return sound.take(call)
    allowed = np.asarray(call.bias != 0)
    return sound.take(call.but(bias=None, mask=allowed if call.mask is None else allowed & call.mask))


def _clipped(call: HandedOver) -> PreparedCall:
    """Between -30 and 30, `to keep gradients finite`; -inf too."""
    bias = None if call.bias is None else np.clip(np.asarray(call.bias, np.float64), -30, 30).astype(call.bias.dtype)
    return sound.take(call.but(bias=bias))


BIAS_FAULTS = (
    Fault("bias_ignored", Stage.BIAS, "The bias is ignored: the fused path takes none.", "a bias",
          staged(take=_drop_bias_if(lambda _: True))),
    Fault("bias_before_scale", Stage.BIAS, "The bias is added to the raw dot products and scaled with them.",
          "a bias and a scale other than 1", staged(add_bias=_before_scale)),
    Fault("bias_doubled", Stage.BIAS, "The bias is added twice, by the caller and by the kernel.", "a bias",
          staged(add_bias=_changed(lambda bias, _: bias + bias))),
    Fault("bias_subtracted", Stage.BIAS, "The bias is subtracted, as if it were a penalty on distance.", "a bias",
          staged(add_bias=_changed(lambda bias, _: -np.where(np.isneginf(bias), 0, bias)))),
    Fault("bias_multiplied", Stage.BIAS, "The logits are multiplied by the bias, as by a gate.", "a bias",
          staged(add_bias=_multiplied)),
    Fault("bias_after_softmax", Stage.BIAS, "The bias is added to the weights.", "a bias",
          staged(add_bias=_none, weigh=_to_weights)),
    Fault("bias_transposed", Stage.BIAS, "Rows and columns of the bias are exchanged.", "a bias that is not symmetric",
          staged(add_bias=_changed(_bias_transposed))),
    Fault("bias_of_first_head", Stage.BIAS, "The head axis of the bias is dropped.", "a bias with H > 1",
          staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 1)))),
    Fault("bias_of_first_batch", Stage.BIAS, "The bias of the first batch entry is used for the whole batch.",
          "a bias with B > 1", staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 0)))),
    Fault("bias_of_first_row", Stage.BIAS, "The first row of the bias is used for all queries.", "a bias with T > 1",
          staged(add_bias=_changed(lambda bias, _: _first_for_all(bias, 2)))),
    Fault("bias_averaged_over_heads", Stage.BIAS, "Relative positions are shared, so the heads' biases are averaged.",
          "a bias with H > 1", staged(add_bias=_changed(lambda bias, _: bias.mean(axis=1, keepdims=True)))),
    Fault("bias_heads_reversed", Stage.BIAS, "The heads use the bias in reverse order.", "a bias with H > 1",
          staged(add_bias=_changed(lambda bias, _: bias[:, ::-1]))),
    Fault("bias_last_key_lost", Stage.BIAS, "The bias table is one column short.", "a bias",
          staged(add_bias=_changed(_last_key_lost))),
    Fault("bias_shifted", Stage.BIAS, "The bias is indexed one column off.", "a bias with S > 1",
          staged(add_bias=_changed(lambda bias, _: np.roll(bias, 1, axis=-1)))),
    Fault("bias_as_mask", Stage.BIAS, "A float mask is cast to boolean, so every key whose bias is not 0 is allowed.",
          "a bias", staged(take=_as_mask)),
    Fault("bias_clipped_30", Stage.BIAS, "The bias is clipped to ±30; -inf becomes -30.",
          "a bias beyond ±30, or -inf", staged(take=_clipped)),
    Fault("bias_dropped_with_mask", Stage.BIAS, "The bias is dropped where there is a mask: both share one argument.",
          "a bias together with a mask", staged(take=_drop_bias_if(lambda call: call.mask is not None))),
    Fault("bias_dropped_with_causal", Stage.BIAS,
          "The bias is dropped where the causal flag is set: that kernel takes none.", "a bias together with causal",
          staged(take=_drop_bias_if(lambda call: call.causal))),
    Fault("bias_dropped_with_weights", Stage.BIAS, "The path that returns weights forgets the bias.",
          "a bias together with return_weights", staged(take=_drop_bias_if(lambda call: call.return_weights))),
    Fault("bias_dropped_for_one_query", Stage.BIAS, "The bias is dropped on the decoding path (T = 1).",
          "a bias with T = 1", staged(take=_drop_bias_if(lambda call: call.query.shape[2] == 1))),
    Fault("bias_rounded_to_bfloat16", Stage.BIAS, "The bias is stored in bfloat16.",
          "a bias that bfloat16 cannot hold", staged(add_bias=_changed(lambda bias, _: through(bias, BFLOAT16))),
          equivalents={DType.BFLOAT16: "a bias in bfloat16 is in bfloat16 already"}),
    Fault("bias_sum_in_float16", Stage.BIAS, "Logits and bias are added in float16.",
          "a bias, and logits that float16 cannot hold with it",
          staged(add_bias=lambda logits, work: through(sound.add_bias(logits, work), FLOAT16)
                 if work.bias is not None else logits)),
)


BLOCK = 16


def with_mask(change: Callable[[Array, PreparedCall], Array]) -> Callable[[PreparedCall], Array]:
    """A `masked` stage that changes the mask (B,H,T,S) where there is one."""
    return lambda work: sound.masked(work) if work.mask is None else change(work.mask, work)


def _drop_mask_if(condition: Callable[[PreparedCall], bool]) -> Callable[[PreparedCall], Array]:
    """A `masked` stage that forgets the mask (B,H,T,S) on one path."""
    return with_mask(lambda mask, work: np.ones_like(mask) if condition(work) else mask)


def _one_for_all(array: Array, axis: int, position: int = 0) -> Array:
    """The mask (B,H,T,S) with the entry at `position` of `axis` for all."""
    return np.broadcast_to(np.take(array, [position], axis=axis), array.shape)


def _mask_transposed(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) read column by column; where T ≠ S the memory is read as (S,T)."""
    B, H, T, S = work.shape
    return mask.reshape(B, H, S, T).swapaxes(-1, -2)


def _head_major(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S), its (B·H) tables read as (H·B)."""
    B, H, T, S = work.shape
    return mask.reshape(H, B, T, S).swapaxes(0, 1)


def _one_per_batch(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) of a kernel that steps one mask a batch entry through memory that holds H of them."""
    B, H, T, S = work.shape
    return np.broadcast_to(mask.reshape(B * H, 1, T, S)[:B], mask.shape)


def _lengths(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) made of as many leading keys as the row has visible ones."""
    return np.arange(work.shape[3]) < mask.sum(axis=-1, keepdims=True)


def _trailing(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) made of as many trailing keys as the row has visible ones."""
    return np.flip(_lengths(mask, work), axis=-1)


def _one_more(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) with one more key after the last visible one."""
    last = work.shape[3] - 1 - np.argmax(mask[..., ::-1], axis=-1)
    after = np.arange(work.shape[3]) == last[..., None] + 1
    return mask | (after & mask.any(axis=-1, keepdims=True))


def _one_less(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) without the last visible key, unless it is the only one."""
    last = work.shape[3] - 1 - np.argmax(mask[..., ::-1], axis=-1)
    is_last = np.arange(work.shape[3]) == last[..., None]
    return mask & ~(is_last & (mask.sum(axis=-1, keepdims=True) > 1))


def _open_in_last_block(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) with the last block of 16 keys open, where S > 16."""
    S = work.shape[3]
    tail = np.arange(S) >= (S - 1) // BLOCK * BLOCK
    return mask | (tail & (S > BLOCK))


def _hides_queries(mask: Array, work: PreparedCall) -> Array:
    """Key padding (B,H,T,S), but of the queries: row i is switched off where key i is hidden from row 0."""
    T, S = work.shape[2:]
    rows = np.arange(T)
    allowed = np.where(rows < S, mask[..., 0, np.minimum(rows, S - 1)], True)
    return np.broadcast_to(allowed[..., None], mask.shape)


def _byte_column(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) whose column number is held in a signed byte and wraps."""
    columns = (np.arange(work.shape[3]) + 128) % 256 - 128
    return np.take(mask, columns % work.shape[3], axis=-1)


def _shared_in_group(mask: Array, work: PreparedCall) -> Array:
    """The mask (B,H,T,S) of every second head is that of the head before: 2n and 2n + 1 are taken for one group."""
    return np.take(mask, np.arange(work.shape[1]) // 2 * 2, axis=1)


def _all_true_shortcut(mask: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The mask (B,H,T,S): the very last row alone decides whether there is anything to hide."""
    return np.ones_like(mask) if mask[-1, -1, -1].all() else mask


def _nothing_hidden_if_row_0_sees_all(mask: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The mask (B,H,T,S), all True where the first batch entry hides nothing."""
    return np.ones_like(mask) if mask[0].all() else mask


def _ungrouped_mask(call: HandedOver) -> PreparedCall:
    is_grouped = call.key.shape[1] != call.query.shape[1]
    return sound.take(call.but(mask=None) if is_grouped else call)


NEXT_ENTRY = with_mask(lambda mask, _: np.roll(mask, 1, axis=0))
HEAD_MAJOR = with_mask(_head_major)

MASK_FAULTS = (
    Fault("mask_ignored", Stage.MASK, "The mask is accepted and never used.", "any mask with a masked key",
          staged(masked=lambda work: np.ones(work.shape, bool)), link="https://github.com/jax-ml/jax/issues/23349"),
    Fault("mask_inverted", Stage.MASK, "The mask is read the wrong way round: True means that a query may attend.",
          "a mask", staged(masked=with_mask(lambda mask, _: ~mask))),
    Fault("mask_transposed", Stage.MASK, "Rows and columns of the mask are exchanged.", "a mask that is not symmetric",
          staged(masked=with_mask(_mask_transposed))),
    Fault("mask_of_first_batch", Stage.MASK, "One mask is built, from the first sequence, for the whole batch.",
          "B > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 0)))),
    Fault("mask_of_next_entry", Stage.MASK, "Each batch entry has the mask of its neighbour.",
          "B > 1 with masks that differ", staged(masked=NEXT_ENTRY)),
    Fault("mask_of_first_head", Stage.MASK, "The head axis of the mask is squeezed away by taking head 0.",
          "H > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 1)))),
    Fault("mask_of_first_row", Stage.MASK,
          "The first row of the mask is used for all queries, as if it were key padding.",
          "T > 1 with rows that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 2)))),
    Fault("mask_of_first_key", Stage.MASK, "The mask's last stride is ignored: one column is read for all keys.",
          "a mask whose columns differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 3)))),
    Fault("mask_head_major", Stage.MASK, "The mask is folded as (B·H), query, key and value as (H·B).",
          "B > 1 and H > 1 with masks that differ", staged(masked=HEAD_MAJOR)),
    Fault("mask_head_stride_forgotten", Stage.MASK, "The offset into the mask assumes (B,1,T,S) where it is (B,H,T,S).",
          "H > 1 with masks that differ", staged(masked=with_mask(_one_per_batch)),
          link="https://github.com/pytorch/pytorch/pull/184180"),
    Fault("mask_shared_in_group", Stage.MASK, "Every two neighbouring heads share one mask, though each has its own.",
          "H > 1 with masks that differ", staged(masked=with_mask(_shared_in_group))),
    Fault("mask_any_head", Stage.MASK, "Per-head masks are merged by `any` where each head has its own.",
          "H > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(1, keepdims=True), mask.shape)))),
    Fault("mask_any_batch", Stage.MASK, "A key is visible where any sequence of the batch may see it.",
          "B > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(0, keepdims=True), mask.shape)))),
    Fault("mask_all_rows", Stage.MASK, "A key is kept only if all queries see it.", "T > 1 with rows that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.all(2, keepdims=True), mask.shape)))),
    Fault("mask_all_true_shortcut", Stage.MASK, "The mask is skipped if its last row masks nothing.",
          "a mask whose last row masks nothing and an earlier one does", staged(masked=with_mask(_all_true_shortcut))),
    Fault("mask_first_batch_decides", Stage.MASK, "The mask is skipped if the first sequence has no padding.",
          "B > 1, the first sequence unmasked, a later one not",
          staged(masked=with_mask(_nothing_hidden_if_row_0_sees_all))),
    Fault("mask_shifted", Stage.MASK, "The mask is indexed one column off.", "a mask that excludes some keys of a row",
          staged(masked=with_mask(lambda mask, _: np.roll(mask, 1, axis=-1)))),
    Fault("mask_one_more", Stage.MASK, "`<=` for `<`: the mask shows one key more than the length.",
          "a row whose last key is masked and another is not", staged(masked=with_mask(_one_more))),
    Fault("mask_one_less", Stage.MASK, "The mask shows one key less than the length.",
          "a mask, rows with two visible keys", staged(masked=with_mask(_one_less))),
    Fault("mask_as_lengths", Stage.MASK, "The mask is reduced to lengths, as if padding were always on the right.",
          "a mask with a gap or with padding on the left", staged(masked=with_mask(_lengths))),
    Fault("mask_padded_left", Stage.MASK, "Lengths are kept, but the padding is assumed on the left.",
          "a row with a masked key behind a visible one", staged(masked=with_mask(_trailing))),
    Fault("mask_hides_queries", Stage.MASK, "The key mask is applied to the queries.", "any mask with a masked key",
          staged(masked=with_mask(_hides_queries))),
    Fault("mask_last_key_open", Stage.MASK, "The loop over the mask ends one column early.",
          "a row whose last key is masked",
          staged(masked=with_mask(lambda mask, work: mask | (np.arange(work.shape[3]) == work.shape[3] - 1)))),
    Fault("mask_dropped_in_last_block", Stage.MASK,
          "The mask is dropped in the last block, which takes another code path.",
          "S > 16 with masked keys in the last block of 16", staged(masked=with_mask(_open_in_last_block))),
    Fault("mask_column_in_a_byte", Stage.MASK, "The mask's column index is held in too few bits and wraps.",
          "a mask with S > 128, but not with S = 256", staged(masked=with_mask(_byte_column)),
          link="https://github.com/ml-explore/mlx/issues/3360"),
    Fault("mask_dropped_with_causal", Stage.MASK,
          "The mask is dropped where the causal flag is set: that kernel takes none.", "a mask together with causal",
          staged(masked=_drop_mask_if(lambda work: work.causal))),
    Fault("mask_dropped_with_bias", Stage.MASK, "The mask is dropped where there is a bias: both share one argument.",
          "a mask together with a bias", staged(masked=_drop_mask_if(lambda work: work.bias is not None))),
    Fault("mask_dropped_with_weights", Stage.MASK, "The mask is dropped on the path that returns weights.",
          "a mask together with return_weights", staged(masked=_drop_mask_if(lambda work: work.return_weights))),
    Fault("mask_dropped_without_weights", Stage.MASK,
          "The mask is dropped on the fast path, where no weights are asked for.", "a mask without return_weights",
          staged(masked=_drop_mask_if(lambda work: not work.return_weights))),
    Fault("mask_dropped_for_one_query", Stage.MASK, "The mask is dropped on the decoding path (T = 1).",
          "T = 1 with a mask", staged(masked=_drop_mask_if(lambda work: work.shape[2] == 1))),
    Fault("mask_dropped_when_square", Stage.MASK,
          "The mask is dropped where T = S, as if that were always self-attention.",
          "T = S with a mask", staged(masked=_drop_mask_if(lambda work: work.shape[2] == work.shape[3]))),
    Fault("mask_dropped_for_grouped_heads", Stage.MASK,
          "The mask is dropped for grouped heads: that kernel takes none.", "Hkv < H with a mask",
          staged(take=_ungrouped_mask)),
)


def _where_causal(make: Callable[[int, int], Array]) -> Callable[[PreparedCall], Array]:
    """A `past` stage with another triangle (T,S)."""
    return lambda work: make(*work.shape[2:]) if work.causal else sound.past(work)


def _drop_causal_if(condition: Callable[[PreparedCall], bool]) -> Callable[[PreparedCall], Array]:
    """A `past` stage, (T,S), that forgets the flag on one path."""
    return lambda work: np.ones(work.shape[2:], bool) if condition(work) else sound.past(work)


def _in_steps(T: int, S: int, step: int) -> Array:
    """(T,S): query i sees all keys up to the end of its group of `step`."""
    return np.arange(S) // step <= np.arange(T)[:, None] // step


def _square_then_open(T: int, S: int) -> Array:
    """(T,S): the triangle, and every key beyond T open."""
    return sound.triangle(T, S) | (np.arange(S) >= T)


def _only(axis: int) -> Callable[[PreparedCall], Array]:
    """The triangle for the first entry of an axis only; (B,H,T,S)."""

    def past(work: PreparedCall) -> Array:
        """(B,H,T,S): the triangle at the first entry of the axis, everything at the others."""
        everything = np.ones(work.shape, bool)
        np.moveaxis(everything, axis, 0)[0] &= sound.past(work)
        return everything

    return past


def _after_softmax(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) with later keys cut, so that rows no longer sum to 1."""
    return weights * sound.past(work)


def _zero_times_infinity(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) to which 0 · -inf, which is NaN, is added wherever a key may be seen."""
    hidden = sound.hide(logits, work)
    return hidden + (1 - sound.past(work)) * np.float32(-np.inf) if work.causal else hidden


def _unless_all_true(work: PreparedCall) -> Array:
    """What the causal flag allows, (T,S): everything where a mask is given and hides nothing."""
    return sound.past(work) if work.mask is None or not work.mask.all() else np.ones(work.shape[2:], bool)


OFF_BY_ONE = _where_causal(lambda T, S: sound.triangle(T, S, 1))

CAUSAL_FAULTS = (
    Fault("causal_ignored", Stage.CAUSAL, "The causal flag is accepted and never used.", "causal with S > 1",
          staged(past=lambda work: np.ones(work.shape[2:], bool))),
    Fault("causal_off_by_one", Stage.CAUSAL, "`>` for `>=`: each query sees one later key.", "causal with S > 1",
          staged(past=OFF_BY_ONE)),
    Fault("causal_strict", Stage.CAUSAL, "The diagonal is masked as well, so that a query does not see itself.",
          "causal", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, -1)))),
    Fault("causal_bottom_right", Stage.CAUSAL, "The causal mask is aligned bottom-right, while top-left is expected.",
          "causal with T ≠ S", staged(past=_where_causal(lambda T, S: sound.triangle(T, S, S - T))),
          link="https://github.com/openvinotoolkit/openvino/pull/36680"),
    Fault("causal_reversed", Stage.CAUSAL,
          "The causal mask is turned round: queries see their own and later keys (triu).",
          "causal with S > 1 or T > 1", staged(past=_where_causal(lambda T, S: ~sound.triangle(T, S, -1)))),
    Fault("causal_blocks_of_16", Stage.CAUSAL,
          "The causal mask is applied to whole blocks, and not inside the diagonal block.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 16)))),
    Fault("causal_four_rows", Stage.CAUSAL, "The causal bound is computed once for four query rows together.",
          "causal with S > 1", staged(past=_where_causal(lambda T, S: _in_steps(T, S, 4)))),
    Fault("causal_square_then_open", Stage.CAUSAL, "The causal mask has the shape (T,T), so keys beyond T are visible.",
          "causal with S > T", staged(past=_where_causal(_square_then_open))),
    Fault("causal_first_batch_only", Stage.CAUSAL, "The causal mask is applied to the first batch entry only.",
          "causal with B > 1 and S > 1", staged(past=_only(0))),
    Fault("causal_first_head_only", Stage.CAUSAL, "The causal mask is applied to the first head only.",
          "causal with H > 1 and S > 1", staged(past=_only(1))),
    Fault("causal_dropped_with_mask", Stage.CAUSAL, "A mask replaces the causal one instead of joining it.",
          "causal together with a mask", staged(past=_drop_causal_if(lambda work: work.mask is not None))),
    Fault("causal_dropped_with_bias", Stage.CAUSAL, "A bias replaces the causal mask: both share one argument.",
          "causal together with a bias", staged(past=_drop_causal_if(lambda work: work.bias is not None))),
    Fault("causal_dropped_with_weights", Stage.CAUSAL, "The path that returns weights drops the causal mask.",
          "causal together with return_weights", staged(past=_drop_causal_if(lambda work: work.return_weights))),
    Fault("causal_dropped_when_square", Stage.CAUSAL, "The causal flag is dropped where T = S.",
          "causal with T = S > 1", staged(past=_drop_causal_if(lambda work: work.shape[2] == work.shape[3]))),
    Fault("causal_dropped_when_not_square", Stage.CAUSAL,
          "The causal flag is dropped where T and S differ, as if that were cross-attention.",
          "causal with T ≠ S and S > 1", staged(past=_drop_causal_if(lambda work: work.shape[2] != work.shape[3]))),
    Fault("causal_dropped_for_one_query", Stage.CAUSAL,
          "The causal flag is dropped where T = 1, as if that were always decoding.", "causal with T = 1 and S > 1",
          staged(past=_drop_causal_if(lambda work: work.shape[2] == 1))),
    Fault("causal_dropped_with_all_true_mask", Stage.CAUSAL,
          "A mask that is all True is skipped, and the causal mask with it.",
          "causal together with a mask that is all True", staged(past=_unless_all_true)),
    Fault("causal_always", Stage.CAUSAL, "It is causal even without the causal flag.", "no causal flag, S > 1",
          staged(past=lambda work: sound.triangle(*work.shape[2:]))),
    Fault("causal_after_softmax", Stage.CAUSAL, "Later keys are cut from the weights, which are not normalised again.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool), weigh=_after_softmax)),
    Fault("causal_zero_times_infinity", Stage.CAUSAL,
          "The causal mask is added as (1 - triangle) · -inf, and 0 · inf is NaN.",
          "causal", staged(hide=_zero_times_infinity)),
)
