"""Faults of key and query lengths: lost, of another entry, miscounted, or heeded in part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as sound
from attnspec.faults import state
from attnspec.faults.fault import (
    BLOCKS,
    EVEN,
    ONE,
    QUERIES,
    RAGGED,
    AspectFaults,
    Fault,
    Outside,
    WrongForm,
    panel_recipe,
)
from attnspec.faults.lost_keywords import WITH_PLACED, LostKeyword, forget, heed_in_first
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import Array

BLOCK = 8
Keys = Callable[[PreparedCall], Array]


class LengthsStage(AspectStage):
    """The numbers of keys and queries as attention computes them."""

    def own_keys(self, call: KeywordArguments[Array], keys: int) -> Array | None:
        """The keys that each batch entry has, (B,1,1,S); None without their numbers."""
        return None if call.key_lengths is None else np.arange(keys) < call.key_lengths[:, None, None, None]

    def own_queries(self, call: KeywordArguments[Array], queries: int) -> Array | None:
        """The queries that each batch entry has, (B,1,T,1); None without their numbers."""
        if call.query_lengths is None:
            return None
        return np.arange(queries)[:, None] < call.query_lengths[:, None, None, None]


STAGE = LengthsStage()


def _all(work: PreparedCall) -> Array:
    """All keys for every entry, (B,1,1,S)."""
    return np.ones((work.shape[0], 1, 1, work.shape[3]), bool)


def _own_keys(work: PreparedCall) -> Array:
    """The keys of each batch entry, (B,1,1,S); all of them without lengths."""
    own = STAGE.own_keys(work, work.shape[3])
    return _all(work) if own is None else own


def _with_own_keys(keys: Keys, **more: Any) -> Callable[[], Attend]:  # noqa: ANN401  (as `staged`)
    """A maker of attention functions in which entries have other keys, (B,1,1,S) or more of it.

    What further aspects hide stays hidden.
    """
    return staged(own_keys=lambda work: keys(work) & sound.own_keys(work.but(key_lengths=None)), **more)


def _with_lengths(change: Callable[[Array], Array]) -> Keys:
    """The keys of each entry, (B,1,1,S), by other lengths (B,)."""
    def keys(work: PreparedCall) -> Array:
        """The keys of each entry, (B,1,1,S)."""
        lengths = work.key_lengths
        return _own_keys(work if lengths is None else work.but(key_lengths=change(lengths)))
    return keys


def _bound_by_queries(work: PreparedCall) -> Array:
    """The keys of each entry, (B,1,1,S), no more of them than there are queries."""
    return _with_lengths(lambda lengths: np.minimum(lengths, work.shape[2]))(work)


def _of_flat_heads(work: PreparedCall) -> Array:
    """The keys of each entry and head, (B,H,1,S), by lengths that are read at the head's index."""
    B, H, _, S = work.shape
    if work.key_lengths is None:
        return _all(work)
    flat = work.key_lengths[np.arange(B * H).reshape(B, H) % B]
    return np.arange(S) < flat[..., None, None]


