"""Features and value columns in tiles: ignored beyond a tile, counted twice, read from the padding."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.size_mechanism import Change, Mechanism, each_by, in_last, power_above
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array


def _of_features(change: Callable[[PreparedCall, int], PreparedCall]) -> Mechanism:
    """Dot products of other queries (B,H,T,·) and keys (B,H,S,·)."""
    return lambda size: {"logits": lambda work, factor: sound.logits(change(work, size), factor)}


def _first_features(work: PreparedCall, kept: int) -> PreparedCall:
    return work.but(query=work.query[..., :kept], key=work.key[..., :kept])


def _second_tile_twice(work: PreparedCall, size: int) -> PreparedCall:
    """Features beyond the first tile are added once more."""
    query, key = (np.concatenate([array, array[..., size:]], axis=-1) for array in (work.query, work.key))
    return work.but(query=query, key=key)


def _padding_of_next_row(work: PreparedCall, size: int) -> PreparedCall:
    """What fills the last tile of features is not zero but the beginning of the next row, in queries and keys."""
    padding = -work.query.shape[-1] % size
    query, key = (np.concatenate([array, np.roll(array, -1, axis=2)[..., :padding]], axis=-1)
                  for array in (work.query, work.key))
    return work.but(query=query, key=key)


def _tiles_rotated(work: PreparedCall, size: int) -> PreparedCall:
    """Tiles of the query are multiplied by the wrong tiles of the key."""
    return work.but(query=np.roll(work.query, size, axis=-1))


def _scaled_by(width: Callable[[PreparedCall, int], int]) -> Mechanism:
    """1/sqrt of another width, where the caller gives no scale."""
    def scale(work: PreparedCall, size: int) -> float:
        return 1 / float(np.sqrt(width(work, size))) if work.scale is None else work.scale
    return lambda size: {"scale": lambda work: scale(work, size)}


def _columns(order: Callable[[int, int], Array]) -> Mechanism:
    """Value columns in other places: `order` of Dv and the size, (Dv,)."""
    def change(size: int) -> Change:
        return lambda output, _: output[..., order(output.shape[-1], size)]
    return each_by("finish", change)


def _columns_zero(is_lost: Callable[[int, int], Array]) -> Mechanism:
    """Value columns that are never written: `is_lost` of Dv and the size, (Dv,)."""
    def change(size: int) -> Change:
        return lambda output, _: np.where(is_lost(output.shape[-1], size), 0, output).astype(output.dtype)
    return each_by("finish", change)


def _stride_of_queries(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), each row written D entries after the one before, whatever Dv is."""
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
    "tiles of features are paired wrongly": _of_features(_tiles_rotated),
    "the scale is of the next power of two": _scaled_by(lambda work, _: power_above(work.query.shape[-1])),
    "the scale is of whole tiles": _scaled_by(lambda work, size: -(-work.query.shape[-1] // size) * size),
    "the scale is of the first tile": _scaled_by(lambda _, size: size),
    "the scale is of the values": _scaled_by(lambda work, _: work.value.shape[-1]),
    "columns beyond the first tile are zero": _columns_zero(lambda Dv, size: np.arange(Dv) >= size),
    "columns of the last tile are zero": _columns_zero(in_last),
    "a column's number wraps": _columns(lambda Dv, size: np.arange(Dv) % size),
    "tiles of columns are rotated": _columns(lambda Dv, size: np.roll(np.arange(Dv), size)),
    "rows are written with the width of queries": lambda _: {"finish": _stride_of_queries},
}
