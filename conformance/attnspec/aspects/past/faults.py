"""Faults of past keys and values: lost, taken from elsewhere, or put in the wrong place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults import state
from attnspec.faults.fault import (
    GROUPED,
    LONGER,
    ONE,
    QUERIES,
    RAGGED,
    SQUARE,
    AspectFaults,
    Fault,
    Outside,
    panel_recipe,
)
from attnspec.faults.staged import around, attention, staged
from attnspec.faults.staged_forms import put_behind
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

Change = Callable[[Array, Array], Array]
"""Keys or values of all calls (B,Hkv,P+S,·), of past (B,Hkv,P,·) and new ones (B,Hkv,S,·)."""


def _put_together(change: Change | None = None, *, value: Change | None = None) -> Callable[[HandedOver], HandedOver]:
    """An `extend` stage that joins all keys, and values, by `change`; values alone by `value`."""
    def extend(call: HandedOver) -> HandedOver:
        if call.past_key is None or call.past_value is None:
            return call
        key = (change or put_behind)(call.past_key, call.key)
        joined = (value or change or put_behind)(call.past_value, call.value)
        return sound.extend(call).but(key=np.ascontiguousarray(key), value=np.ascontiguousarray(joined))
    return extend


def _with_past(change: Callable[[Array], Array]) -> Change:
    """Another past (B,Hkv,P,·) before the new ones."""
    return lambda past, new: put_behind(change(past), new)


def _without_first(past: Array) -> Array:
    """A past (B,Hkv,P,·) with zeros at the first place."""
    return np.where(np.arange(past.shape[2])[:, None] == 0, np.zeros_like(past), past)


def _one_slot_late(past: Array) -> Array:
    """A past (B,Hkv,P,·), each entry one place further on, the last one first."""
    return np.roll(past, 1, axis=2)


def _over_the_last(past: Array, new: Array) -> Array:
    """Past and new entries (B,Hkv,P+S,·), the first new one in place of the last past one, too."""
    if past.shape[2] == 0:
        return new
    return np.concatenate([past[:, :, :-1], new[:, :, :1], new], axis=2)


def _tile_past_heads(call: HandedOver) -> HandedOver:
    """The call, its past heads repeated one after the other, new ones each beside itself."""
    if call.past_key is None or call.past_value is None:
        return call
    H, order = call.query.shape[1], np.arange(call.query.shape[1]) % call.key.shape[1]
    return sound.extend(call.but(
        key=sound.group(call.key, H), value=sound.group(call.value, H),
        past_key=call.past_key[:, order], past_value=call.past_value[:, order]))


def _columns(work: PreparedCall) -> Array:
    """Which keys are past, (S,)."""
    return np.arange(work.shape[3]) < sound.start(work)


def _hide_past(work: PreparedCall) -> Array:
    """The keys that queries may see, (B,1,1,S), none of them past."""
    return sound.own_keys(work) & ~_columns(work)


def _hidden_if(condition: Callable[[PreparedCall], bool]) -> Callable[[PreparedCall], Array]:
    return lambda work: _hide_past(work) if condition(work) else sound.own_keys(work)


def _start_at(place: Callable[[PreparedCall], Any]) -> Callable[[PreparedCall], Array | int]:
    """A `start` stage with another place of the first query behind a past."""
    return lambda work: 0 if work.past_key is None else place(work)


def _behind_length(work: PreparedCall) -> Array | int:
    """The place of the first query, (B,1,1,1), counted back from the lengths if there are any."""
    if work.key_lengths is None:
        return sound.start(work)
    return (work.key_lengths - work.shape[2])[:, None, None, None]


def _one_future_key(work: PreparedCall) -> Array:
    """The keys that the causal flag allows, (T,S), with the next one behind a past."""
    return sound.past(work if work.past_key is None else work.but(start=sound.start(work) + 1))


def _bias_rolled(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, whose columns are read as if new keys came first."""
    if work.bias is None:
        return logits
    return logits + np.roll(work.bias, sound.start(work), axis=-1)


def _lengths_of_new(work: PreparedCall) -> Array:
    """The keys of each entry, (B,1,1,S), with lengths that count new keys alone."""
    if work.key_lengths is None:
        return sound.own_keys(work)
    return sound.own_keys(work.but(key_lengths=work.key_lengths + sound.start(work)))


def _overwrites(call: HandedOver) -> Answer:
    """The answer; the last slot of the past is overwritten with the last new key."""
    answer = attention(call)
    if call.past_key is not None and call.past_key.shape[2]:
        call.past_key[:, :, -1] = call.key[:, :, -1]
    return answer


