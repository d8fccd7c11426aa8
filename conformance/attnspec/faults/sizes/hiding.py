"""Masks, biases and the causal flag in tiles: read from the wrong place, or left out of a tile."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.masks import with_mask
from attnspec.faults.size_mechanism import Change, Mechanism, in_last, last_block
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Table = Callable[[Array, int], Array]
"""What becomes of a mask or a bias, (B,H,T,S), in tiles of a size."""


def _of_mask(change: Table) -> Mechanism:
    """A mask that is read wrongly."""
    return lambda size: {"masked": with_mask(lambda mask, _: change(mask, size))}


def _of_bias(change: Table) -> Mechanism:
    """A bias that is read wrongly. What it hides by -inf stays hidden."""
    def add(logits: Array, work: PreparedCall, size: int) -> Array:
        """Logits (B,H,T,S) with the bias added as it is misread; untouched where there is none."""
        return logits if work.bias is None else logits + change(work.bias, size).astype(logits.dtype)
    return lambda size: {"add_bias": lambda logits, work: add(logits, work, size)}


def _stride_rounded_up(table: Array, size: int) -> Array:
    """(B,H,T,S): rows are whole blocks of the size long to the reader, not in memory; past a head's end all is 0."""
    B, H, T, S = table.shape
    stride = -(-S // size) * size
    memory = np.pad(table.reshape(B * H, T * S), [(0, 0), (0, T * (stride - S))])
    return memory.reshape(B, H, T, stride)[..., :S]


def _tiles_transposed(table: Array, size: int) -> Array:
    """(B,H,T,S): whole tiles are read with rows and columns exchanged."""
    B, H, T, S = table.shape
    rows, columns = T // size, S // size
    whole = table[:, :, :rows * size, :columns * size].reshape(B, H, rows, size, columns, size)
    changed = table.copy()
    changed[:, :, :rows * size, :columns * size] = whole.swapaxes(3, 5).reshape(B, H, rows * size, columns * size)
    return changed


def _of_first(axis: int) -> Table:
    """The first along an axis serves all."""
    return lambda table, _: np.broadcast_to(np.take(table, [0], axis=axis), table.shape)


def _wrapping(axis: int) -> Table:
    """The number of a row or column wraps at the size."""
    return lambda table, size: np.take(table, np.arange(table.shape[axis]) % size, axis=axis)


def _left_out(table: Array, size: int) -> Array:  # noqa: ARG001  (a table's signature)
    """(B,H,T,S): a mask that hides nothing, a bias that adds nothing."""
    return np.ones_like(table) if table.dtype == bool else np.zeros_like(table)


def _left_out_in_last(table: Array, size: int) -> Array:
    """(B,H,T,S): the same in the last block of keys alone."""
    return np.where(in_last(table.shape[-1], size), _left_out(table, size), table)


def _left_out_beyond(table: Array, size: int) -> Array:
    """(B,H,T,S): the same beyond the first tile of columns."""
    return np.where(np.arange(table.shape[-1]) >= size, _left_out(table, size), table)


def _shifted(table: Array, size: int) -> Array:
    """(B,H,T,S): columns are moved to the right by the padding."""
    return np.roll(table, -table.shape[-1] % size, axis=-1)


def _whole_blocks(table: Array, size: int) -> Array:
    """(B,H,T,S): a block of keys is seen as a whole where one of them is."""
    S = table.shape[-1]
    padded = np.pad(table, [(0, 0)] * 3 + [(0, -S % size)])
    blocks = padded.reshape(*table.shape[:-1], -1, size).any(axis=-1)
    return np.repeat(blocks, size, axis=-1)[..., :S]


def _causal(seen: Callable[[Array, Array, int, PreparedCall], Array]) -> Mechanism:
    """What the causal flag allows instead: of rows (T,1) and columns (S,), the size and the call, (T,S)."""
    def past(work: PreparedCall, size: int) -> Array:
        """(T,S): what `seen` says where the call is causal; everything where it is not."""
        _, _, T, S = work.shape
        return seen(np.arange(T)[:, None], np.arange(S), size, work) if work.causal else sound.past(work)
    return lambda size: {"past": lambda work: past(work, size)}


def _short_of_last_tile(row: Array, column: Array, size: int, work: PreparedCall) -> Array:
    """(T,S): rows of the last tile stop where the tile begins."""
    first = last_block(work.shape[2], size)
    return (column <= row) & ((row < first) | (column < first))


def _nan_of_future(size: int) -> Change:
    """Rows of a tile whose last block of keys, half as long again as the tile, lies all in their future."""
    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S) -> weights (B,H,T,S), NaN in the rows whose last block lies in their future."""
        _, _, T, S = work.shape
        row, block = np.arange(T), size * 3 // 2
        last = last_block(np.minimum(row // size * size + size, S), block)
        return np.where((last > row)[:, None], np.nan, sound.softmax(logits, work)).astype(logits.dtype)
    return softmax


HIDING: Mapping[str, Mechanism] = {
    "mask rows are read with a padded stride": _of_mask(_stride_rounded_up),
    "mask tiles are transposed": _of_mask(_tiles_transposed),
    "the first batch entry's mask is used for all": _of_mask(_of_first(0)),
    "the first head's mask is used for all": _of_mask(_of_first(1)),
    "a mask row's number wraps": _of_mask(_wrapping(2)),
    "a mask column's number wraps": _of_mask(_wrapping(3)),
    "the mask is left out": _of_mask(_left_out),
    "the mask is left out in the last block": _of_mask(_left_out_in_last),
    "the mask is left out beyond the first tile": _of_mask(_left_out_beyond),
    "mask columns are moved by the padding": _of_mask(_shifted),
    "masked blocks are seen as a whole": _of_mask(_whole_blocks),
    "bias rows are read with a padded stride": _of_bias(_stride_rounded_up),
    "bias tiles are transposed": _of_bias(_tiles_transposed),
    "the first batch entry's bias is used for all": _of_bias(_of_first(0)),
    "the first head's bias is used for all": _of_bias(_of_first(1)),
    "a bias row's number wraps": _of_bias(_wrapping(2)),
    "a bias column's number wraps": _of_bias(_wrapping(3)),
    "the bias is left out": _of_bias(_left_out),
    "the bias is left out in the last block": _of_bias(_left_out_in_last),
    "the diagonal tile is open": _causal(lambda row, column, size, _: column // size <= row // size),
    "the tile after the diagonal is open": _causal(lambda row, column, size, _: column // size <= row // size + 1),
    "the diagonal tile is closed":
        _causal(lambda row, column, size, _: (column <= row) & ((column // size < row // size) | (column < size))),
    "rows of the last tile stop where it begins": _causal(_short_of_last_tile),
    "a block of only later keys gives NaN": lambda size: {"softmax": _nan_of_future(size)},
    "the diagonal ends in the last corner":
        _causal(lambda row, column, _, work: column <= row + work.shape[3] - work.shape[2]),
    "the causal flag is left out": _causal(lambda row, column, *_: (column >= 0) & (row >= 0)),
}
