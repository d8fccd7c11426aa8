"""Mechanisms of faults at certain sizes, of rows, batch entries, heads, features and columns.

Some are never written, or hold others; numbers wrap; padding is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.staged_work import Mechanism, PreparedCall, each_by, group_by, in_last, last_block, power_above
from attnspec.problems.problem import Array

Places = Callable[[int, int], Array]
"""Of an axis's length and the mechanism's size: one entry for each place along the axis, (n,)."""


def _zero(is_lost: Callable[[PreparedCall, int], Array]) -> Mechanism:
    """Entries of the output that are never written: `is_lost` broadcasts against (B,H,T,Dv)."""
    return each_by("finish", lambda output, work, size:
                   np.where(is_lost(work, size), 0, output).astype(output.dtype))


def _zero_along(axis: int, is_lost: Places) -> Mechanism:
    """Entries along an axis of the output (B,H,T,Dv) that are never written."""
    def finish(output: Array, _: PreparedCall, size: int) -> Array:
        """The output (B,H,T,Dv) with 0 in these entries."""
        lost = is_lost(output.shape[axis], size).reshape(-1, *[1] * (output.ndim - 1 - axis))
        return np.where(lost, 0, output).astype(output.dtype)
    return each_by("finish", finish)


def _reorder_along(axis: int, order: Places) -> Mechanism:
    """Entries along an axis of the output (B,H,T,Dv) that hold other entries."""
    return each_by("finish", lambda output, _, size: np.take(output, order(output.shape[axis], size), axis=axis))


def _last_two_swapped(count: int, size: int) -> Array:
    """The order, (n,), in which the last two entries stand in each other's place."""
    return np.array([*range(count - 2), count - 1, count - 2])


def _wrapping(count: int, size: int) -> Array:
    """The order, (n,), in which an entry's number wraps at the size."""
    return np.arange(count) % size


def _lie_beyond(count: int, size: int) -> Array:
    """Which of so many entries lie beyond the size, (n,)."""
    return np.arange(count) >= size


def _tail_of_last_head(work: PreparedCall, size: int) -> Array:
    """The rows of the last block of the last head, (H,T,1)."""
    _, H, T, _ = work.shape
    return ((np.arange(H) == H - 1)[:, None] & in_last(T, size))[..., None]


def _corner(output: Array, _: PreparedCall, size: int) -> Array:
    """The output (B,H,T,Dv), each head's first entry of the second tile multiplied by -2."""
    wrong = output.copy()
    wrong[:, :, size, 0] *= -2
    return wrong


def _one_entry(output: Array, _: PreparedCall, size: int) -> Array:
    """The output (B,H,T,Dv), with an entry in the last row of the last head never written."""
    wrong = output.copy()
    wrong[-1, -1, -1, (size - 1) % output.shape[-1]] = 0
    return wrong


def _skip_division(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S); the last block's rows are exponentials still."""
    grown = sound.exponentials(logits)
    return np.where(in_last(work.shape[2], size)[:, None], grown, sound.normalise(grown))


def _sum_of_row_before(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), the last block's by the sums of the rows before."""
    grown = sound.exponentials(logits)
    total = grown.sum(axis=-1, keepdims=True)
    used = np.where(in_last(work.shape[2], size)[:, None], np.roll(total, 1, axis=2), total)
    return grown / np.where(used == 0, 1, used)


ROWS: Mapping[str, Mechanism] = {
    "rows of the last block are zero": _zero_along(2, in_last),
    "rows beyond the first tile are zero": _zero_along(2, _lie_beyond),
    "the last row of each tile is zero": _zero_along(2, lambda T, size: np.arange(T) % size == size - 1),
    "rows beyond the keys are zero": _zero(lambda work, _: (np.arange(work.shape[2]) >= work.shape[3])[:, None]),
    "rows of the last block of the last head are zero": _zero(_tail_of_last_head),
    "rows of the last block repeat the row before": _reorder_along(
        2, lambda T, size: np.minimum(np.arange(T), last_block(T, size) - 1)),
    "rows of the last block are of the block before": _reorder_along(
        2, lambda T, size: np.where(in_last(T, size), np.arange(T) - size, np.arange(T))),
    "a row's number wraps": _reorder_along(2, _wrapping),
    "the last two rows change places": _reorder_along(2, _last_two_swapped),
    "the corner of the second tile is wrong": each_by("finish", _corner),
    "one entry is zero": each_by("finish", _one_entry),
    "rows of the last block are not divided": each_by("softmax", _skip_division),
    "rows of the last block have the sum of the row before": each_by("softmax", _sum_of_row_before),
}


