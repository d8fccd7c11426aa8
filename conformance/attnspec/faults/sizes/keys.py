"""Mechanisms of faults at certain sizes, of keys, masks, biases and the causal flag.

Keys come in blocks and splits: tails are lost or counted, sums are not rescaled, partial results
are merged wrongly. Masks, biases and the causal flag come in tiles: they are read from the wrong
place, or left out of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.precision import round_through
from attnspec.faults.softmax import Online
from attnspec.faults.staged_work import Mechanism, PreparedCall, each_by, group_by, in_last, last_block
from attnspec.problems.problem import Array, numpy_dtype


def _weigh_keys(logits: Array, times: Array) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S) whose exponentials count `times`, (S,)."""
    return sound.normalise(sound.exponentials(logits) * times.astype(logits.dtype))


def _count_keys(times: Callable[[int, int], Array]) -> Mechanism:
    """Keys that do not count once but `times`, (S,), given S and the size."""
    return each_by("softmax", lambda logits, work, size: _weigh_keys(logits, times(work.shape[3], size)))


def _lose_keys(is_lost: Callable[[int, int], Array]) -> Mechanism:
    """Keys that are never reached: `is_lost`, (S,), given S and the size."""
    def softmax(logits: Array, work: PreparedCall, size: int) -> Array:
        """Logits (B,H,T,S) -> weights (B,H,T,S), 0 at the keys that are lost."""
        kept = np.where(is_lost(work.shape[3], size), -np.inf, logits).astype(logits.dtype)
        return sound.normalise(sound.exponentials(kept))
    return each_by("softmax", softmax)


def _beyond_queries(logits: Array, work: PreparedCall, _size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), with as many keys as there are queries."""
    kept = np.where(np.arange(work.shape[3]) >= work.shape[2], -np.inf, logits)
    return sound.softmax(kept.astype(logits.dtype), work)


def _padding_counted(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S); zeros, whose logit is 0, fill up the last block."""
    S = work.shape[3]
    filled = np.pad(logits, [(0, 0)] * 3 + [(0, -S % size)])
    return sound.normalise(sound.exponentials(filled))[..., :S]


def _never_at_second(factor: Array, number: int) -> Array:
    """The rescale factor (B,H,T,1) of a block; ones at the second block."""
    return np.ones_like(factor) if number == 1 else factor


def _forgotten_at_last(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S); the running sum starts anew at the last block."""
    grown = sound.exponentials(logits)
    total = grown[..., last_block(work.shape[3], size):].sum(axis=-1, keepdims=True)
    return grown / np.where(total == 0, 1, total)


def _split_softmax(logits: Array, size: int) -> tuple[list[Array], list[Array]]:
    """Each split's exponentials, (B,H,T,·), less its own maximum, and their sums, (B,H,T,1)."""
    parts = [sound.exponentials(logits[..., first:first + size]) for first in range(0, logits.shape[-1], size)]
    return parts, [part.sum(axis=-1, keepdims=True) for part in parts]


def _without_maxima(logits: Array, _work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S); splits, each less its own maximum, are merged by their sums alone."""
    return sound.normalise(np.concatenate(_split_softmax(logits, size)[0], axis=-1))


def _average_splits(logits: Array, _work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S): splits, normalised alone, over the number of those that see a key."""
    parts, sums = _split_softmax(logits, size)
    count = np.maximum(sum((total > 0).astype(logits.dtype) for total in sums), 1)
    return np.concatenate([*map(sound.normalise, parts)], axis=-1) / count


def _last_split_wins(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), of the last split alone, if it sees a key."""
    is_last = in_last(work.shape[3], size)
    sees = ~np.isneginf(np.where(is_last, logits, -np.inf)).all(axis=-1, keepdims=True)
    return sound.softmax(np.where(sees & ~is_last, -np.inf, logits).astype(logits.dtype), work)


def _sum_in_bfloat16(logits: Array, _: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), by a sum that is bfloat16 after each block."""
    grown = sound.exponentials(logits)
    total = np.zeros_like(grown[..., :1])
    for first in range(0, grown.shape[-1], size):
        added = total + grown[..., first:first + size].sum(axis=-1, keepdims=True)
        total = round_through(added, numpy_dtype(DType.BFLOAT16))
    return grown / np.where(total == 0, 1, total)


def _base_two_in_last(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), with 2^x for e^x in the last block."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted = logits - np.where(np.isneginf(top), 0, top)
    tail = in_last(work.shape[3], size)
    return sound.normalise(np.where(tail, np.exp2(shifted), np.exp(shifted)).astype(logits.dtype))


def _unscaled_in_last(work: PreparedCall, factor: float, size: int) -> Array:
    """Logits (B,H,T,S); the last block of keys, whose code path differs, has no scale."""
    scaled, plain = sound.logits(work, factor), sound.logits(work, 1.0)
    return np.where(in_last(work.shape[3], size), plain, scaled)


