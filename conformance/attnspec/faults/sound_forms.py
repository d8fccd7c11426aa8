"""Right attentions of other forms, each computed in several ways: packed, paged, decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.keywords import FROM_PLACE
from attnspec.faults import staged as stage
from attnspec.faults.packed import answer_sequences, packed_call
from attnspec.faults.staged import Attend, around, gather, table_of
from attnspec.faults.staged_forms import with_cache
from attnspec.faults.staged_work import Answer, HandedOver, reach, wide_dtype
from attnspec.problems.problem import Array


def by_sequence(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of packed functions that answer each sequence alone."""
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> (Nq,H,Dv)."""
        return answer_sequences(packed_call(query, key, value, keywords), lambda call: call.spans,
                                lambda call, spans: answer(call.call_of(spans)))
    return lambda: attend


def with_block_mask() -> Attend:
    """A packed function that answers all sequences in one call, under a mask of blocks.

    What counts from a query's own place counts from the beginning of its sequence.
    """
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> (Nq,H,Dv)."""
        call = packed_call(query, key, value, keywords)
        (query_sequence, query_place), (key_sequence, key_place) = map(_places, (call.cu_query, call.cu_key))
        ahead = key_place - query_place[:, None]
        whole = HandedOver(*(array.swapaxes(0, 1)[None] for array in (query, key, value)), **call.keywords)
        work = stage.take(whole).but(start=np.arange(len(key)) - np.arange(len(query))[:, None] - ahead)
        visible = (query_sequence[:, None] == key_sequence) & stage.past(work) & stage.near(work)
        slopes = call.keywords.get("alibi_slopes")
        bias = None if slopes is None else _slopes_as_bias(slopes, ahead, query_sequence, query.dtype)
        changes = {**dict.fromkeys(FROM_PLACE), "causal": False, "alibi_slopes": None}
        answer = stage.attention(whole.but(**changes, mask=visible[None, None], bias=bias))
        if isinstance(answer, tuple):
            return tuple(part[0].swapaxes(0, 1) for part in answer)
        return answer[0].swapaxes(0, 1)
    return attend


def _places(borders: Array) -> tuple[Array, Array]:
    """The sequence of each token, and its place there: (N,) twice."""
    lengths = np.diff(borders)
    sequences = np.repeat(np.arange(len(lengths)), lengths)
    return sequences, np.arange(borders[-1]) - np.repeat(borders[:-1], lengths)


def _slopes_as_bias(slopes: Array, ahead: Array, of_query: Array, dtype: np.dtype[Any]) -> Array:
    """The bias (1,H,Nq,Nk) that slopes (H,) or (B,H) stand for, in the computation's dtype."""
    wide = wide_dtype(dtype)
    if slopes.ndim == 2:
        own = slopes.T[:, of_query]
    else:
        own = np.broadcast_to(slopes[:, None], (len(slopes), len(of_query)))
    return np.asarray(np.negative(own[None, :, :, None].astype(wide)) * np.abs(ahead), wide)


