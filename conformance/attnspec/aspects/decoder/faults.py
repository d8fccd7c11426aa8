"""Decoders that store too little, in the wrong place or for somebody else, or lose count of the tokens before.

First how they store, read and count what they get wrong; then the faults that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.forms import STATE, InputForm
from attnspec.core.keyword import Acts
from attnspec.core.keywords import PLACED, acting_on
from attnspec.faults import staged as sound
from attnspec.faults.fault import AspectFaults, Fault
from attnspec.faults.staged import Attend, around, as_attend, attention, log_sum_exp
from attnspec.faults.staged_forms import (
    Behind,
    CacheContent,
    decoder,
    one_call,
    put_behind,
    recall_all,
    recall_changed,
    store_changed,
    store_new,
    with_cache,
)
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

CAPACITY = 12
"""Slots of a cache that is too small for some."""

_NOTHING_HIDDEN: Mapping[str, Any] = {**acting_on(Acts.VISIBILITY), "bias": None}


def _empty(like: Array, slots: int) -> Array:
    """Slots (B,Hkv,slots,D) that were never written."""
    return np.zeros((*like.shape[:2], slots, like.shape[3]), like.dtype)


def over_the_last(old: Array, new: Array) -> Array:
    """(B,Hkv,S,D): new ones begin in the last slot that is taken, and one is left empty behind them."""
    return put_behind(put_behind(old[:, :, :-1], new), _empty(old, 1))


def one_slot_late(old: Array, new: Array) -> Array:
    """(B,Hkv,S,D): new ones begin one slot further on, and the last has no room."""
    return put_behind(put_behind(old, _empty(old, 1)), new[:, :, :-1])


def never_written(old: Array, new: Array) -> Array:
    """(B,Hkv,S,D): room is made for the new ones."""
    return put_behind(old, _empty(old, new.shape[2]))


def of_first_entry(old: Array, new: Array) -> Array:
    """(B,Hkv,S,D): what the first batch entry brings is stored for all."""
    return put_behind(old, np.broadcast_to(new[:1], new.shape))


def first_lost(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The first position of a sequence stays empty."""
    made = store_new(held, call)
    if held is not None:
        return made
    key, value = (put_behind(_empty(array, 1), array[:, :, 1:]) for array in (made.key, made.value))
    return CacheContent(key, value, made.ends)