def _needs_past(call: HandedOver) -> Answer:
    """The answer, zeros if there is an empty past."""
    answer = attention(call)
    if call.past_key is None or call.past_key.shape[2]:
        return answer
    return tuple(map(np.zeros_like, answer)) if isinstance(answer, tuple) else np.zeros_like(answer)


def _kept_small(past: Array) -> Array:
    """A past (B,Hkv,P,·), rounded to bfloat16."""
    return past.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32).astype(past.dtype)


def _past_in_pages(work: PreparedCall) -> Sequence[int]:
    """The ends of parts of four past keys, and of the new ones."""
    P, S = _past_apart(work)
    return (*range(4, P, 4), P, S)


def _past_apart(work: PreparedCall) -> Sequence[int]:
    """The ends of two parts, past and new keys."""
    return (0 if work.past_key is None else work.past_key.shape[2], work.shape[3])


def _keys_instead(call: HandedOver) -> HandedOver:
    """The call with past keys in place of past values, if both have one width."""
    if call.past_key is None or call.past_value is None or call.past_key.shape != call.past_value.shape:
        return sound.extend(call)
    return sound.extend(call.but(past_value=call.past_key))


_ANY = "a past"
_UNEQUAL = "a past, B > 1"
_TWO = "a past of two keys and more"

_OF_KEYS = (
    Fault("past_ignored", "past_key", "The cache is handed over and never read.", _ANY, staged(own_keys=_hide_past)),
    Fault("past_after_new", "past_key", "New keys and values are put before the past ones.",
          "a past, together with what tells keys apart by place",
          staged(extend=_put_together(lambda past, new: put_behind(new, past)))),
    Fault("past_of_next_entry", "past_key", "The cache is not reordered with its batch: each entry has another's.",
          _UNEQUAL, staged(extend=_put_together(_with_past(lambda past: np.roll(past, -1, axis=0))))),
    Fault("past_of_first_entry", "past_key", "All batch entries have the past of the first.", _UNEQUAL,
          staged(extend=_put_together(_with_past(lambda past: np.repeat(past[:1], len(past), axis=0))))),
    Fault("past_of_next_head", "past_key", "Each head has the past of the next.", "a past, Hkv > 1",
          staged(extend=_put_together(_with_past(lambda past: np.roll(past, -1, axis=1))))),
    Fault("past_heads_tiled", "past_key", "Grouped heads of the past are repeated in another order than new ones.",
          "a past, Hkv > 1, Hkv < H", staged(extend=_tile_past_heads)),
    Fault("past_first_lost", "past_key", "The first position is never written to the cache.", _ANY,
          staged(extend=_put_together(_with_past(_without_first)))),
    Fault("past_last_overwritten", "past_key", "The cache is written one step early, over its last entry.", _ANY,
          staged(extend=_put_together(_over_the_last))),
    Fault("past_one_slot_late", "past_key", "The ring of the cache is turned by one slot.",
          f"{_TWO}, together with what tells them apart by place",
          staged(extend=_put_together(_with_past(_one_slot_late)))),
    Fault("past_kept_in_bfloat16", "past_key", "The cache is kept in bfloat16.",
          "entries that bfloat16 does not hold", staged(extend=_put_together(_with_past(_kept_small))),
          equivalents={DType.BFLOAT16: "the cache is of this dtype anyway"}),
    Fault("past_offset_forgotten", "past_key", "With a past, queries still count from the first key.",
          "a past, together with what counts from a query's place", staged(start=lambda _: 0)),
    Fault("past_offset_twice", "past_key", "The length of the past is added to a query's place twice.",
          "a past, together with what counts from a query's place", staged(start=lambda work: 2 * sound.start(work))),
    Fault("past_offset_from_the_end", "past_key", "The last query stands at the last key, whatever the past.",
          "a past, more or fewer new keys than queries, together with what counts from a query's place",
          staged(start=_start_at(lambda work: work.shape[3] - work.shape[2]))),
    Fault("past_offset_of_lengths", "past_key", "A query's place is counted back from the length of its entry.",
          "a past and lengths, together with what counts from a query's place",
          staged(start=_start_at(_behind_length))),
    Fault("past_causal_dropped", "past_key", "The causal flag is heeded only where there is no cache.",
          "a past and several new keys, together with causal",
          staged(past=lambda work: sound.past(work if work.past_key is None else work.but(causal=False)))),
    Fault("past_causal_one_ahead", "past_key", "Behind a past, each query sees one future key.",
          "a past and several new keys, together with causal", staged(past=_one_future_key)),
    Fault("past_not_masked", "past_key", "The mask is laid over the new keys only.", "a past, together with a mask",
          staged(masked=lambda work: sound.masked(work) | _columns(work))),
    Fault("past_mask_rolled", "past_key", "The mask's first columns are taken for the new keys.",
          "a past, together with a mask",
          staged(masked=lambda work: np.roll(sound.masked(work), sound.start(work), axis=-1))),
    Fault("past_without_bias", "past_key", "The bias is added to the logits of new keys only.",
          "a past, together with a bias",
          staged(add_bias=lambda logits, work: np.where(_columns(work), logits, sound.add_bias(logits, work)))),
    Fault("past_bias_rolled", "past_key", "The bias's first columns are taken for the new keys.",
          "a past, together with a bias", staged(add_bias=_bias_rolled)),
    Fault("past_not_in_lengths", "past_key", "The numbers of keys count new keys only.",
          "a past, together with lengths below the number of all keys", staged(own_keys=_lengths_of_new)),
    Fault("past_beyond_lengths", "past_key", "Slots of the cache that lie beyond a length are read.",
          "a past, longer than the length of an entry",
          staged(own_keys=lambda work: sound.own_keys(work) | _columns(work))),
    Fault("past_dropped_for_one_query", "past_key", "The path for a single query (T = 1) reads no cache.",
          "a past with T = 1", staged(own_keys=_hidden_if(lambda work: work.shape[2] == 1))),
    Fault("past_for_one_query_only", "past_key", "The path for several queries reads no cache.",
          "a past with T > 1", staged(own_keys=_hidden_if(lambda work: work.shape[2] > 1))),
    Fault("past_overwritten_in_place", "past_key",
          "The caller's cache is used as the ring that is written to.", _ANY, around(_overwrites)),
    Fault("past_empty_gives_zeros", "past_key", "An empty cache is taken for no keys at all.",
          "a past of length 0", around(_needs_past)),
    state.fault("past_in_pages", "Past keys are added up in pages of four, all new ones as one part.",
                "a past of some keys", state.in_parts(_past_in_pages), "past_key"),
    state.fault("past_apart", "Past and new keys are added up apart, and then put together.", "a past",
                state.in_parts(_past_apart), "past_key"),
)