def _slices(order: Places) -> Mechanism:
    """Slices, all B·H heads of the batch in one line, that hold other slices."""
    def finish(output: Array, _: PreparedCall, size: int) -> Array:
        """The output (B,H,T,Dv) with its slices in another order."""
        flat = output.reshape(-1, *output.shape[2:])
        return flat[order(len(flat), size)].reshape(output.shape)
    return each_by("finish", finish)


def _slices_zero(is_lost: Places) -> Mechanism:
    """Slices, all B·H heads of the batch in one line, that are never written."""
    def lost_slices(work: PreparedCall, size: int) -> Array:
        """(B,H,1,1): which are lost."""
        B, H, _, _ = work.shape
        return is_lost(B * H, size).reshape(B, H, 1, 1)
    return _zero(lost_slices)


def _unfolded_the_other_way(output: Array, _: PreparedCall) -> Array:
    """The output (B,H,T,Dv), folded batch by batch and unfolded head by head."""
    B, H, *rest = output.shape
    return output.reshape(H, B, *rest).swapaxes(0, 1)


def _dealt_by_group(value: Array, H: int) -> Array:
    """(B,Hkv,S,Dv) -> (B,H,S,Dv): heads in steps of the group's size, so that some are not met."""
    G = H // value.shape[1]
    dealt = np.arange(H) % G * G + np.arange(H) // G
    return np.where(np.isin(np.arange(H), dealt)[:, None, None], sound.group(value, H), 0).astype(value.dtype)