def _add_penalty_beyond(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, lowered by 1e4 behind a length."""
    biased = sound.add_bias(logits, work)
    return np.where(_own_keys(work), biased, biased + biased.dtype.type(-1e4))


def _in_the_sum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), with keys behind a length in the sum, though they weigh 0."""
    weights = sound.softmax(logits, work)
    return np.where(_own_keys(work), weights, 0)


def _rows_instead(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), whose rows are unpadded by the lengths of the keys."""
    if work.key_lengths is None:
        return sound.clear(output, work)
    return sound.clear(output, work.but(query_lengths=work.key_lengths))


def _from_lengths(work: PreparedCall) -> Array:
    """What the causal flag allows, (B,1,T,S), counted from the ends of the lengths."""
    if not work.causal or work.key_lengths is None:
        return sound.past(work)
    ahead = np.arange(work.shape[3]) - np.arange(work.shape[2])[:, None]
    return ahead <= (work.key_lengths - work.shape[2])[:, None, None, None]


def _longest(work: PreparedCall) -> Sequence[int]:
    """The ends of two parts, cut in the middle of the longest entry's keys."""
    S = work.shape[3]
    most = S if work.key_lengths is None else int(work.key_lengths.max(initial=0))
    return (most // 2, S)


Clear = Callable[[Array, PreparedCall], Array]


def _with_row_lengths(change: Callable[[Array], Array]) -> Clear:
    """A `clear` stage with other lengths (B,)."""
    def clear(output: Array, work: PreparedCall) -> Array:
        """The output (B,H,T,Dv), with zeros behind these lengths."""
        lengths = work.query_lengths
        return sound.clear(output, work if lengths is None else work.but(query_lengths=change(lengths)))
    return clear


def _spoilt(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), NaN behind a length, as 0/0 of an empty buffer."""
    beyond = sound.clear(np.ones_like(output), work) == 0
    return np.where(beyond, np.nan, output)


def _store_packed(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), stored row after row without padding, and read at equal distances."""
    if work.query_lengths is None:
        return output
    B, H, T, Dv = output.shape
    rows = np.concatenate([output[entry, :, :length] for entry, length in enumerate(work.query_lengths)], axis=1)
    memory = np.zeros((H, B * T, Dv), output.dtype)
    memory[:, :rows.shape[1]] = rows
    return sound.clear(memory.reshape(H, B, T, Dv).swapaxes(0, 1), work)


def _also_of_keys(work: PreparedCall) -> Array:
    """The keys of each entry, (B,1,1,S), no more of them than it has queries."""
    own, lengths = sound.own_keys(work), work.query_lengths
    return own if lengths is None else own & sound.own_keys(work.but(key_lengths=lengths))


def _from_the_end(work: PreparedCall) -> Array:
    """What the causal flag allows, (B,1,T,S), as if an entry's queries were the last rows."""
    if not work.causal or work.query_lengths is None:
        return sound.past(work)
    ahead = np.arange(work.shape[3]) - np.arange(work.shape[2])[:, None]
    return ahead <= (work.shape[2] - work.query_lengths)[:, None, None, None]


def _of_keys(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), cleared by the numbers of keys in place of those of queries."""
    if work.query_lengths is None or work.key_lengths is None:
        return sound.clear(output, work)
    return sound.clear(output, work.but(query_lengths=work.key_lengths))


_FEWER_KEYS = "lengths below S"
_FEWER_QUERIES = "lengths below T"
_UNEQUAL = "entries of unequal length"

_LOST = LostKeyword("key_lengths", "The lengths are", f"{_FEWER_KEYS},")

_OF_KEYS = (
    Fault("key_lengths_ignored", "key_lengths",
          "The lengths are accepted and not applied.", _FEWER_KEYS, forget("key_lengths")),
    Fault("key_lengths_of_next", "key_lengths", "Each batch entry has the length of the next one.",
          _UNEQUAL, _with_own_keys(_with_lengths(lambda lengths: np.roll(lengths, -1)))),
    Fault("key_lengths_of_first", "key_lengths", "All batch entries have the length of the first.", _UNEQUAL,
          _with_own_keys(_with_lengths(lambda lengths: np.full_like(lengths, lengths[0])))),
    Fault("key_lengths_largest", "key_lengths", "The batch is cut to its longest entry, and no further.", _UNEQUAL,
          _with_own_keys(_with_lengths(lambda lengths: np.full_like(lengths, lengths.max())))),
    Fault("key_lengths_one_longer", "key_lengths", "The comparison is <= in place of <.",
          _FEWER_KEYS, _with_own_keys(_with_lengths(lambda lengths: lengths + 1))),
    Fault("key_lengths_one_shorter", "key_lengths", "The index of the last key is taken for the number of keys.",
          "lengths of 1 or more", _with_own_keys(_with_lengths(lambda lengths: lengths - 1))),
    Fault("key_lengths_rounded_up", "key_lengths", "The last block of 8 keys is attended to whole.",
          "lengths below S that are no multiple of 8",
          _with_own_keys(_with_lengths(lambda lengths: -(-lengths // BLOCK) * BLOCK))),
    Fault("key_lengths_rounded_down", "key_lengths", "The last block of 8 keys is left out where it is not full.",
          "lengths above 8 that are no multiple of 8",
          _with_own_keys(_with_lengths(lambda lengths: np.where(lengths > BLOCK, lengths // BLOCK * BLOCK, lengths)))),
    Fault("key_lengths_zero_is_all", "key_lengths", "A length of 0 is taken for one that was not given.",
          "a length of 0", _with_own_keys(lambda work: _own_keys(work) | ~_own_keys(work).any(axis=-1, keepdims=True))),
    Fault("key_lengths_from_the_end", "key_lengths", "The last keys are attended to, as after padding on the left.",
          _FEWER_KEYS, _with_own_keys(lambda work: _own_keys(work)[..., ::-1])),
    Fault("key_lengths_of_flat_heads", "key_lengths",
          "The kernel's index runs over batch entries and heads, and reads the lengths as if over entries.",
          "entries of unequal length, H > 1", _with_own_keys(_of_flat_heads)),
    Fault("key_lengths_first_head_only", "key_lengths", "The lengths are heeded in the first head only.",
          "lengths below S, H > 1", heed_in_first(1, "key_lengths")),
    Fault("key_lengths_not_in_last_row", "key_lengths",
          "The last query is masked by the tile's edge alone.", _FEWER_KEYS,
          _with_own_keys(lambda work: _own_keys(work) | (np.arange(work.shape[2]) == work.shape[2] - 1)[:, None])),
    Fault("key_lengths_bound_by_queries", "key_lengths", "One length serves queries and keys.",
          "lengths above T", _with_own_keys(_bound_by_queries)),
    Fault("key_lengths_of_queries", "key_lengths", "The query rows are unpadded with the lengths of the keys.",
          "lengths below T", staged(clear=_rows_instead)),
    Fault("key_lengths_shift_causal", "key_lengths",
          "With lengths, the causal flag is aligned at the end, and without at the beginning.",
          "lengths other than T, together with causal", staged(past=_from_lengths)),
    Fault("key_lengths_add_1e4", "key_lengths", "Logits beyond a length are lowered by 1e4, not hidden.",
          "logits that differ by 1e4, or a length of 0", _with_own_keys(_all, add_bias=_add_penalty_beyond)),
    Fault("key_lengths_after_softmax", "key_lengths", "Weights beyond a length become 0 after the softmax.",
          _FEWER_KEYS, _with_own_keys(_all, softmax=_in_the_sum)),
    Fault("key_lengths_zero_times_content", "key_lengths",
          "What lies beyond a length is multiplied by a weight of 0, and 0 times NaN is NaN.",
          "NaN or infinity beyond a length", staged(mix=lambda weights, work: weights @ work.value)),
    *_LOST.dropped("with_mask", "with_bias", *WITH_PLACED, "for_one_query"),
    Fault("mapped_lengths_of_first", "key_lengths", "The lengths are not mapped along with the queries.",
          "lengths that differ, mapped", staged(),
          made=WrongForm("vmap", _with_own_keys(_with_lengths(lambda own: np.broadcast_to(own[:1], own.shape))))),
    state.fault("parts_by_longest", "The keys are cut in the middle of the longest entry's.",
                "entries of several lengths", state.in_parts(_longest), "key_lengths"),
)

_OF_QUERIES = (
    Fault("query_lengths_ignored", "query_lengths", "Rows beyond a length are computed, although zeros are due.",
          _FEWER_QUERIES, staged(clear=lambda output, _: output)),
    Fault("query_lengths_of_next", "query_lengths", "Each batch entry has the length of the next one.", _UNEQUAL,
          staged(clear=_with_row_lengths(lambda lengths: np.roll(lengths, -1)))),
    Fault("query_lengths_of_first", "query_lengths", "All batch entries have the length of the first.", _UNEQUAL,
          staged(clear=_with_row_lengths(lambda lengths: np.full_like(lengths, lengths[0])))),
    Fault("query_lengths_one_longer", "query_lengths", "One row more is written than the entry has.", _FEWER_QUERIES,
          staged(clear=_with_row_lengths(lambda lengths: lengths + 1))),
    Fault("query_lengths_one_shorter", "query_lengths", "The last row of each entry is lost.",
          "lengths of 1 or more", staged(clear=_with_row_lengths(lambda lengths: lengths - 1))),
    Fault("query_lengths_rounded_down", "query_lengths", "The last tile of 8 rows is lost where it is not full.",
          "lengths above 8 that are no multiple of 8",
          staged(clear=_with_row_lengths(
              lambda lengths: np.where(lengths > BLOCK, lengths // BLOCK * BLOCK, lengths)))),
    Fault("query_lengths_rounded_up", "query_lengths", "The last tile of 8 rows is written whole.",
          "lengths below T that are no multiple of 8",
          staged(clear=_with_row_lengths(lambda lengths: -(-lengths // BLOCK) * BLOCK))),
    Fault("query_lengths_from_the_end", "query_lengths", "The last rows are kept, as after padding on the left.",
          _FEWER_QUERIES, staged(clear=lambda output, work: sound.clear(output[:, :, ::-1], work)[:, :, ::-1])),
    Fault("query_lengths_beyond_nan", "query_lengths", "Rows beyond a length are 0/0, although zeros are due.",
          _FEWER_QUERIES, staged(clear=_spoilt)),
    Fault("query_lengths_packed_together", "query_lengths",
          "Rows are stored one entry after the other, and read back as if all entries were of one length.",
          "lengths below T, B > 1", staged(clear=_store_packed)),
    Fault("query_lengths_limit_keys", "query_lengths", "The numbers of queries hide keys, as if T were S.",
          "lengths below S", staged(own_keys=_also_of_keys)),
    Fault("query_lengths_of_keys", "query_lengths", "The two kinds of lengths are exchanged for the rows.",
          "both kinds of lengths, which differ", staged(clear=_of_keys)),
    Fault("query_lengths_shift_causal", "query_lengths",
          "The causal flag takes an entry's queries for the last rows of the batch.",
          "lengths below T, together with causal", staged(past=_from_the_end)),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "mask dropped": {"jax-ml/jax/issues/23349": "mask_ignored key_lengths_ignored"},
    "ragged lengths": {
        "NVIDIA/TransformerEngine/pull/399": "keys_beyond_queries_lost key_lengths_bound_by_queries "
                                             "query_lengths_limit_keys packed_borders_of_queries",
        "vllm-project/vllm-omni/issues/5865":
            "mask_hides_queries key_lengths_of_queries query_lengths_of_keys",
    },
}

_PANEL = (
    panel_recipe(RAGGED, "key_lengths", seed=72), panel_recipe(RAGGED, "key_lengths causal", seed=73),
    panel_recipe(RAGGED, "key_lengths mask", seed=74),
    panel_recipe(EVEN, "key_lengths bias", seed=75, key_lengths="one_short"),
    panel_recipe(ONE, "key_lengths", seed=76), panel_recipe(BLOCKS, "key_lengths", seed=77, key_lengths="first_full"),
    panel_recipe(QUERIES, "query_lengths", seed=78), panel_recipe(RAGGED, "query_lengths key_lengths causal", seed=79),
)

MISTAKES = AspectFaults(about={"key_lengths": _OF_KEYS, "query_lengths": _OF_QUERIES}, bugs=_BUGS, panel=_PANEL)
