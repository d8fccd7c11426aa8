"""Correct decoders that keep their keys in different ways."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.faults.decoding import with_cache
from attnspec.faults.staged import Attend, around
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Array

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


def concatenating(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep keys and values one behind the other."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache."""
        held, alone = call.cache, call.but(cache=None)
        key, value = (call.key, call.value) if held is None else (
            np.concatenate([held[0], call.key], axis=2), np.concatenate([held[1], call.value], axis=2))
        past = {} if held is None else {"past_key": held[0], "past_value": held[1]}
        return with_cache(answer(alone.but(**past)), (key, value))
    return around(answered)


def preallocated(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
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


def in_a_ring(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of decoders that keep no more keys than a window reaches back: key j in slot j mod R of a ring."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does, and the cache."""
        held, alone = call.cache, call.but(cache=None)
        past = {} if held is None else _as_past(held)
        return with_cache(answer(alone.but(**past)), _keep_ring(held, call))
    return around(answered)


def forgetting(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
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
    """The ring after a call; without a left bound of the window it grows."""
    left = call.window[0] if call.window else None
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