def _values_by(order: Callable[[int, int], Array]) -> Mechanism:
    """Weights meet the values of other keys: `order`, (S,), given S and the size."""
    return each_by("mix", lambda weights, work, size: weights @ work.value[:, :, order(work.shape[3], size)])


def _wrapping(array: Array, H: int, size: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): a key's number wraps, so that key `size` is key 0 again."""
    return sound.group(array[:, :, np.arange(array.shape[2]) % size], H)


def _last_of_next_head(array: Array, H: int, size: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): the last block is read from the next head."""
    grouped = sound.group(array, H)
    return np.where(in_last(array.shape[2], size)[:, None], np.roll(grouped, -1, axis=1), grouped)


def _last_of_first_batch(array: Array, H: int, size: int) -> Array:
    """(B,Hkv,S,·) -> (B,H,S,·): the last block is read from the first batch entry."""
    grouped = sound.group(array, H)
    return np.where(in_last(array.shape[2], size)[:, None], grouped[:1], grouped)


KEYS: Mapping[str, Mechanism] = {
    "keys past the last whole block are lost": _lose_keys(lambda S, size: np.arange(S) >= S // size * size),
    "the last block of keys is lost": _lose_keys(in_last),
    "the last key is lost": _lose_keys(lambda S, _: np.arange(S) == S - 1),
    "keys beyond the first tile are lost": _lose_keys(lambda S, size: np.arange(S) >= size),
    "the first key of later blocks is lost": _lose_keys(
        lambda S, size: (np.arange(S) % size == 0) & (np.arange(S) > 0)),
    "keys beyond the queries are lost": each_by("softmax", _beyond_queries),
    "blocks between first and last are lost":
        _lose_keys(lambda S, size: (np.arange(S) >= size) & ~np.asarray(in_last(S, size))),
    "the last block of keys counts twice": _count_keys(lambda S, size: 1 + in_last(S, size)),
    "the last key counts for the padding": _count_keys(
        lambda S, size: np.where(np.arange(S) == S - 1, 1 + (-S % size), 1)),
    "the first keys count for the padding": _count_keys(lambda S, size: 1 + (np.arange(S) < -S % size)),
    "padding counts with logit 0": each_by("softmax", _padding_counted),
    "the sum is not rescaled at the second block":
        lambda size: {"softmax": Online(sum_factor=_never_at_second, size=size)},
    "the output is not rescaled at the second block":
        lambda size: {"softmax": Online(output_factor=_never_at_second, size=size)},
    "the sum starts again at the last block": each_by("softmax", _forgotten_at_last),
    "splits are merged without their maxima": each_by("softmax", _without_maxima),
    "splits are averaged": each_by("softmax", _average_splits),
    "the last split is kept alone": each_by("softmax", _last_split_wins),
    "the running sum is bfloat16": each_by("softmax", _sum_in_bfloat16),
    "2^x for e^x in the last block": each_by("softmax", _base_two_in_last),
    "no scale in the last block": each_by("logits", _unscaled_in_last),
    "the last block gets the values of the block before": _values_by(
        lambda S, size: np.where(in_last(S, size), np.arange(S) - size, np.arange(S))),
    "the last two values change places": _values_by(lambda S, _: np.array([*range(S - 2), S - 1, S - 2])),
    "a key's number wraps": group_by(_wrapping),
    "the last block is of the next head": group_by(_last_of_next_head),
    "the last block is of the first batch entry": group_by(_last_of_first_batch),
}


Table = Callable[[Array, int], Array]
"""What becomes of a mask or a bias, (B,H,T,S), in tiles of a size."""


def _of_mask(change: Table) -> Mechanism:
    """A mask that is misread."""
    return lambda size: {"masked": sound.with_mask(lambda mask, _: change(mask, size))}


def _of_bias(change: Table) -> Mechanism:
    """A bias that is misread; what it hides by -inf stays hidden."""
    def add(logits: Array, work: PreparedCall, size: int) -> Array:
        """Logits (B,H,T,S) plus the bias as it is misread."""
        return logits if work.bias is None else logits + change(work.bias, size).astype(logits.dtype)
    return each_by("add_bias", add)


def _stride_rounded_up(table: Array, size: int) -> Array:
    """A table (B,H,T,S) read as if its rows were padded to whole blocks; 0 behind a head's end."""
    B, H, T, S = table.shape
    stride = -(-S // size) * size
    memory = np.pad(table.reshape(B * H, T * S), [(0, 0), (0, T * (stride - S))])
    return memory.reshape(B, H, T, stride)[..., :S]


def _tiles_transposed(table: Array, size: int) -> Array:
    """A table (B,H,T,S) whose whole tiles have rows and columns exchanged."""
    B, H, T, S = table.shape
    rows, columns = T // size, S // size
    whole = table[:, :, :rows * size, :columns * size].reshape(B, H, rows, size, columns, size)
    changed = table.copy()
    changed[:, :, :rows * size, :columns * size] = whole.swapaxes(3, 5).reshape(B, H, rows * size, columns * size)
    return changed


def _of_first(axis: int) -> Table:
    """A table whose first entry along an axis serves for all."""
    return lambda table, _: np.broadcast_to(np.take(table, [0], axis=axis), table.shape)


def _wrapped_places(axis: int) -> Table:
    """A table whose row or column numbers wrap at the size."""
    return lambda table, size: np.take(table, np.arange(table.shape[axis]) % size, axis=axis)


def _left_out(table: Array, size: int) -> Array:
    """A table (B,H,T,S) without effect: a mask that hides nothing, a bias that adds nothing."""
    return np.ones_like(table) if table.dtype == bool else np.zeros_like(table)


def _left_out_in_last(table: Array, size: int) -> Array:
    """A table (B,H,T,S) without effect in the last block of keys."""
    return np.where(in_last(table.shape[-1], size), _left_out(table, size), table)


def _whole_blocks(table: Array, size: int) -> Array:
    """A mask (B,H,T,S) that shows a whole block of keys if one of them is visible."""
    S = table.shape[-1]
    padded = np.pad(table, [(0, 0)] * 3 + [(0, -S % size)])
    blocks = padded.reshape(*table.shape[:-1], -1, size).any(axis=-1)
    return np.repeat(blocks, size, axis=-1)[..., :S]


def _causal(seen: Callable[[Array, Array, int, PreparedCall], Array]) -> Mechanism:
    """Another causal flag: what rows (T,1) see of columns (S,), by size and call, (T,S)."""
    def past(work: PreparedCall, size: int) -> Array:
        """What is allowed, (T,S); everything if the call is not causal."""
        if not work.causal:
            return sound.past(work)
        _, _, T, S = work.shape
        return seen(np.arange(T)[:, None], np.arange(S), size, work)
    return each_by("past", past)


def _short_of_last_tile(row: Array, column: Array, size: int, work: PreparedCall) -> Array:
    """The keys that rows see, (T,S), if rows of the last tile stop where the tile begins."""
    first = last_block(work.shape[2], size)
    return (column <= row) & ((row < first) | (column < first))


def _nan_of_future(logits: Array, work: PreparedCall, size: int) -> Array:
    """Weights (B,H,T,S) of logits (B,H,T,S), NaN in rows that meet a block of later keys alone."""
    _, _, T, S = work.shape
    row, block = np.arange(T), size * 3 // 2
    last = last_block(np.minimum(row // size * size + size, S), block)
    return np.where((last > row)[:, None], np.nan, sound.softmax(logits, work)).astype(logits.dtype)


HIDING: Mapping[str, Mechanism] = {
    "mask rows are read with a padded stride": _of_mask(_stride_rounded_up),
    "mask tiles are transposed": _of_mask(_tiles_transposed),
    "the first batch entry's mask is used for all": _of_mask(_of_first(0)),
    "the first head's mask is used for all": _of_mask(_of_first(1)),
    "a mask row's number wraps": _of_mask(_wrapped_places(2)),
    "a mask column's number wraps": _of_mask(_wrapped_places(3)),
    "the mask is left out": _of_mask(_left_out),
    "the mask is left out in the last block": _of_mask(_left_out_in_last),
    "the mask is left out beyond the first tile": _of_mask(
        lambda table, size: np.where(np.arange(table.shape[-1]) >= size, _left_out(table, size), table)),
    "mask columns are moved by the padding": _of_mask(
        lambda table, size: np.roll(table, -table.shape[-1] % size, axis=-1)),
    "masked blocks are seen as a whole": _of_mask(_whole_blocks),
    "bias rows are read with a padded stride": _of_bias(_stride_rounded_up),
    "bias tiles are transposed": _of_bias(_tiles_transposed),
    "the first batch entry's bias is used for all": _of_bias(_of_first(0)),
    "the first head's bias is used for all": _of_bias(_of_first(1)),
    "a bias row's number wraps": _of_bias(_wrapped_places(2)),
    "a bias column's number wraps": _of_bias(_wrapped_places(3)),
    "the bias is left out": _of_bias(_left_out),
    "the bias is left out in the last block": _of_bias(_left_out_in_last),
    "the diagonal tile is open": _causal(lambda row, column, size, _: column // size <= row // size),
    "the tile after the diagonal is open": _causal(lambda row, column, size, _: column // size <= row // size + 1),
    "the diagonal tile is closed":
        _causal(lambda row, column, size, _: (column <= row) & ((column // size < row // size) | (column < size))),
    "rows of the last tile stop where it begins": _causal(_short_of_last_tile),
    "a block of only later keys gives NaN": each_by("softmax", _nan_of_future),
    "the diagonal ends in the last corner":
        _causal(lambda row, column, _, work: column <= row + work.shape[3] - work.shape[2]),
    "the causal flag is left out": _causal(lambda row, column, *_: (column >= 0) & (row >= 0)),
}
