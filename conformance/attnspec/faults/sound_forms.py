"""Correct attentions of other forms, each in several ways: packed, over pages, decoders that keep their keys
differently; and right ways to turn pairs of features, which differ in arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration, Limits, within_form
from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.forms import DEFAULT_BASE, FARTHEST, ROTARY, ROTARY_PROFILE
from attnspec.core.keywords import FROM_PLACE
from attnspec.core.nouns import Kind
from attnspec.faults import staged as stage
from attnspec.faults import staged_forms as turning
from attnspec.faults.packed import answer_sequences, packed_call
from attnspec.faults.staged import Attend, around, gather, table_of
from attnspec.faults.staged_forms import Rotate, Rotation, staged_rotation, taken_in, with_cache
from attnspec.faults.staged_work import Answer, HandedOver, reach, wide_dtype
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


Turned = Callable[[Rotation], Array]


def _whole(turned: Turned) -> Callable[[], Rotate]:
    """Makes a rotary embedding of what turns the features that are to be turned (B,H,T,2R); the others are kept."""
    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """An answer (B,H,T,D) to x (B,H,T,D) and positions (B,T)."""
        work = taken_in(x, positions, base, rotary_width, interleaved)
        return np.concatenate([turned(work).astype(x.dtype), x[..., work.width:]], axis=-1)
    return lambda: rotate


def _angle(work: Rotation) -> Array:
    """(B,1,T,R)."""
    return turning.angles(work, turning.places(work), turning.frequency(work))[:, None]


def _complex(work: Rotation) -> Array:
    """(B,H,T,2R): each pair is a complex number, multiplied by one of norm 1."""
    first, second = turning.pair_features(work)
    turned = (first + 1j * second).astype(np.result_type(work.real, np.complex64)) * np.exp(1j * _angle(work))
    return _join_pairs(work, np.real(turned), np.imag(turned))


def _join_pairs(work: Rotation, first: Array, second: Array) -> Array:
    """(B,H,T,2R): both features of each pair (B,H,T,R) in their places, by stacking or one half behind the other."""
    if work.interleaved:
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], work.width)
    return np.concatenate([first, second], axis=-1)


def _rotate_half(work: Rotation) -> Array:
    """(B,H,T,2R): x·cos + rotate_half(x)·sin, with every cosine and sine there twice."""
    first, second = turning.pair_features(work)
    angle = _join_pairs(work, *(_angle(work),) * 2)
    return _join_pairs(work, first, second) * np.cos(angle) + _join_pairs(work, -second, first) * np.sin(angle)


def _rotate_by_table(work: Rotation, *, through: Callable[[Array, Rotation], Array]) -> Array:
    """(B,H,T,2R): cos and sin are read from a table of all places up to the farthest one that is asked for."""
    first, second = turning.pair_features(work)
    most = int(work.positions.max(initial=0)) + 1
    assert most <= FARTHEST + 1
    angle = np.arange(most, dtype=work.real)[:, None] * turning.frequency(work)
    cos, sin = (through(function(angle), work)[work.positions][:, None] for function in (np.cos, np.sin))
    return _join_pairs(work, through(through(first * cos, work) - through(second * sin, work), work),
                       through(through(second * cos, work) + through(first * sin, work), work))


def _by_logarithm(work: Rotation) -> Array:
    """(R,): the frequencies as an exponential of a product with the base's logarithm."""
    exponent = np.arange(0, work.width, 2).astype(work.real) * -(np.log(work.real(work.base)) / work.real(work.width))
    return np.exp(exponent)


def _in_float64(work: Rotation) -> Array:
    """(B,H,T,2R), in float64 throughout."""
    wide = Rotation(work.x.astype(np.float64), work.positions, work.base, work.width, work.interleaved, work.io)
    return _rotate_half(wide).astype(wide_dtype(work.io))


FORMULATIONS: tuple[tuple[str, str, Callable[[], Rotate], str], ...] = (
    ("rotary_staged", "a rotary embedding, pair by pair", staged_rotation(), "G0"),
    ("rotary_complex", "a rotary embedding by complex multiplication", _whole(_complex), "G0"),
    ("rotary_rotate_half", "a rotary embedding as x·cos + rotate_half(x)·sin", _whole(_rotate_half), "G0"),
    ("rotary_cached", "a rotary embedding from tables of cos and sin",
     _whole(partial(_rotate_by_table, through=lambda array, _: array)), "G0"),
    ("rotary_by_logarithm", "a rotary embedding whose frequencies are an exponential",
     staged_rotation(frequency=_by_logarithm), "G0"),
    ("rotary_float64_inside", "a rotary embedding in float64, rounded once", _whole(_in_float64), "G0"),
    ("rotary_eager", "a rotary embedding with tables and products in the dtype of x",
     _whole(partial(_rotate_by_table, through=lambda array, work: array.astype(work.io).astype(work.real))), "G3"),
)
"""Name, meaning, what makes it, and the grade in half dtypes."""


def declaration_of_rotary(grade: str) -> Declaration:
    """All keywords of a rotary embedding, and the grade in half dtypes."""
    return Declaration(
        kind=Kind.ROTARY, keywords=frozenset(ROTARY), limits=within_form(Limits()), claims=(ROTARY_PROFILE,),
        precision={dtype: {"grade": grade, "systematic": "accumulator"} for dtype in HALF_DTYPES})
