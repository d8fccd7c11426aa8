"""Faults of packed attention: borders of sequences are lost, moved, or taken from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.forms import BORDERS, InputForm
from attnspec.faults import staged as stage
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Attend
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.problems.problem import Array

BLOCK = 8


@dataclass(frozen=True, slots=True)
class Spans:
    """The queries of a sequence, first_query … end_query-1, and the keys that they attend to."""

    number: int
    first_query: int
    end_query: int
    first_key: int
    end_key: int


@dataclass(frozen=True, slots=True, eq=False)
class PackedCall:
    """A call of a packed function.

    query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv); cu_query, cu_key (B+1,): the borders.
    """

    query: Array
    key: Array
    value: Array
    cu_query: Array
    cu_key: Array
    keywords: Mapping[str, Any]

    @property
    def spans(self) -> list[Spans]:
        """The spans of every sequence."""
        ends = zip(self.cu_query[:-1], self.cu_query[1:], self.cu_key[:-1], self.cu_key[1:], strict=True)
        return [Spans(number, *map(int, each)) for number, each in enumerate(ends)]

    def call_of(self, spans: Spans) -> HandedOver:
        """The call (1,H,T,D) of one sequence."""
        queries, keys = slice(spans.first_query, spans.end_query), slice(spans.first_key, spans.end_key)
        query, key, value = (array.swapaxes(0, 1)[None]
                             for array in (self.query[queries], self.key[keys], self.value[keys]))
        slopes = self.keywords.get("alibi_slopes")
        own = {} if slopes is None or slopes.ndim == 1 else {"alibi_slopes": slopes[spans.number]}
        return HandedOver(query, key, value, **{**self.keywords, **own})


Split = Callable[[PackedCall], Iterator[Spans] | list[Spans]]


def answer_alone(call: PackedCall, spans: Spans) -> Answer:
    """The answer (1,H,T,Dv) of one sequence, with its own queries and keys."""
    return stage.attention(call.call_of(spans))


def answer_sequences(
        call: PackedCall, split: Split, answer: Callable[[PackedCall, Spans], Answer] = answer_alone) -> Answer:
    """The answers of all sequences, (Nq,H,Dv), with the log-sum-exps (Nq,H) if they are asked for.

    Rows that no sequence has are zeros.
    """
    Nq, H, _ = call.query.shape
    output = np.zeros((Nq, H, call.value.shape[2]), call.query.dtype)
    lse = np.full((Nq, H), -np.inf)
    for spans in split(call):
        queries, part = slice(spans.first_query, spans.end_query), answer(call, spans)
        if isinstance(part, tuple):
            part, sums = part
            lse[queries] = sums[0].swapaxes(0, 1)
        output[queries] = part[0].swapaxes(0, 1)
    if not call.keywords.get("return_lse"):
        return output
    return output, stage.returned_lse(lse, call.query.dtype)


def packed_attention(split: Split = lambda call: call.spans,
                     answer: Callable[[PackedCall, Spans], Answer] = answer_alone) -> Callable[[], Attend]:
    """A maker of packed functions that take these spans, and answer each in this way."""
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> (Nq,H,Dv)."""
        return answer_sequences(packed_call(query, key, value, keywords), split, answer)
    return lambda: attend


def packed_call(query: Array, key: Array, value: Array, keywords: Mapping[str, Any]) -> PackedCall:
    """The call of a packed function: query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv)."""
    others = {name: value for name, value in keywords.items() if name not in BORDERS}
    of_queries, of_keys = (keywords[name] for name in BORDERS)
    return PackedCall(query, key, value, of_queries, of_keys, others)


def _move_keys(first: int = 0, end: int = 0) -> Split:
    """The keys of each sequence begin and end so many places away."""
    def split(call: PackedCall) -> Iterator[Spans]:
        """The moved spans of every sequence."""
        for each in call.spans:
            yield replace(each, first_key=min(max(0, each.first_key + first), each.end_key),
                          end_key=max(min(len(call.key), each.end_key + end), each.first_key))
    return split


def _one_sequence(call: PackedCall) -> list[Spans]:
    """All queries attend to all keys."""
    return [Spans(0, 0, len(call.query), 0, len(call.key))]


def _borders_of_queries(call: PackedCall) -> Iterator[Spans]:
    """One array of borders serves queries and keys."""
    most = len(call.key)
    for each in call.spans:
        yield replace(each, first_key=min(each.first_query, most), end_key=min(each.end_query, most))


def _empty_ones_left_out(call: PackedCall) -> Iterator[Spans]:
    """Sequences without keys are dropped from the list of keys alone: later ones move up."""
    spans = call.spans
    keys = [(each.first_key, each.end_key) for each in spans if each.end_key > each.first_key]
    for each, (first, end) in zip(spans, keys + [(0, 0)] * (len(spans) - len(keys)), strict=True):
        yield replace(each, first_key=first, end_key=end)


def _no_more_keys_than_queries(call: PackedCall) -> Iterator[Spans]:
    """The most queries of a sequence serve for the most keys, too."""
    most = max((each.end_query - each.first_query for each in call.spans), default=0)
    for each in call.spans:
        yield replace(each, end_key=min(each.end_key, each.first_key + most))


def _most_of_first(call: PackedCall) -> Iterator[Spans]:
    """The grid is as long as the first sequence, so that later rows are never computed."""
    spans = call.spans
    most = spans[0].end_query - spans[0].first_query if spans else 0
    for each in spans:
        yield replace(each, end_query=min(each.end_query, each.first_query + most))


