"""Faults of decoders: they store too little, or in a wrong place, or miscount tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.forms import CACHE, InputForm
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
    """Slots (B,Hkv,slots,D) of zeros, which were never written."""
    return np.zeros((*like.shape[:2], slots, like.shape[3]), like.dtype)


def over_the_last(old: Array, new: Array) -> Array:
    """The cache (B,Hkv,S,D), new keys from the last taken slot on, an empty slot behind them."""
    return put_behind(put_behind(old[:, :, :-1], new), _empty(old, 1))


def one_slot_late(old: Array, new: Array) -> Array:
    """The cache (B,Hkv,S,D), new keys one slot too late, so that the last has no room."""
    return put_behind(put_behind(old, _empty(old, 1)), new[:, :, :-1])


def never_written(old: Array, new: Array) -> Array:
    """The cache (B,Hkv,S,D), with empty room for the new keys."""
    return put_behind(old, _empty(old, new.shape[2]))


def of_first_entry(old: Array, new: Array) -> Array:
    """The cache (B,Hkv,S,D), with the new keys of the first batch entry for all entries."""
    return put_behind(old, np.broadcast_to(new[:1], new.shape))


def first_lost(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The first position of a sequence stays empty."""
    content = store_new(held, call)
    if held is not None:
        return content
    key, value = (put_behind(_empty(array, 1), array[:, :, 1:]) for array in (content.key, content.value))
    return CacheContent(key, value, content.ends)


