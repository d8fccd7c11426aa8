"""Masks that are dropped, turned, shifted, or taken from somewhere else."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import HandedOver, PreparedCall
from attnspec.problems.problem import Array

BLOCK = 16


def with_mask(change: Callable[[Array, PreparedCall], Array]) -> Callable[[PreparedCall], Array]:
    """A `masked` stage that changes the mask (B,H,T,S) where there is one."""
    return lambda work: sound.masked(work) if work.mask is None else change(work.mask, work)


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> Callable[[PreparedCall], Array]:
    """A `masked` stage that forgets the mask (B,H,T,S) on one path."""
    return with_mask(lambda mask, work: np.ones_like(mask) if condition(work) else mask)


def _one_for_all(array: Array, axis: int, position: int = 0) -> Array:
    """The mask (B,H,T,S) with the entry at `position` of `axis` for all."""
    return np.broadcast_to(np.take(array, [position], axis=axis), array.shape)


def _transposed(mask: Array, work: PreparedCall) -> Array:
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

FAULTS = (
    Fault("mask_ignored", Stage.MASK, "The mask is accepted and never used.", "any mask with a masked key",
          staged(masked=lambda work: np.ones(work.shape, bool)), link="https://github.com/jax-ml/jax/issues/23349"),
    Fault("mask_inverted", Stage.MASK, "The mask is read the wrong way round: True means that a query may attend.",
          "a mask", staged(masked=with_mask(lambda mask, _: ~mask)),
          link="https://github.com/tensorflow/text/pull/894"),
    Fault("mask_transposed", Stage.MASK, "Rows and columns of the mask are exchanged.", "a mask that is not symmetric",
          staged(masked=with_mask(_transposed))),
    Fault("mask_of_first_batch", Stage.MASK, "One mask is built, from the first sequence, for the whole batch.",
          "B > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 0))),
          link="https://github.com/pytorch/pytorch/pull/184180"),
    Fault("mask_of_next_entry", Stage.MASK, "Each batch entry has the mask of its neighbour.",
          "B > 1 with masks that differ", staged(masked=NEXT_ENTRY)),
    Fault("mask_of_first_head", Stage.MASK, "The head axis of the mask is squeezed away by taking head 0.",
          "H > 1 with masks that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 1))),
          link="https://github.com/keras-team/keras/pull/20488"),
    Fault("mask_of_first_row", Stage.MASK,
          "The first row of the mask is used for all queries, as if it were key padding.",
          "T > 1 with rows that differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 2))),
          link="https://github.com/rasbt/LLMs-from-scratch/pull/697"),
    Fault("mask_of_first_key", Stage.MASK, "The mask's last stride is ignored: one column is read for all keys.",
          "a mask whose columns differ", staged(masked=with_mask(lambda mask, _: _one_for_all(mask, 3))),
          link="https://github.com/pytorch/pytorch/pull/128816"),
    Fault("mask_head_major", Stage.MASK, "The mask is folded as (B·H), query, key and value as (H·B).",
          "B > 1 and H > 1 with masks that differ", staged(masked=HEAD_MAJOR),
          link="https://github.com/sooftware/attentions/issues/4"),
    Fault("mask_head_stride_forgotten", Stage.MASK, "The offset into the mask assumes (B,1,T,S) where it is (B,H,T,S).",
          "H > 1 with masks that differ", staged(masked=with_mask(_one_per_batch)),
          link="https://github.com/pytorch/pytorch/pull/184180"),
    Fault("mask_shared_in_group", Stage.MASK, "Every two neighbouring heads share one mask, though each has its own.",
          "H > 1 with masks that differ", staged(masked=with_mask(_shared_in_group)),
          link="https://github.com/pytorch/pytorch/issues/172225"),
    Fault("mask_any_head", Stage.MASK, "Per-head masks are merged by `any` where each head has its own.",
          "H > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(1, keepdims=True), mask.shape)))),
    Fault("mask_any_batch", Stage.MASK, "A key is visible where any sequence of the batch may see it.",
          "B > 1 with masks that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.any(0, keepdims=True), mask.shape)))),
    Fault("mask_all_rows", Stage.MASK, "A key is kept only if all queries see it.", "T > 1 with rows that differ",
          staged(masked=with_mask(lambda mask, _: np.broadcast_to(mask.all(2, keepdims=True), mask.shape)))),
    Fault("mask_all_true_shortcut", Stage.MASK, "The mask is skipped if its last row masks nothing.",
          "a mask whose last row masks nothing and an earlier one does",
          staged(masked=with_mask(_all_true_shortcut))),
    Fault("mask_first_batch_decides", Stage.MASK, "The mask is skipped if the first sequence has no padding.",
          "B > 1, the first sequence unmasked, a later one not",
          staged(masked=with_mask(_nothing_hidden_if_row_0_sees_all)),
          link="https://github.com/huggingface/transformers/issues/36150"),
    Fault("mask_shifted", Stage.MASK, "The mask is indexed one column off.", "a mask that excludes some keys of a row",
          staged(masked=with_mask(lambda mask, _: np.roll(mask, 1, axis=-1))),
          link="https://github.com/huggingface/transformers/pull/48280"),
    Fault("mask_one_more", Stage.MASK, "`<=` for `<`: the mask shows one key more than the length.",
          "a row whose last key is masked and another is not",
          staged(masked=with_mask(_one_more)), link="https://github.com/huggingface/transformers/pull/26792"),
    Fault("mask_one_less", Stage.MASK, "The mask shows one key less than the length.",
          "a mask, rows with two visible keys",
          staged(masked=with_mask(_one_less))),
    Fault("mask_as_lengths", Stage.MASK, "The mask is reduced to lengths, as if padding were always on the right.",
          "a mask with a gap or with padding on the left", staged(masked=with_mask(_lengths)),
          link="https://github.com/OpenNMT/OpenNMT-py/pull/2589"),
    Fault("mask_padded_left", Stage.MASK, "Lengths are kept, but the padding is assumed on the left.",
          "a row with a masked key behind a visible one", staged(masked=with_mask(_trailing)),
          link="https://github.com/lablup/mlxcel/issues/75"),
    Fault("mask_hides_queries", Stage.MASK, "The key mask is applied to the queries.", "any mask with a masked key",
          staged(masked=with_mask(_hides_queries)), link="https://github.com/vllm-project/vllm-omni/issues/5865"),
    Fault("mask_last_key_open", Stage.MASK, "The loop over the mask ends one column early.",
          "a row whose last key is masked",
          staged(masked=with_mask(lambda mask, work: mask | (np.arange(work.shape[3]) == work.shape[3] - 1)))),
    Fault("mask_dropped_in_last_block", Stage.MASK,
          "The mask is dropped in the last block, which takes another code path.",
          "S > 16 with masked keys in the last block of 16", staged(masked=with_mask(_open_in_last_block)),
          link="https://github.com/tracel-ai/cubecl/pull/1027"),
    Fault("mask_column_in_a_byte", Stage.MASK, "The mask's column index is held in too few bits and wraps.",
          "a mask with S > 128, but not with S = 256", staged(masked=with_mask(_byte_column)),
          link="https://github.com/ml-explore/mlx/issues/3360"),
    Fault("mask_dropped_with_causal", Stage.MASK,
          "The mask is dropped where the causal flag is set: that kernel takes none.",
          "a mask together with causal", staged(masked=_dropped_if(lambda work: work.causal)),
          link="https://github.com/pytorch/pytorch/pull/178588"),
    Fault("mask_dropped_with_bias", Stage.MASK, "The mask is dropped where there is a bias: both share one argument.",
          "a mask together with a bias", staged(masked=_dropped_if(lambda work: work.bias is not None))),
    Fault("mask_dropped_with_weights", Stage.MASK, "The mask is dropped on the path that returns weights.",
          "a mask together with return_weights", staged(masked=_dropped_if(lambda work: work.return_weights)),
          link="https://github.com/pytorch/pytorch/issues/118025"),
    Fault("mask_dropped_without_weights", Stage.MASK,
          "The mask is dropped on the fast path, where no weights are asked for.",
          "a mask without return_weights", staged(masked=_dropped_if(lambda work: not work.return_weights)),
          link="https://github.com/pytorch/pytorch/issues/86120"),
    Fault("mask_dropped_for_one_query", Stage.MASK, "The mask is dropped on the decoding path (T = 1).",
          "T = 1 with a mask", staged(masked=_dropped_if(lambda work: work.shape[2] == 1)),
          link="https://github.com/rajveer43/VeloxQuant-MLX/pull/463"),
    Fault("mask_dropped_when_square", Stage.MASK,
          "The mask is dropped where T = S, as if that were always self-attention.",
          "T = S with a mask", staged(masked=_dropped_if(lambda work: work.shape[2] == work.shape[3]))),
    Fault("mask_dropped_for_grouped_heads", Stage.MASK,
          "The mask is dropped for grouped heads: that kernel takes none.", "Hkv < H with a mask",
          staged(take=_ungrouped_mask)),
)