_OF_VALUES = (
    Fault("past_value_after_new", "past_value", "Keys are put together in one order, values in the other.",
          "a past", staged(extend=_put_together(value=lambda past, new: put_behind(new, past)))),
    Fault("past_value_lost", "past_value", "Only keys are written to the cache; its values stay zeros.", "a past",
          staged(extend=_put_together(value=_with_past(np.zeros_like)))),
    Fault("past_value_is_key", "past_value", "The cache of keys is handed on as that of values.",
          "a past, D = Dv", staged(extend=_keys_instead)),
    Fault("past_value_of_next_entry", "past_value", "Keys are reordered with their batch, values are not.",
          "a past, B > 1", staged(extend=_put_together(value=_with_past(lambda past: np.roll(past, -1, axis=0))))),
    Fault("past_value_of_next_head", "past_value", "Each head has the cached values of the next.",
          "a past, Hkv > 1", staged(extend=_put_together(value=_with_past(lambda past: np.roll(past, -1, axis=1))))),
    Fault("past_value_of_neighbour", "past_value", "Each cached key has the value of the slot before it.", _TWO,
          staged(extend=_put_together(value=_with_past(_one_slot_late)))),
    Fault("past_value_first_lost", "past_value", "The first value is never written to the cache.",
          "a past", staged(extend=_put_together(value=_with_past(_without_first)))),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "cache index": {
        "TrenTorch/TrenTorch/pull/192":
            "key_first_dropped past_first_lost past_value_first_lost decoder_first_token_lost",
    },
}

_BOTH = "past_key past_value"

_PANEL = (
    panel_recipe(GROUPED, _BOTH, seed=87), panel_recipe(QUERIES, _BOTH, seed=88, past_key="one_past"),
    panel_recipe(SQUARE, f"{_BOTH} causal", seed=89),
    panel_recipe(LONGER, f"{_BOTH} causal", seed=90, past_key="new_as_queries"),
    panel_recipe(RAGGED, f"{_BOTH} key_lengths", seed=91), panel_recipe(GROUPED, f"{_BOTH} key_lengths", seed=92),
    panel_recipe(RAGGED, f"{_BOTH} key_lengths causal", seed=93, past_key="new_as_queries", key_lengths="one_short"),
    panel_recipe(SQUARE, f"{_BOTH} mask", seed=94), panel_recipe(SQUARE, f"{_BOTH} bias", seed=95),
    panel_recipe(ONE, f"{_BOTH} causal", seed=96, past_key="one_new"),
)

MISTAKES = AspectFaults(about={"past_key": _OF_KEYS, "past_value": _OF_VALUES}, bugs=_BUGS, panel=_PANEL)
