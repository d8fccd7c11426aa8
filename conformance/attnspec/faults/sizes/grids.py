"""Batch entries, heads and groups on a grid: numbers that wrap, entries that nobody computes, groups cut wrongly."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.size_mechanism import Change, Mechanism, Replaced, each_by, in_last, power_above
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Order = Callable[[int, int], Array]
"""Which of so many entries stands in the place of each, given the size."""


def _entries(axis: int, order: Order) -> Mechanism:
    """Entries along the batch (0) or the heads (1) that hold other entries."""
    def change(size: int) -> Change:
        return lambda output, _: np.take(output, order(output.shape[axis], size), axis=axis)
    return each_by("finish", change)


def _slices(order: Order) -> Mechanism:
    """Head slices, (B·H) in one line, that hold other slices."""
    def change(size: int) -> Change:
        def finish(output: Array, _: PreparedCall) -> Array:
            """The output (B,H,T,Dv) with its slices in another order."""
            flat = output.reshape(-1, *output.shape[2:])
            return flat[order(len(flat), size)].reshape(output.shape)
        return finish
    return each_by("finish", change)


def _slices_zero(is_lost: Order) -> Mechanism:
    """Head slices, (B·H) in one line, that are never written."""
    def change(size: int) -> Change:
        def finish(output: Array, work: PreparedCall) -> Array:
            """The output (B,H,T,Dv) with 0 in the slices that are lost."""
            B, H, _, _ = work.shape
            lost = np.broadcast_to(is_lost(B * H, size), (B * H,)).reshape(B, H, 1, 1)
            return np.where(lost, 0, output).astype(output.dtype)
        return finish
    return each_by("finish", change)


def _heads_zero(is_lost: Order) -> Mechanism:
    """Heads that are never written."""
    def change(size: int) -> Change:
        return lambda output, work: np.where(
            is_lost(work.shape[1], size)[:, None, None], 0, output).astype(output.dtype)
    return each_by("finish", change)


def _batches_zero(is_lost: Order) -> Mechanism:
    """Batch entries that are never written."""
    def change(size: int) -> Change:
        return lambda output, work: np.where(
            is_lost(work.shape[0], size)[:, None, None, None], 0, output).astype(output.dtype)
    return each_by("finish", change)


def _unfolded_the_other_way(output: Array, _: PreparedCall) -> Array:
    """The output (B,H,T,Dv), its B·H slices folded batch by batch and unfolded head by head."""
    B, H, *rest = output.shape
    return output.reshape(H, B, *rest).swapaxes(0, 1)


def _dealt_by_group(value: Array, H: int) -> Array:
    """Values (B,H,S,Dv): heads are dealt with the group's size as modulus and as stride, and some are never met."""
    G = H // value.shape[1]
    dealt = np.arange(H) % G * G + np.arange(H) // G
    return np.where(np.isin(np.arange(H), dealt)[:, None, None], sound.group(value, H), 0).astype(value.dtype)


def _grouped(head_of: Callable[[Array, int, int, int], Array]) -> Mechanism:
    """Keys and values of other heads: `head_of` of the query heads (H,), of H / Hkv, Hkv and the size, (H,)."""
    def replaced(size: int) -> Replaced:
        def group(array: Array, H: int) -> Array:
            """(B,Hkv,S,·) -> (B,H,S,·): the head that `head_of` says, clamped to those there are."""
            Hkv = array.shape[1]
            return array[:, np.clip(head_of(np.arange(H), H // Hkv, Hkv, size), 0, Hkv - 1)]
        return {"group_key": group, "group_value": group}
    return replaced


def _of_batch(order: Order) -> Mechanism:
    """Keys and values of other batch entries."""
    def replaced(size: int) -> Replaced:
        def group(array: Array, H: int) -> Array:
            """(B,Hkv,S,·) -> (B,H,S,·): grouped as it should be, of batch entries in another order."""
            return sound.group(array[order(array.shape[0], size)], H)
        return {"group_key": group, "group_value": group}
    return replaced


def _wrapping(count: int, size: int) -> Array:
    """(B,), (H,) or (B·H,), as many as `count`: the number wraps at the size."""
    return np.arange(count) % size


def _lie_beyond(count: int, size: int) -> Array:
    """(B,), (H,) or (B·H,), as many as `count`: whether the number lies beyond the size."""
    return np.arange(count) >= size


def _last(count: int, size: int) -> Array:  # noqa: ARG001  (an order's signature)
    """(B,), (H,) or (B·H,), as many as `count`: whether it is the last."""
    return np.arange(count) == count - 1


def _last_from_before(count: int, size: int) -> Array:  # noqa: ARG001  (an order's signature)
    """(H,), as many as `count`: the last holds the one before it."""
    return np.minimum(np.arange(count), count - 2)


def _last_from_first(count: int, size: int) -> Array:  # noqa: ARG001  (an order's signature)
    """(B,), as many as `count`: the last holds the first."""
    return np.where(np.arange(count) == count - 1, 0, np.arange(count))


def _last_two_swapped(count: int, size: int) -> Array:  # noqa: ARG001  (an order's signature)
    """(H,), as many as `count`: the last two in each other's place."""
    return np.array([*range(count - 2), count - 1, count - 2])


GRIDS: Mapping[str, Mechanism] = {
    "a head's number wraps": _entries(1, _wrapping),
    "heads beyond the grid are zero": _heads_zero(_lie_beyond),
    "the last head is zero": _heads_zero(_last),
    "the last block of heads is zero": _heads_zero(in_last),
    "the last head repeats the one before": _entries(1, _last_from_before),
    "the last two heads change places": _entries(1, _last_two_swapped),
    "a batch entry's number wraps": _entries(0, _wrapping),
    "batch entries beyond the grid are zero": _batches_zero(_lie_beyond),
    "the last batch entry is zero": _batches_zero(_last),
    "the last batch entry repeats the first": _entries(0, _last_from_first),
    "a slice's number wraps": _slices(_wrapping),
    "slices beyond the grid are zero": _slices_zero(_lie_beyond),
    "the last slice is zero": _slices_zero(_last),
    "slices are unfolded the other way": lambda _: {"finish": _unfolded_the_other_way},
    "keys of a wrapped batch entry": _of_batch(_wrapping),
    "the last batch entry has the keys of the first": _of_batch(_last_from_first),
    "groups are rounded up to a power of two": _grouped(lambda head, G, *_: head // power_above(G)),
    "groups are rounded down to a power of two": _grouped(lambda head, G, *_: head // (power_above(G + 1) // 2)),
    "groups have a fixed number of heads": _grouped(lambda head, _G, _Hkv, size: head // size),
    "groups are tiled": _grouped(lambda head, _G, Hkv, _size: head % Hkv),
    "heads are assigned by the size of a group": lambda _: {"group_value": _dealt_by_group},
    "the last of a group has the next group's keys": _grouped(lambda head, G, *_: (head + 1) // G % max(1, (
        len(head) // G))),
    "key heads are clamped": _grouped(lambda head, G, _Hkv, size: np.minimum(head // G, size - 1)),
}
