"""Query rows in blocks: rows that nobody writes, that are written twice or in each other's place."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.size_mechanism import Change, Mechanism, each_by, in_last, last_block
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array


def _zero(is_lost: Callable[[PreparedCall, int], Array]) -> Mechanism:
    """Entries of the output that are never written: `is_lost` broadcasts against (B,H,T,Dv)."""
    def change(size: int) -> Change:
        return lambda output, work: np.where(is_lost(work, size), 0, output).astype(output.dtype)
    return each_by("finish", change)


def _rows(is_lost: Callable[[int, int], Array]) -> Mechanism:
    """Rows that are never written: `is_lost` of T and the size, (T,)."""
    return _zero(lambda work, size: is_lost(work.shape[2], size)[:, None])


def _order_rows(order: Callable[[int, int], Array]) -> Mechanism:
    """Rows that hold other rows: `order` of T and the size, (T,)."""
    def change(size: int) -> Change:
        return lambda output, work: output[:, :, order(work.shape[2], size)]
    return each_by("finish", change)


def _last_from_before(T: int, size: int) -> Array:
    """(T,): the last block holds what the buffer held: the rows of the block before."""
    return np.where(in_last(T, size), np.arange(T) - size, np.arange(T))


def _clamped(T: int, size: int) -> Array:
    """(T,): rows of the last block are clamped to the row before it."""
    return np.minimum(np.arange(T), last_block(T, size) - 1)


def _last_two_swapped(T: int, size: int) -> Array:  # noqa: ARG001  (the signature of an order)
    """(T,): the last two rows in each other's place."""
    return np.array([*range(T - 2), T - 1, T - 2])


def _last_of_tiles(T: int, size: int) -> Array:
    """(T,): whether a row is the last of a whole tile."""
    return np.arange(T) % size == size - 1


def _tail_of_last_head(work: PreparedCall, size: int) -> Array:
    """(H,T,1): the rows of the last block, in the last head."""
    _, H, T, _ = work.shape
    return ((np.arange(H) == H - 1)[:, None] & in_last(T, size))[..., None]


def _corner(size: int) -> Change:
    """One entry of each head, the first of the second tile, has the wrong sign and twice its size."""
    def finish(output: Array, _: PreparedCall) -> Array:
        """The output (B,H,T,Dv) with that entry of each head times -2."""
        wrong = output.copy()
        wrong[:, :, size, 0] *= -2
        return wrong
    return finish


def _one_entry(size: int) -> Change:
    """A single entry of the whole output, in the last row of the last head, is never written."""
    def finish(output: Array, _: PreparedCall) -> Array:
        """The output (B,H,T,Dv) with 0 in that entry."""
        wrong = output.copy()
        wrong[-1, -1, -1, (size - 1) % output.shape[-1]] = 0
        return wrong
    return finish


def _unnormalised(size: int) -> Change:
    """Rows of the last block are not divided by their sums."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S) -> weights (B,H,T,S), exponentials still in rows of the last block."""
        grown = sound.exponentials(logits)
        return np.where(in_last(work.shape[2], size)[:, None], grown, sound.normalise(grown))
    return softmax


def _sum_of_row_before(size: int) -> Change:
    """Rows of the last block are divided by the sum of the row before each."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S) -> weights (B,H,T,S), rows of the last block divided by their neighbours' sums."""
        grown = sound.exponentials(logits)
        total = grown.sum(axis=-1, keepdims=True)
        used = np.where(in_last(work.shape[2], size)[:, None], np.roll(total, 1, axis=2), total)
        return grown / np.where(used == 0, 1, used)
    return softmax


ROWS: Mapping[str, Mechanism] = {
    "rows of the last block are zero": _rows(in_last),
    "rows beyond the first tile are zero": _rows(lambda T, size: np.arange(T) >= size),
    "the last row of each tile is zero": _rows(_last_of_tiles),
    "rows beyond the keys are zero": _zero(lambda work, _: (np.arange(work.shape[2]) >= work.shape[3])[:, None]),
    "rows of the last block of the last head are zero": _zero(_tail_of_last_head),
    "rows of the last block repeat the row before": _order_rows(_clamped),
    "rows of the last block are of the block before": _order_rows(_last_from_before),
    "a row's number wraps": _order_rows(lambda T, size: np.arange(T) % size),
    "the last two rows change places": _order_rows(_last_two_swapped),
    "the corner of the second tile is wrong": each_by("finish", _corner),
    "one entry is zero": each_by("finish", _one_entry),
    "rows of the last block are not divided": each_by("softmax", _unnormalised),
    "rows of the last block have the sum of the row before": each_by("softmax", _sum_of_row_before),
}