def _whole_blocks(call: PackedCall) -> Iterator[Spans]:
    """Keys are read by blocks, the last one whole."""
    for each in call.spans:
        length = -(-(each.end_key - each.first_key) // BLOCK) * BLOCK
        yield replace(each, end_key=min(len(call.key), each.first_key + length))


def _first_keys(call: PackedCall) -> Iterator[Spans]:
    """Each sequence attends to its number of keys, counted from the first key of all."""
    for each in call.spans:
        yield replace(each, first_key=0, end_key=each.end_key - each.first_key)


def _next_one(call: PackedCall) -> Iterator[Spans]:
    """Each sequence has the keys of the next; the last one has those of the first."""
    spans = call.spans
    for each, other in zip(spans, [*spans[1:], *spans[:1]], strict=True):
        yield replace(each, first_key=other.first_key, end_key=other.end_key)


def _together_if_single(call: PackedCall) -> list[Spans]:
    """The borders are ignored if every sequence has one query, as in decoding."""
    is_decoding = all(each.end_query - each.first_query == 1 for each in call.spans)
    return _one_sequence(call) if is_decoding else call.spans


def _with_mask(visible: Callable[[PackedCall, Spans], Array]) -> Callable[[PackedCall, Spans], Answer]:
    """An answer in which this mask (T,S) stands for the causal flag."""
    def answer(call: PackedCall, spans: Spans) -> Answer:
        """The answer (1,H,T,Dv) of one sequence."""
        if not call.keywords.get("causal"):
            return answer_alone(call, spans)
        keywords = {**call.keywords, "causal": False, "mask": visible(call, spans)}
        return answer_alone(replace(call, keywords=keywords), spans)
    return answer


def _in_the_packed_axis(_: PackedCall, spans: Spans) -> Array:
    """The causal mask (T,S), with places counted from the first token of all."""
    return (np.arange(spans.first_key, spans.end_key)
            <= np.arange(spans.first_query, spans.end_query)[:, None])


def _from_the_end(_: PackedCall, spans: Spans) -> Array:
    """The causal mask (T,S), aligned at the last query and key."""
    T, S = spans.end_query - spans.first_query, spans.end_key - spans.first_key
    return np.tri(T, S, S - T, dtype=bool)


def _first_heads(call: PackedCall, spans: Spans) -> Answer:
    """The answer (1,H,T,Dv), that of the first head for all heads of a sequence of one token."""
    answer = answer_alone(call, spans)
    if spans.end_query - spans.first_query != 1 or isinstance(answer, tuple):
        return answer
    return np.broadcast_to(answer[:, :1], answer.shape)


_TWO = "two sequences and more"


def _fault(name: str, story: str, reach: str, split: Split | None = None, *,
           answer: Callable[[PackedCall, Spans], Answer] = answer_alone) -> Fault:
    make = packed_attention(split, answer) if split else packed_attention(answer=answer)
    return Fault(name, Stage.PACKED, story, reach, make, form=InputForm.PACKED)


PACKED_FAULTS = (
    _fault("packed_together", "The borders are accepted and not applied.", _TWO, _one_sequence),
    _fault("packed_borders_of_queries", "One array of borders serves queries and keys.",
           "a sequence whose queries are not as many as its keys", _borders_of_queries),
    _fault("packed_key_lost", "The last key of each sequence is left out.",
           "any sequence with keys", _move_keys(end=-1)),
    _fault("packed_key_of_next", "Each sequence sees the first key of the next.", _TWO, _move_keys(end=1)),
    _fault("packed_key_of_last", "Each sequence sees the last key of the one before.", _TWO, _move_keys(first=-1)),
    _fault("packed_first_key_lost", "The first key of each sequence is left out.",
           "any sequence with keys", _move_keys(first=1)),
    _fault("packed_last_lost", "The last sequence is not computed.", "any sequence", lambda call: call.spans[:-1]),
    _fault("packed_empty_moves_up", "Sequences without keys are dropped, and later ones move up.",
           "a sequence without keys before another", _empty_ones_left_out),
    _fault("packed_keys_beyond_queries", "The most queries of a sequence serve for the most keys, too.",
           "a sequence with more keys than any has queries", _no_more_keys_than_queries),
    _fault("packed_most_of_first", "The grid is as long as the first sequence.",
           "a later sequence that is longer", _most_of_first),
    _fault("packed_whole_blocks", "The last block of 8 keys is attended to whole.",
           f"{_TWO}, keys no multiple of 8", _whole_blocks),
    _fault("packed_first_keys", "The offset of a sequence's keys is forgotten.", _TWO, _first_keys),
    _fault("packed_next", "Each sequence has the keys of the next one.", _TWO, _next_one),
    _fault("packed_together_when_decoding", "Where each sequence has one query, all keys are attended to.",
           f"{_TWO} of one query each", _together_if_single),
    _fault("packed_causal_from_first_token", "Places count along the packed axis.",
           "the causal flag, and an earlier sequence whose queries are not as many as its keys",
           answer=_with_mask(_in_the_packed_axis)),
    _fault("packed_causal_from_the_end", "Sequences are aligned at their ends, although their beginnings are declared.",
           "the causal flag, and a sequence whose queries are not as many as its keys",
           answer=_with_mask(_from_the_end)),
    _fault("packed_one_token_squeezed", "A sequence of one token has its heads squeezed away.",
           "a sequence of one query, H > 1, without return_lse", answer=_first_heads),
)