def side_by_side(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of functions that first put each entry's keys and values one behind the other."""
    return around(lambda call: answer(gather(call)))


def page_by_page(answer: Callable[[HandedOver, int], Answer]) -> Callable[[], Attend]:
    """A maker of functions that answer in one pass over blocks of keys, each of them a page."""
    def answer_pages(call: HandedOver) -> Answer:
        """The answer; keys that lie in no pages are one."""
        table = table_of(call)
        return answer(gather(call), table.slots if table else call.key.shape[2])
    return around(answer_pages)


CAPACITY = 96
"""Slots of a buffer that is allocated once."""

FORGETFUL = 24
"""Slots of a buffer that forgets its oldest key."""


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The slots (B,Hkv,slots,·) of a buffer.

    places (slots,): the place of the key in each slot, or -1.  count: the number of keys so far.
    """

    key: Array
    value: Array
    places: Array
    count: int


def decode_concatenating(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep keys and values one behind the other."""
    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        key, value, alone = call.key, call.value, call.but(cache=None)
        if call.cache is not None:
            past_key, past_value = call.cache
            key, value = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
            alone = alone.but(past_key=past_key, past_value=past_value)
        return with_cache(answer(alone), (key, value))
    return around(answer_step)


def decode_preallocated(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that write into a buffer of NaN, and refuse what does not fit."""
    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache. Raises ValueError where there is no room."""
        held, alone = call.cache or _empty(call, CAPACITY), call.but(cache=None)
        end = held.count + call.key.shape[2]
        if end > CAPACITY:
            raise ValueError(f"the cache has {CAPACITY} slots, and {end} keys do not fit")
        if call.cache is not None:
            alone = alone.but(past_key=held.key[:, :, :held.count], past_value=held.value[:, :, :held.count])
        return with_cache(answer(alone), _write_last(held, call, np.arange(held.count, end)))
    return around(answer_step)


def decode_in_a_ring(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep as many keys as a query looks back: key j, in slot j mod R."""
    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        past = {} if call.cache is None else _as_past(call.cache)
        return with_cache(answer(call.but(cache=None, **past)), _keep_ring(call.cache, call))
    return around(answer_step)


def decode_forgetting(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders whose buffer forgets the oldest keys once it is full."""
    def answer_step(call: HandedOver) -> Answer:
        """The answer, and the cache."""
        held = call.cache or _empty(call, FORGETFUL)
        buffer = _write_last(held, call, _ring_slots(held, call, FORGETFUL))
        if buffer.count > FORGETFUL:
            order = np.argsort(buffer.places)
            changes = {"key": buffer.key[:, :, order], "value": buffer.value[:, :, order]}
        else:
            changes = {} if call.cache is None else _as_past(held)
        return with_cache(answer(call.but(cache=None, **changes)), buffer)
    return around(answer_step)


def _empty(call: HandedOver, slots: int) -> Slots:
    """A buffer of empty slots."""
    key, value = (np.full((*array.shape[:2], slots, array.shape[3]), np.nan, array.dtype)
                  for array in (call.key, call.value))
    return Slots(key, value, np.full(slots, -1), 0)


def _write_last(held: Slots, call: HandedOver, slots: Array) -> Slots:
    """A copy in which the last of the new keys (B,Hkv,S,D) are in these slots."""
    end = held.count + call.key.shape[2]
    key, value, places = held.key.copy(), held.value.copy(), held.places.copy()
    new = range(call.key.shape[2] - len(slots), call.key.shape[2])
    for slot, at in zip(slots, new, strict=True):
        key[:, :, slot], value[:, :, slot] = call.key[:, :, at], call.value[:, :, at]
        places[slot] = held.count + at
    return Slots(key, value, places, end)


def _ring_slots(held: Slots, call: HandedOver, ring: int) -> Array:
    """The slots (n,) of the last new keys, of which there are no more than the ring has."""
    end = held.count + call.key.shape[2]
    return np.arange(max(held.count, end - ring), end) % ring


def _as_past(held: Slots) -> dict[str, Any]:
    """Past keys (B,Hkv,P,D) and values, each at its place; 0 where the ring has forgotten it."""
    past = {}
    for name, array in (("past_key", held.key), ("past_value", held.value)):
        whole = np.zeros((*array.shape[:2], held.count, array.shape[3]), array.dtype)
        is_taken = held.places >= 0
        whole[:, :, held.places[is_taken]] = array[:, :, is_taken]
        past[name] = whole
    return past


def _keep_ring(held: Slots | None, call: HandedOver) -> Slots:
    """The ring after a call; it grows if a query sees all keys before its place."""
    left, _ = reach(call)
    count = 0 if held is None else held.count
    if left is not None:
        held = held or _empty(call, left + 1)
        return _write_last(held, call, _ring_slots(held, call, left + 1))
    room = _empty(call, count + call.key.shape[2])
    if held is not None:
        past = _as_past(held)
        room.key[:, :, :count], room.value[:, :, :count] = past["past_key"], past["past_value"]
        room.places[:count] = np.arange(count)
    return _write_last(replace(room, count=count), call, np.arange(count, count + call.key.shape[2]))
