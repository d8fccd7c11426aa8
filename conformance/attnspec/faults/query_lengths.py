"""Numbers of queries that are lost, taken from another batch entry, counted wrongly, or applied to keys."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import serving
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

BLOCK = 8
Clear = Callable[[Array, PreparedCall], Array]


def _with_lengths(change: Callable[[Array], Array]) -> Clear:
    """A `clear` stage with other lengths (B,) than it was given."""
    return lambda output, work: serving.clear(output, work if work.query_lengths is None else
                                            work.but(query_lengths=change(work.query_lengths)))


def _not_cleared(output: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The output (B,H,T,Dv), all rows."""
    return output


def _last_ones(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): as many rows as the entry has are kept, counted from the end."""
    return serving.clear(output[:, :, ::-1], work)[:, :, ::-1]


def _spoilt(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): rows beyond a length are what an empty buffer divided by 0 gives."""
    beyond = serving.clear(np.ones_like(output), work) == 0
    return np.where(beyond, np.nan, output)


def _packed(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): rows of all entries are stored one after the other, and read back at equal distances."""
    if work.query_lengths is None:
        return output
    B, H, T, Dv = output.shape
    rows = np.concatenate([output[entry, :, :length] for entry, length in enumerate(work.query_lengths)], axis=1)
    memory = np.zeros((H, B * T, Dv), output.dtype)
    memory[:, :rows.shape[1]] = rows
    return serving.clear(memory.reshape(H, B, T, Dv).swapaxes(0, 1), work)


def _also_of_keys(work: PreparedCall) -> Array:
    """(B,1,1,S): the numbers of queries limit the keys as well."""
    lengths = work.query_lengths
    return serving.own_keys(work) & (serving.own_keys(work) if lengths is None else
                                   serving.own_keys(work.but(key_lengths=lengths)))


def _from_the_end(work: PreparedCall) -> Array:
    """(B,1,T,S): the causal flag counts as if the entry's queries were the last rows."""
    if not work.causal or work.query_lengths is None:
        return sound.past(work)
    ahead = np.arange(work.shape[3]) - np.arange(work.shape[2])[:, None]
    return ahead <= (work.shape[2] - work.query_lengths)[:, None, None, None]


def _of_keys(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): where both are given, the numbers of keys say which rows are kept."""
    is_swapped = work.query_lengths is not None and work.key_lengths is not None
    return serving.clear(output, work.but(query_lengths=work.key_lengths) if is_swapped else work)


_ANY = "lengths below T"
_UNEQUAL = "entries of unequal length"

FAULTS = (
    Fault("query_lengths_ignored", Stage.QUERY_LENGTHS, "Rows beyond a length are computed, although zeros are due.",
          _ANY, staged(clear=_not_cleared)),
    Fault("query_lengths_of_next", Stage.QUERY_LENGTHS, "Each batch entry has the length of the next one.", _UNEQUAL,
          staged(clear=_with_lengths(lambda lengths: np.roll(lengths, -1)))),
    Fault("query_lengths_of_first", Stage.QUERY_LENGTHS, "All batch entries have the length of the first.", _UNEQUAL,
          staged(clear=_with_lengths(lambda lengths: np.full_like(lengths, lengths[0])))),
    Fault("query_lengths_one_longer", Stage.QUERY_LENGTHS, "One row more is written than the entry has.", _ANY,
          staged(clear=_with_lengths(lambda lengths: lengths + 1))),
    Fault("query_lengths_one_shorter", Stage.QUERY_LENGTHS, "The last row of each entry is lost.",
          "lengths of 1 or more", staged(clear=_with_lengths(lambda lengths: lengths - 1))),
    Fault("query_lengths_rounded_down", Stage.QUERY_LENGTHS, "The last tile of 8 rows is lost where it is not full.",
          "lengths above 8 that are no multiple of 8",
          staged(clear=_with_lengths(lambda lengths: np.where(lengths > BLOCK, lengths // BLOCK * BLOCK, lengths)))),
    Fault("query_lengths_rounded_up", Stage.QUERY_LENGTHS, "The last tile of 8 rows is written whole.",
          "lengths below T that are no multiple of 8",
          staged(clear=_with_lengths(lambda lengths: -(-lengths // BLOCK) * BLOCK))),
    Fault("query_lengths_from_the_end", Stage.QUERY_LENGTHS, "The last rows are kept, as after padding on the left.",
          _ANY, staged(clear=_last_ones)),
    Fault("query_lengths_beyond_nan", Stage.QUERY_LENGTHS, "Rows beyond a length are 0/0, although zeros are due.",
          _ANY, staged(clear=_spoilt)),
    Fault("query_lengths_packed_together", Stage.QUERY_LENGTHS,
          "Rows are stored one entry after the other, and read back as if all entries were of one length.",
          "lengths below T, B > 1", staged(clear=_packed)),
    Fault("query_lengths_limit_keys", Stage.QUERY_LENGTHS, "The numbers of queries hide keys, as if T were S.",
          "lengths below S", staged(own_keys=_also_of_keys),
          link="https://github.com/NVIDIA/TransformerEngine/pull/399"),
    Fault("query_lengths_of_keys", Stage.QUERY_LENGTHS, "The two kinds of lengths are exchanged for the rows.",
          "both kinds of lengths, which differ", staged(clear=_of_keys),
          link="https://github.com/vllm-project/vllm-omni/issues/5865"),
    Fault("query_lengths_shift_causal", Stage.QUERY_LENGTHS,
          "The causal flag takes an entry's queries for the last rows of the batch.",
          "lengths below T, together with causal", staged(past=_from_the_end)),
)
