"""Correct attentions of other forms, each in several ways: packed, over pages, and decoders that keep their keys
differently.
"""

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
from attnspec.faults.staged_work import Answer, HandedOver, reach
from attnspec.problems.problem import Array


def by_sequence(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of packed functions that answer each sequence alone."""
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> output (Nq,H,Dv)."""
        return answer_sequences(packed_call(query, key, value, keywords), lambda call: call.spans,
                                lambda call, spans: answer(call.call_of(spans)))
    return lambda: attend


def with_block_mask() -> Attend:
    """A packed function that answers all sequences in one call, under a mask of blocks; what counts from a query's own
    place counts from the beginning of its sequence.
    """
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> output (Nq,H,Dv)."""
        call = packed_call(query, key, value, keywords)
        (of_query, place), (of_key, other) = map(_places, (call.cu_query, call.cu_key))
        ahead = other - place[:, None]
        whole = HandedOver(*(array.swapaxes(0, 1)[None] for array in (query, key, value)), **call.keywords)
        work = stage.take(whole).but(start=np.arange(len(key)) - np.arange(len(query))[:, None] - ahead)
        visible = (of_query[:, None] == of_key) & stage.past(work) & stage.near(work)
        slopes = call.keywords.get("alibi_slopes")
        bias = None if slopes is None else _slopes_as_bias(slopes, ahead, of_query, query.dtype)
        found = stage.attention(whole.but(**{**dict.fromkeys(FROM_PLACE), "causal": False, "alibi_slopes": None,
                                             "mask": visible[None, None], "bias": bias}))
        each = tuple(part[0].swapaxes(0, 1) for part in (found if isinstance(found, tuple) else (found,)))
        return each if isinstance(found, tuple) else each[0]
    return attend


def _places(borders: Array) -> tuple[Array, Array]:
    """(N,) twice: the sequence of each token, and its place there."""
    lengths = np.diff(borders)
    return np.repeat(np.arange(len(lengths)), lengths), np.arange(borders[-1]) - np.repeat(borders[:-1], lengths)


def _slopes_as_bias(slopes: Array, ahead: Array, of_query: Array, dtype: np.dtype[Any]) -> Array:
    """(1,H,Nq,Nk): what slopes (H,) or (B,H) stand for, in the dtype of the computation."""
    wide = np.float64 if dtype == np.float64 else np.float32
    own = slopes.T[:, of_query] if slopes.ndim == 2 else np.broadcast_to(slopes[:, None], (len(slopes), len(of_query)))
    return np.asarray(np.negative(own[None, :, :, None].astype(wide)) * np.abs(ahead), wide)


def side_by_side(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of functions that put the keys and values of each entry one behind the other before they answer."""
    return around(lambda call: answer(gather(call)))


def page_by_page(answer: Callable[[HandedOver, int], Answer]) -> Callable[[], Attend]:
    """A maker of functions that answer in one pass over blocks of keys, each of them a page."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does; keys that lie in no pages are one."""
        table = table_of(call)
        return answer(gather(call), table.slots if table else call.key.shape[2])
    return around(answered)


CAPACITY = 96
"""Slots of a buffer that is allocated once."""

FORGETFUL = 24
"""Slots of a buffer that forgets its oldest key."""


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Slots (B,Hkv,slots,·), the place of the key in each, (slots,), or -1, and the number of keys so far."""

    key: Array
    value: Array
    places: Array
    count: int


def decode_concatenating(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep keys and values one behind the other."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache."""
        held, alone = call.cache, call.but(cache=None)
        key, value = (call.key, call.value) if held is None else (
            np.concatenate([held[0], call.key], axis=2), np.concatenate([held[1], call.value], axis=2))
        past = {} if held is None else {"past_key": held[0], "past_value": held[1]}
        return with_cache(answer(alone.but(**past)), (key, value))
    return around(answered)


def decode_preallocated(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that write into a buffer of so many slots, NaN where nothing was written, and refuse more."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache. Raises ValueError where there is no room."""
        held, alone = call.cache or _empty(call, CAPACITY), call.but(cache=None)
        end = held.count + call.key.shape[2]
        if end > CAPACITY:
            raise ValueError(f"the cache has {CAPACITY} slots, and {end} keys do not fit")
        past = {} if call.cache is None else {
            "past_key": held.key[:, :, : held.count], "past_value": held.value[:, :, : held.count]}
        return with_cache(answer(alone.but(**past)), _write_last(held, call, np.arange(held.count, end)))
    return around(answered)


def decode_in_a_ring(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep no more keys than a query looks back: key j lies in slot j mod R of a ring."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache."""
        held, alone = call.cache, call.but(cache=None)
        past = {} if held is None else _as_past(held)
        return with_cache(answer(alone.but(**past)), _keep_ring(held, call))
    return around(answered)


def decode_forgetting(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders whose buffer, where it is full, forgets the oldest keys."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache."""
        held, alone = call.cache or _empty(call, FORGETFUL), call.but(cache=None)
        kept = _write_last(held, call, _ring_slots(held, call, FORGETFUL))
        if kept.count <= FORGETFUL:
            return with_cache(answer(alone.but(**({} if call.cache is None else _as_past(held)))), kept)
        order = np.argsort(kept.places)
        return with_cache(answer(alone.but(key=kept.key[:, :, order], value=kept.value[:, :, order])), kept)
    return around(answered)


def _empty(call: HandedOver, slots: int) -> Slots:
    """A buffer in which nothing stands."""
    key, value = (np.full((*array.shape[:2], slots, array.shape[3]), np.nan, array.dtype)
                  for array in (call.key, call.value))
    return Slots(key, value, np.full(slots, -1), 0)


def _write_last(held: Slots, call: HandedOver, slots: Array) -> Slots:
    """A copy in which the last of the new keys (B,Hkv,S,D) stand in these slots."""
    end = held.count + call.key.shape[2]
    key, value, places = held.key.copy(), held.value.copy(), held.places.copy()
    new = range(call.key.shape[2] - len(slots), call.key.shape[2])
    for slot, at in zip(slots, new, strict=True):
        key[:, :, slot], value[:, :, slot], places[slot] = call.key[:, :, at], call.value[:, :, at], held.count + at
    return Slots(key, value, places, end)


def _ring_slots(held: Slots, call: HandedOver, ring: int) -> Array:
    """(n,): slots of the last new keys, no more than the ring has."""
    end = held.count + call.key.shape[2]
    return np.arange(max(held.count, end - ring), end) % ring


def _as_past(held: Slots) -> dict[str, Any]:
    """Past keys (B,Hkv,P,D) and values, each at its own place; zeros where the ring has forgotten it."""
    past = {}
    for name, array in (("past_key", held.key), ("past_value", held.value)):
        whole = np.zeros((*array.shape[:2], held.count, array.shape[3]), array.dtype)
        is_taken = held.places >= 0
        whole[:, :, held.places[is_taken]] = array[:, :, is_taken]
        past[name] = whole
    return past


def _keep_ring(held: Slots | None, call: HandedOver) -> Slots:
    """The ring after a call; where a query sees all keys before its place, it grows."""
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