def new_only(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """As many slots as there should be, all but those of this call empty."""
    if held is None:
        return store_new(held, call)
    return store_changed(lambda old, new: put_behind(_empty(old, old.shape[2]), new))(held, call)


def eight_bits(array: Array) -> Array:
    """(B,Hkv,S,·) in whole steps of a 127th of the largest number of a head."""
    wide = array.astype(np.float64)
    step = np.abs(wide).max(axis=(2, 3), keepdims=True, initial=0) / 127
    return (np.round(wide / np.where(step == 0, 1, step)) * step).astype(array.dtype)


def grouped_by_turns(held: CacheContent, call: HandedOver) -> HandedOver:
    """Past heads are repeated one after the other, new ones each beside itself."""
    H, Hkv = call.query.shape[1], call.key.shape[1]
    past = {name: np.take(array, np.arange(H) % Hkv, axis=1)
            for name, array in (("past_key", held.key), ("past_value", held.value))}
    return call.but(key=sound.group(call.key, H), value=sound.group(call.value, H), **past)


def place_queries_at(place: Callable[[CacheContent], int]) -> Behind:
    """Queries count from another place behind a cache."""
    return lambda held: {"start": lambda _: place(held)}


def at_for_chunks(held: CacheContent) -> dict[str, Any]:
    """Several queries count from the first key of all."""
    return {"start": lambda work: held.count if work.shape[2] == 1 else 0}


def of_new(held: CacheContent) -> dict[str, Any]:
    """The log-sum-exp is that of the new keys, and of a sink."""
    return {"lse": lambda logits, _: log_sum_exp(logits[..., held.count:])}


def _slots_seen(work: PreparedCall) -> Array | None:
    """Sinks (H,) that weigh as much as three keys of zeros do, beside those there are."""
    spare = np.log(3.0)
    return np.full(work.shape[1], spare) if work.sinks is None else np.logaddexp(work.sinks, spare)


def unwritten_seen(_: CacheContent) -> dict[str, Any]:
    """Three slots that are not yet written are attended to where nothing but the number of keys hides them."""
    def join(logits: Array, work: PreparedCall) -> Array:
        """(B,H,T,S+1), a column for the slots."""
        is_open = work.given.keys().isdisjoint({"mask", *PLACED})
        return sound.join(logits, work.but(sinks=_slots_seen(work)) if is_open else work)
    return {"join": join}


def first_length(held: CacheContent, call: HandedOver) -> HandedOver:
    """Behind a cache, all batch entries have the number of keys of the first."""
    lengths = call.key_lengths
    return recall_all(held, call.but(key_lengths=None if lengths is None else np.full_like(lengths, lengths[0])))


def hide_cached_keys(_: CacheContent) -> dict[str, Any]:
    """No key of the cache is seen by several queries."""
    def own(work: PreparedCall) -> Array:
        """(B,1,1,S)."""
        is_new = np.arange(work.shape[3]) >= sound.start(work)
        return sound.own_keys(work) & (is_new | (work.shape[2] == 1))
    return {"own_keys": own}


def one_buffer() -> Attend:
    """All sequences are written to one buffer; a cache says how much of it is taken."""
    buffer: dict[str, Array] = {}

    def answered(call: HandedOver) -> Answer:
        """As a decoder does."""
        held, alone = call.cache, call.but(cache=None)
        if held is not None:
            for name in ("key", "value"):
                mine, shared = getattr(held, name), buffer[name]
                common = min(mine.shape[2], shared.shape[2])
                if mine.shape[:2] == shared.shape[:2]:
                    mine[:, :, :common] = shared[:, :, :common]
        answer = one_call(held, alone)
        buffer.update(key=answer[-1].key, value=answer[-1].value)
        return with_cache(answer[:-1], replace(answer[-1], key=answer[-1].key.copy(), value=answer[-1].value.copy()))
    return as_attend(answered)


def not_cleared() -> Attend:
    """A sequence that begins finds the first slot of the last one taken, and does not write to it."""
    last: dict[str, Array] = {}

    def keep(held: CacheContent | None, call: HandedOver) -> CacheContent:
        """With the first slot as it was left."""
        made = store_new(held, call)
        for name in ("key", "value") if held is None else ():
            array = getattr(made, name).copy()
            shape = array[:, :, :1].shape
            if array.shape[2] and name in last and last[name].shape == shape and last[name].dtype == array.dtype:
                array[:, :, :1] = last[name]
            last[name] = getattr(call, name)[:, :, :1].copy()
            made = replace(made, **{name: array})
        return made
    return decoder(keep)()


def one_counter() -> Attend:
    """The number of tokens so far is counted for all sequences together."""
    count = [0]

    def answered(call: HandedOver) -> Answer:
        """As a decoder does."""
        held, alone = call.cache, call.but(cache=None)
        place, count[0] = (0, 0) if held is None else (count[0], count[0])
        count[0] += call.key.shape[2]
        return one_call(held, alone, behind=lambda _: {"start": lambda _: place})
    return as_attend(answered)


def in_place(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The cache that was handed over grows, and is handed back."""
    made = store_new(held, call)
    if held is None:
        return made
    held.key, held.value, held.ends = made.key, made.value, made.ends
    return held


def last_slot_changed(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The new cache is made from the old one's buffer, whose last slot is written to."""
    made = store_new(held, call)
    if held is not None:
        held.key[:, :, -1:], held.value[:, :, -1:] = call.key[:, :, :1], call.value[:, :, :1]
    return made


def _full(held: CacheContent | None, call: HandedOver) -> bool:
    return (0 if held is None else held.count) + call.key.shape[2] > CAPACITY


def when_full(otherwise: Callable[[CacheContent | None, HandedOver], Answer]) -> Callable[[], Attend]:
    """Something else where the cache has no room."""
    def answered(call: HandedOver) -> Answer:
        """As a decoder does."""
        held, alone = call.cache, call.but(cache=None)
        return otherwise(held, alone) if _full(held, alone) else one_call(held, alone)
    return around(answered)


def over_the_end(held: CacheContent | None, call: HandedOver) -> Answer:
    """What has no room is written over the last slot."""
    whole = store_new(held, call)
    cut = {name: put_behind(array[:, :, : CAPACITY - 1], array[:, :, -1:]) for name, array in
           (("key", whole.key), ("value", whole.value))}
    return with_cache(attention(call.but(**_NOTHING_HIDDEN, **cut)), whole)


def oldest_dropped(held: CacheContent | None, call: HandedOver) -> Answer:
    """The oldest keys make room, and nobody is told."""
    whole = store_new(held, call)
    cut = {name: array[:, :, -CAPACITY:] for name, array in (("key", whole.key), ("value", whole.value))}
    return with_cache(attention(call.but(**_NOTHING_HIDDEN, **cut)), whole)


def mute(held: CacheContent | None, call: HandedOver) -> Answer:
    """A refusal that says nothing."""
    raise IndexError


def refuses_early(call: HandedOver) -> Answer:
    """The last slot counts as taken."""
    held, alone = call.cache, call.but(cache=None)
    if (0 if held is None else held.count) + call.key.shape[2] >= CAPACITY:
        raise ValueError("the cache is full")
    return one_call(held, alone)


_ANY, _TWICE = "a past", "a past that came in two calls and more"
_SEVERAL = "a past and several queries"
_BY_PLACE = "together with what counts from a query's place"
_PLACED = f"{_ANY}, {_BY_PLACE}"
_LIMITED = Limits(grouped=True, broadcasts=True, cache=CAPACITY)


def _fault(name: str, story: str, reach: str, make: Callable[[], Attend], *,
           limits: Limits | None = None) -> Fault:
    """A fault of a decoder."""
    plain = Fault(f"decoder_{name}", STATE, story, reach, make, form=InputForm.DECODER)
    return plain if limits is None else replace(plain, limits=limits)


_STORED = (
    _fault("keeps_new_only", "The cache that is handed back holds zeros for all keys but those of its own call.",
           _TWICE, decoder(new_only)),
    _fault("keeps_first_call_only", "Only the prompt is stored; what is decoded is not.", _TWICE,
           decoder(store_changed(never_written))),
    _fault("first_token_lost", "The first position is never written to the cache.", _ANY, decoder(first_lost)),
    _fault("over_the_last", "New keys are written one slot early, over the last one there is.",
           _TWICE, decoder(store_changed(over_the_last))),
    _fault("one_slot_late", "New keys are written one slot late, behind an empty one.", _TWICE,
           decoder(store_changed(one_slot_late))),
    _fault("new_put_first", "New keys are put before the others.", f"{_TWICE}, with what tells keys apart by place",
           decoder(store_changed(lambda old, new: put_behind(new, old)))),
    _fault("values_not_stored", "New keys are stored behind others, new values are not.", _TWICE,
           decoder(store_changed(put_behind, of_value=never_written))),
    _fault("values_one_late", "Values are stored one slot further on than their keys.", _TWICE,
           decoder(store_changed(put_behind, of_value=one_slot_late))),
    _fault("entries_of_first", "What the first batch entry brings is stored for all.",
           f"{_TWICE}, B > 1", decoder(store_changed(of_first_entry))),
    _fault("keeps_eight_bits", "The cache is kept in eight bits, with a scale for each head.",
           _ANY, decoder(recall=recall_changed(eight_bits))),
)

_READ = (
    _fault("entries_rolled", "Each batch entry reads the cache of the next.", f"{_ANY}, B > 1",
           decoder(recall=recall_changed(lambda array: np.roll(array, -1, axis=0)))),
    _fault("heads_reversed", "Heads are read from the cache in the opposite order.", f"{_ANY}, Hkv > 1",
           decoder(recall=recall_changed(lambda array: np.ascontiguousarray(array[:, ::-1])))),
    _fault("heads_by_turns", "Heads of the cache are repeated in another order than new ones.",
           f"{_ANY}, Hkv > 1, Hkv < H", decoder(recall=grouped_by_turns)),
    _fault("unwritten_slots_seen", "Slots that are not yet written are attended to.",
           "a cache, without what hides keys", decoder(behind=unwritten_seen)),
    _fault("chunk_sees_itself_only", "Several queries behind a cache see the keys of their own chunk alone.", _SEVERAL,
           decoder(behind=hide_cached_keys)),
    _fault("length_of_first_entry", "Behind a cache, the first batch entry's number of keys holds for all.",
           f"{_ANY}, together with lengths that differ", decoder(recall=first_length)),
    _fault("lse_of_new", "The log-sum-exp is that of the new keys alone.",
           f"{_ANY}, with a log-sum-exp", decoder(behind=of_new)),
)

_COUNTED = (
    _fault("counts_calls", "A query's own place is the number of calls so far.", _PLACED,
           decoder(behind=place_queries_at(lambda held: len(held.ends)))),
    _fault("place_of_prompt", "A query's own place is that behind the first call.",
           f"{_TWICE}, {_BY_PLACE}", decoder(behind=place_queries_at(lambda held: held.ends[0]))),
    _fault("place_restarts", "Each call counts places from 0.", _PLACED, decoder(behind=place_queries_at(lambda _: 0))),
    _fault("place_restarts_for_chunks", "A single query has the right place, a chunk counts from 0.",
           f"{_SEVERAL}, {_BY_PLACE}", decoder(behind=at_for_chunks)),
    _fault("place_one_late", "A query's own place is one too far.", _PLACED,
           decoder(behind=place_queries_at(lambda held: held.count + 1))),
    _fault("causal_first_call_only", "The causal flag is heeded only where there is no cache.",
           f"{_SEVERAL}, together with causal",
           decoder(behind=lambda _: {"past": lambda work: sound.past(work.but(causal=False))})),
    _fault("slopes_restart", "Slopes take a query's row in its chunk for its place.", f"{_ANY}, together with slopes",
           decoder(behind=lambda _: {
               "add_by_place": lambda logits, work: sound.add_by_place(logits, work.but(start=0))})),
)

_STATES = (
    _fault("one_buffer_for_all", "All sequences are written to one buffer.", "two sequences by turns", one_buffer),
    _fault("not_cleared", "A sequence that begins finds a slot of the one before taken.",
           "a sequence after another", not_cleared),
    _fault("one_counter_for_all", "All sequences share one counter of tokens, which restarts with each new sequence.",
           f"two sequences by turns, {_BY_PLACE}", one_counter),
    _fault("grows_in_place", "The caller's cache grows, though it is declared to stay as it was.",
           "a cache that is continued twice", decoder(in_place)),
    _fault("writes_to_used_cache", "The new cache is made in the old one's buffer, whose last slot is written to.",
           "a cache that is continued twice", decoder(last_slot_changed)),
    _fault("overfull_clamped", "Where the cache has no room, a key is written over the last one.",
           "more keys than the cache holds", when_full(over_the_end), limits=_LIMITED),
    _fault("overfull_forgets", "Where the cache has no room, the oldest keys are dropped, and nobody is told.",
           "more keys than the cache holds", when_full(oldest_dropped), limits=_LIMITED),
    _fault("overfull_mute", "Where the cache has no room, an exception says nothing.",
           "more keys than the cache holds", when_full(mute), limits=_LIMITED),
    _fault("full_one_early", "The last slot of the cache is refused.",
           "as many keys as the cache holds", around(refuses_early), limits=_LIMITED),
)

MISTAKES = AspectFaults(about={STATE: (*_STORED, *_READ, *_COUNTED, *_STATES)})