def new_only(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The cache in which all slots but those of this call are empty."""
    if held is None:
        return store_new(held, call)
    return store_changed(lambda old, new: put_behind(_empty(old, old.shape[2]), new))(held, call)


def eight_bits(array: Array) -> Array:
    """An array (B,Hkv,S,·) in whole steps, 127 of them up to the largest number of a head."""
    wide = array.astype(np.float64)
    step = np.abs(wide).max(axis=(2, 3), keepdims=True, initial=0) / 127
    return (np.round(wide / np.where(step == 0, 1, step)) * step).astype(array.dtype)


def grouped_by_turns(held: CacheContent, call: HandedOver) -> HandedOver:
    """The call, its past heads repeated one after the other, new ones each beside itself."""
    H, order = call.query.shape[1], np.arange(call.query.shape[1]) % call.key.shape[1]
    return call.but(key=sound.group(call.key, H), value=sound.group(call.value, H),
                    past_key=held.key[:, order], past_value=held.value[:, order])


def place_queries_at(place: Callable[[CacheContent], int]) -> Behind:
    """Behind a cache, queries count from another place."""
    return lambda held: {"start": lambda _: place(held)}


def at_for_chunks(held: CacheContent) -> dict[str, Any]:
    """Behind a cache, several queries count from the first key of all."""
    return {"start": lambda work: held.count if work.shape[2] == 1 else 0}


def of_new(held: CacheContent) -> dict[str, Any]:
    """Behind a cache, the log-sum-exp is that of the new keys and a sink."""
    return {"lse": lambda logits, _: log_sum_exp(logits[..., held.count:])}


def unwritten_seen(_: CacheContent) -> dict[str, Any]:
    """Three unwritten slots are seen where nothing but the number of keys hides them."""
    def join(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S+1), whose last column stands for a sink and three keys of zeros."""
        if not work.given.keys().isdisjoint({"mask", *PLACED}):
            return sound.join(logits, work)
        slots = np.log(3.0)
        sinks = np.full(work.shape[1], slots) if work.sinks is None else np.logaddexp(work.sinks, slots)
        return sound.join(logits, work.but(sinks=sinks))
    return {"join": join}


def first_length(held: CacheContent, call: HandedOver) -> HandedOver:
    """Behind a cache, all batch entries have the number of keys of the first."""
    if call.key_lengths is not None:
        call = call.but(key_lengths=np.full_like(call.key_lengths, call.key_lengths[0]))
    return recall_all(held, call)


def hide_cached_keys(_: CacheContent) -> dict[str, Any]:
    """Behind a cache, several queries see no key of the cache."""
    def own(work: PreparedCall) -> Array:
        """The keys that queries may see, (B,1,1,S)."""
        is_new = np.arange(work.shape[3]) >= sound.start(work)
        return sound.own_keys(work) & (is_new | (work.shape[2] == 1))
    return {"own_keys": own}


def one_buffer() -> Attend:
    """A decoder that writes all sequences to one buffer; a cache says how much of it is taken."""
    buffer: dict[str, Array] = {}

    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        held = call.cache
        for name in ("key", "value") if held is not None else ():
            own, shared = getattr(held, name), buffer[name]
            if own.shape[:2] == shared.shape[:2]:
                common = min(own.shape[2], shared.shape[2])
                own[:, :, :common] = shared[:, :, :common]
        *answer, cache = one_call(held, call.but(cache=None))
        buffer.update(key=cache.key, value=cache.value)
        return with_cache(tuple(answer), replace(cache, key=cache.key.copy(), value=cache.value.copy()))
    return as_attend(answer_step)


def not_cleared() -> Attend:
    """A decoder whose new sequence finds the last one's first slot, and does not write to it."""
    last: dict[str, Array] = {}

    def store(held: CacheContent | None, call: HandedOver) -> CacheContent:
        """The cache, whose first slot is as it was left."""
        content = store_new(held, call)
        if held is not None:
            return content
        for name in ("key", "value"):
            array, old = getattr(content, name).copy(), last.get(name)
            if array.shape[2] and old is not None and (old.shape, old.dtype) == (array[:, :, :1].shape, array.dtype):
                array[:, :, :1] = old
            last[name] = getattr(call, name)[:, :, :1].copy()
            content = replace(content, **{name: array})
        return content
    return decoder(store)()


def one_counter() -> Attend:
    """A decoder that counts the tokens so far for all sequences together."""
    count = [0]

    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        if call.cache is None:
            count[0] = 0
        place = count[0]
        count[0] += call.key.shape[2]
        return one_call(call.cache, call.but(cache=None), behind=lambda _: {"start": lambda _: place})
    return as_attend(answer_step)


def in_place(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The cache that was handed over grows, and is handed back."""
    content = store_new(held, call)
    if held is None:
        return content
    held.key, held.value, held.ends = content.key, content.value, content.ends
    return held


def last_slot_changed(held: CacheContent | None, call: HandedOver) -> CacheContent:
    """The new cache is made in the old one's buffer, whose last slot is written to."""
    content = store_new(held, call)
    if held is not None:
        held.key[:, :, -1:], held.value[:, :, -1:] = call.key[:, :, :1], call.value[:, :, :1]
    return content


def _count_keys(call: HandedOver) -> int:
    """The number of keys in the cache and in the call."""
    return (0 if call.cache is None else call.cache.count) + int(call.key.shape[2])


def when_full(otherwise: Callable[[CacheContent | None, HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that do something else where the cache has no room."""
    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        answer = otherwise if _count_keys(call) > CAPACITY else one_call
        return answer(call.cache, call.but(cache=None))
    return around(answer_step)


def _attend_to(key: Array, value: Array, held: CacheContent | None, call: HandedOver) -> Answer:
    """The answer over these keys (B,Hkv,S,D) and values, and the cache."""
    return with_cache(attention(call.but(**_NOTHING_HIDDEN, key=key, value=value)), store_new(held, call))


def over_the_end(held: CacheContent | None, call: HandedOver) -> Answer:
    """The answer, where a key that has no room is written over the last slot."""
    whole = store_new(held, call)
    key, value = (put_behind(array[:, :, :CAPACITY - 1], array[:, :, -1:]) for array in (whole.key, whole.value))
    return _attend_to(key, value, held, call)


def oldest_dropped(held: CacheContent | None, call: HandedOver) -> Answer:
    """The answer, where the oldest keys make room, and nobody is told."""
    whole = store_new(held, call)
    return _attend_to(whole.key[:, :, -CAPACITY:], whole.value[:, :, -CAPACITY:], held, call)


def mute(held: CacheContent | None, call: HandedOver) -> Answer:
    """A refusal that says nothing."""
    raise IndexError


def refuses_early(call: HandedOver) -> Answer:
    """The answer, and the cache. Raises ValueError already where the last slot would be taken."""
    if _count_keys(call) >= CAPACITY:
        raise ValueError("the cache is full")
    return one_call(call.cache, call.but(cache=None))


_ANY, _TWICE = "a past", "a past that came in two calls and more"
_SEVERAL = "a past and several queries"
_BY_PLACE = "together with what counts from a query's place"
_PLACED = f"{_ANY}, {_BY_PLACE}"
_BOUNDLESS = Limits(grouped=True, broadcasts=True)
_LIMITED = replace(_BOUNDLESS, cache=CAPACITY)


def _fault(name: str, story: str, reach: str, make: Callable[[], Attend], *, limits: Limits = _BOUNDLESS) -> Fault:
    """A fault of a decoder."""
    return Fault(f"decoder_{name}", CACHE, story, reach, make, form=InputForm.DECODER, limits=limits)


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

MISTAKES = AspectFaults(about={CACHE: (*_STORED, *_READ, *_COUNTED, *_STATES)})