def _group_heads(head_of: Callable[[Array, int, int, int], Array]) -> Mechanism:
    """Keys and values of other heads: `head_of` query heads (H,), of H / Hkv, Hkv and the size."""
    def group(array: Array, H: int, size: int) -> Array:
        """(B,Hkv,S,·) -> (B,H,S,·): the head that `head_of` says, clamped to those there are."""
        Hkv = array.shape[1]
        return array[:, np.clip(head_of(np.arange(H), H // Hkv, Hkv, size), 0, Hkv - 1)]
    return group_by(group)


def _of_batch(order: Places) -> Mechanism:
    """Keys and values of other batch entries."""
    return group_by(lambda array, H, size: sound.group(array[order(array.shape[0], size)], H))


def _is_last(count: int, size: int) -> Array:
    """Which of so many entries is the last, (n,)."""
    return np.arange(count) == count - 1


def _last_from_first(count: int, size: int) -> Array:
    """The order, (n,), in which the last entry holds the first."""
    return np.where(np.arange(count) == count - 1, 0, np.arange(count))


GRIDS: Mapping[str, Mechanism] = {
    "a head's number wraps": _reorder_along(1, _wrapping),
    "heads beyond the grid are zero": _zero_along(1, _lie_beyond),
    "the last head is zero": _zero_along(1, _is_last),
    "the last block of heads is zero": _zero_along(1, in_last),
    "the last head repeats the one before": _reorder_along(
        1, lambda count, _: np.minimum(np.arange(count), count - 2)),
    "the last two heads change places": _reorder_along(1, _last_two_swapped),
    "a batch entry's number wraps": _reorder_along(0, _wrapping),
    "batch entries beyond the grid are zero": _zero_along(0, _lie_beyond),
    "the last batch entry is zero": _zero_along(0, _is_last),
    "the last batch entry repeats the first": _reorder_along(0, _last_from_first),
    "a slice's number wraps": _slices(_wrapping),
    "slices beyond the grid are zero": _slices_zero(_lie_beyond),
    "the last slice is zero": _slices_zero(_is_last),
    "slices are unfolded the other way": lambda _: {"finish": _unfolded_the_other_way},
    "keys of a wrapped batch entry": _of_batch(_wrapping),
    "the last batch entry has the keys of the first": _of_batch(_last_from_first),
    "groups are rounded up to a power of two": _group_heads(lambda head, G, *_: head // power_above(G)),
    "groups are rounded down to a power of two": _group_heads(
        lambda head, G, *_: head // (power_above(G + 1) // 2)),
    "groups have a fixed number of heads": _group_heads(lambda head, _G, _Hkv, size: head // size),
    "groups are tiled": _group_heads(lambda head, _G, Hkv, _size: head % Hkv),
    "heads are assigned by the size of a group": lambda _: {"group_value": _dealt_by_group},
    "the last of a group has the next group's keys": _group_heads(
        lambda head, G, *_: (head + 1) // G % max(1, len(head) // G)),
    "key heads are clamped": _group_heads(lambda head, G, _Hkv, size: np.minimum(head // G, size - 1)),
}


def _of_features(change: Callable[[PreparedCall, int], PreparedCall]) -> Mechanism:
    """Dot products of changed queries (B,H,T,·) and keys (B,H,S,·)."""
    return each_by("logits", lambda work, factor, size: sound.logits(change(work, size), factor))


def _first_features(work: PreparedCall, kept: int) -> PreparedCall:
    return work.but(query=work.query[..., :kept], key=work.key[..., :kept])


def _second_tile_twice(work: PreparedCall, size: int) -> PreparedCall:
    """Features beyond the first tile are added once more."""
    query, key = (np.concatenate([array, array[..., size:]], axis=-1) for array in (work.query, work.key))
    return work.but(query=query, key=key)


def _padding_of_next_row(work: PreparedCall, size: int) -> PreparedCall:
    """The last tile of queries and keys is filled up by the next row's beginning, not by 0."""
    padding = -work.query.shape[-1] % size
    query, key = (np.concatenate([array, np.roll(array, -1, axis=2)[..., :padding]], axis=-1)
                  for array in (work.query, work.key))
    return work.but(query=query, key=key)


def _scaled_by(width: Callable[[PreparedCall, int], int]) -> Mechanism:
    """A scale that is 1/sqrt of another width, unless the caller gives one."""
    def scale(work: PreparedCall, size: int) -> float:
        return 1 / float(np.sqrt(width(work, size))) if work.scale is None else work.scale
    return each_by("scale", scale)


def _stride_of_queries(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), each row written D entries behind the one before."""
    B, H, T, Dv = output.shape
    D = work.query.shape[-1]
    memory = np.zeros((B, H, T * max(D, Dv)), output.dtype)
    for row in range(T):
        memory[..., row * D:row * D + Dv] = output[:, :, row]
    return memory[..., :T * Dv].reshape(output.shape)


WIDTHS: Mapping[str, Mechanism] = {
    "features beyond the first tile are ignored": _of_features(_first_features),
    "features past the last whole tile are ignored":
        _of_features(lambda work, size: _first_features(work, work.query.shape[-1] // size * size)),
    "features beyond the first tile count twice": _of_features(_second_tile_twice),
    "padded features are of the next row": _of_features(_padding_of_next_row),
    "tiles of features are paired wrongly": _of_features(
        lambda work, size: work.but(query=np.roll(work.query, size, axis=-1))),
    "the scale is of the next power of two": _scaled_by(lambda work, _: power_above(work.query.shape[-1])),
    "the scale is of whole tiles": _scaled_by(lambda work, size: -(-work.query.shape[-1] // size) * size),
    "the scale is of the first tile": _scaled_by(lambda _, size: size),
    "the scale is of the values": _scaled_by(lambda work, _: work.value.shape[-1]),
    "columns beyond the first tile are zero": _zero_along(3, _lie_beyond),
    "columns of the last tile are zero": _zero_along(3, in_last),
    "a column's number wraps": _reorder_along(3, _wrapping),
    "tiles of columns are rotated": _reorder_along(3, lambda Dv, size: np.roll(np.arange(Dv), size)),
    "rows are written with the width of queries": lambda _: {"finish": _stride_of_queries},
}
