"""Decoders that store too little, in the wrong place or for somebody else, or lose count of the tokens before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attnspec.aspects.decoder import mistakes as wrong
from attnspec.core.declaration import Limits
from attnspec.core.forms import STATE, InputForm
from attnspec.faults import staged as sound
from attnspec.faults.decoding import both, decoder, recalling, storing
from attnspec.faults.fault import AspectFaults, Fault
from attnspec.faults.staged import Attend, around

_ANY, _TWICE = "a past", "a past that came in two calls and more"
_SEVERAL = "a past and several queries"
_RING = "a past, together with a window that is bounded to the left"
_BY_PLACE = "together with what counts from a query's place"
_PLACED = f"{_ANY}, {_BY_PLACE}"
_G = "https://github.com/"
_LIMITED = Limits(grouped=True, broadcasts=True, cache=wrong.CAPACITY)


def _fault(name: str, story: str, reach: str, make: Callable[[], Attend], link: str = "", *,
           limits: Limits | None = None) -> Fault:
    """A fault of a decoder."""
    plain = Fault(f"decoder_{name}", STATE, story, reach, make, link and f"{_G}{link}", form=InputForm.DECODER)
    return plain if limits is None else replace(plain, limits=limits)


_STORED = (
    _fault("keeps_new_only", "The cache that is handed back holds zeros for all keys but those of its own call.",
           _TWICE, decoder(wrong.new_only)),
    _fault("keeps_first_call_only", "Only the prompt is stored; what is decoded is not.", _TWICE,
           decoder(storing(wrong.never_written))),
    _fault("first_token_lost", "The first position is never written to the cache.", _ANY, decoder(wrong.first_lost),
           "TrenTorch/TrenTorch/pull/192"),
    _fault("over_the_last", "New keys are written one slot early, over the last one there is.", _TWICE,
           decoder(storing(wrong.over_the_last))),
    _fault("one_slot_late", "New keys are written one slot late, behind an empty one.", _TWICE,
           decoder(storing(wrong.one_slot_late))),
    _fault("new_put_first", "New keys are put before the others.", f"{_TWICE}, with what tells keys apart by place",
           decoder(storing(lambda old, new: both(new, old)))),
    _fault("values_not_stored", "New keys are stored behind others, new values are not.", _TWICE,
           decoder(storing(both, of_value=wrong.never_written))),
    _fault("values_one_late", "Values are stored one slot further on than their keys.", _TWICE,
           decoder(storing(both, of_value=wrong.one_slot_late))),
    _fault("entries_of_first", "What the first batch entry brings is stored for all.", f"{_TWICE}, B > 1",
           decoder(storing(wrong.of_first_entry)), "ggml-org/llama.cpp/issues/7903"),
    _fault("keeps_eight_bits", "The cache is kept in eight bits, with a scale for each head.", _ANY,
           decoder(recall=recalling(wrong.eight_bits))),
)

_READ = (
    _fault("entries_rolled", "Each batch entry reads the cache of the next.", f"{_ANY}, B > 1",
           decoder(recall=recalling(lambda array: np.roll(array, -1, axis=0)))),
    _fault("heads_reversed", "Heads are read from the cache in the opposite order.", f"{_ANY}, Hkv > 1",
           decoder(recall=recalling(lambda array: np.ascontiguousarray(array[:, ::-1])))),
    _fault("heads_by_turns", "Heads of the cache are repeated in another order than new ones.",
           f"{_ANY}, Hkv > 1, Hkv < H", decoder(recall=wrong.grouped_by_turns), "ikawrakow/ik_llama.cpp/pull/1521"),
    _fault("unwritten_slots_seen", "Slots that are not yet written are attended to.",
           "a cache, without mask, causal flag and window", decoder(behind=wrong.unwritten_seen),
           "huggingface/transformers/pull/45940"),
    _fault("chunk_sees_itself_only", "Several queries behind a cache see the keys of their own chunk alone.", _SEVERAL,
           decoder(behind=wrong.ignored), "sgl-project/sgl-kernel-xpu/issues/196"),
    _fault("length_of_first_entry", "Behind a cache, the first batch entry's number of keys holds for all.",
           f"{_ANY}, together with lengths that differ", decoder(recall=wrong.first_length), "lablup/mlxcel/issues/75"),
    _fault("lse_of_new", "The log-sum-exp is that of the new keys alone.", f"{_ANY}, with a log-sum-exp",
           decoder(behind=wrong.of_new)),
)

_COUNTED = (
    _fault("counts_calls", "A query's own place is the number of calls so far.", _PLACED,
           decoder(behind=wrong.at(lambda held: len(held.ends)))),
    _fault("place_of_prompt", "A query's own place is that behind the first call.", f"{_TWICE}, {_BY_PLACE}",
           decoder(behind=wrong.at(lambda held: held.ends[0]))),
    _fault("place_restarts", "Each call counts places from 0.", _PLACED, decoder(behind=wrong.at(lambda _: 0)),
           "pytorch/executorch/pull/21749"),
    _fault("place_restarts_for_chunks", "A single query has the right place, a chunk counts from 0.",
           f"{_SEVERAL}, {_BY_PLACE}", decoder(behind=wrong.at_for_chunks)),
    _fault("place_one_late", "A query's own place is one too far.", _PLACED,
           decoder(behind=wrong.at(lambda held: held.count + 1))),
    _fault("causal_first_call_only", "The causal flag is heeded only where there is no cache.",
           f"{_SEVERAL}, together with causal",
           decoder(behind=lambda _: {"past": lambda work: sound.past(work.but(causal=False))}),
           "Mikyx-1/TinyLLM/pull/18"),
    _fault("slopes_restart", "Slopes take a query's row in its chunk for its place.", f"{_ANY}, together with slopes",
           decoder(behind=lambda _: {
               "add_by_place": lambda logits, work: sound.add_by_place(logits, work.but(start=0))})),
    _fault("window_restarts", "A window is laid with row numbers of the chunk.", f"{_ANY}, together with a window",
           decoder(behind=lambda _: {"near": lambda work: sound.near(work.but(start=0))}),
           "trymirai/lalamo/pull/200"),
    _fault("window_first_call_only", "A single query behind a cache has no window.", f"{_RING}, T = 1",
           decoder(behind=wrong.near_by(lambda _, work, near: near | (work.shape[2] == 1))),
           "rajveer43/VeloxQuant-MLX/pull/463"),
)

_RINGS = (
    _fault("ring_rolls_early", "A ring forgets the oldest key one step early.",
           f"{_RING} by no more keys than are past",
           decoder(behind=wrong.near_by(wrong.rolls_early))),
    _fault("ring_overwritten_by_chunk", "A chunk is written to the ring before its first queries have looked.",
           f"{_RING}, and several queries", decoder(behind=wrong.near_by(wrong.chunk_overwrites))),
    _fault("ring_clamped", "Where a ring is full, each key is written over the last slot.",
           f"{_RING}, shorter than the past", decoder(behind=wrong.near_by(wrong.clamped))),
    _fault("ring_of_first_row", "All queries of a chunk see the slots that its first query sees.",
           f"{_RING}, and several queries", decoder(behind=wrong.near_by(wrong.whole_chunk)),
           "pytorch/executorch/pull/22285"),
)

_STATES = (
    _fault("one_buffer_for_all", "All sequences are written to one buffer.", "two sequences by turns",
           wrong.one_buffer),
    _fault("not_cleared", "A sequence that begins finds a slot of the one before taken.", "a sequence after another",
           wrong.not_cleared),
    _fault("one_counter_for_all", "All sequences share one counter of tokens, which restarts with each new sequence.",
           f"two sequences by turns, {_BY_PLACE}", wrong.one_counter),
    _fault("grows_in_place", "The caller's cache grows, though it is declared to stay as it was.",
           "a cache that is continued twice", decoder(wrong.in_place)),
    _fault("writes_to_used_cache", "The new cache is made in the old one's buffer, whose last slot is written to.",
           "a cache that is continued twice", decoder(wrong.last_slot_changed)),
    _fault("overfull_clamped", "Where the cache has no room, a key is written over the last one.",
           "more keys than the cache holds", wrong.when_full(wrong.over_the_end), limits=_LIMITED),
    _fault("overfull_forgets", "Where the cache has no room, the oldest keys are dropped, and nobody is told.",
           "more keys than the cache holds", wrong.when_full(wrong.oldest_dropped), limits=_LIMITED),
    _fault("overfull_mute", "Where the cache has no room, an exception says nothing.",
           "more keys than the cache holds", wrong.when_full(wrong.mute), limits=_LIMITED),
    _fault("full_one_early", "The last slot of the cache is refused.", "as many keys as the cache holds",
           around(wrong.refuses_early), limits=_LIMITED),
)

MISTAKES = AspectFaults(about={STATE: (*_STORED, *_READ, *_COUNTED, *_RINGS, *_STATES)})
