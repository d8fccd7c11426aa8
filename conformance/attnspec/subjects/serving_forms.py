"""Brings a problem into the forms of functions that serve.

Packed: its sequences follow one another, and the answer is spread out again. Paged: keys and
values lie in pages of a pool. Stepped: earlier calls store a decoder's past, and the last one is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from attnspec.core.forms import CACHE, HELD_IN_CACHE, KEY_COUNTS, OF_ENTRIES, SAID_BY_BORDERS, TABLE
from attnspec.core.keyword import Acts, PagePattern, StepPattern
from attnspec.core.keywords import AXES, COUNTS, KEYWORDS
from attnspec.problems.families import random_words
from attnspec.problems.keyword_arrays import cut_meanings, slots_of_page
from attnspec.problems.problem import CACHED_INPUTS, Array, Lays, Problem, Sizes, join_past


@dataclass(frozen=True, slots=True, eq=False)
class PackedProblem:
    """A packed problem: query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), with borders (B+1,) in
    given_arguments.

    own_places: by input, the places of each sequence among its dense ones, (B,T) or (B,S).
    """

    query: Array
    key: Array
    value: Array
    given_arguments: Mapping[str, object]
    own_places: Mapping[str, Array]
    sizes: Sizes

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Returns (Nq,H,Dv)."""
        return len(self.query), self.sizes.H, self.sizes.Dv

    @property
    def lse_shape(self) -> tuple[int, int]:
        """Returns (Nq,H)."""
        return len(self.query), self.sizes.H

    def spread(self, answer: Array, of: str = "query") -> Array:
        """Spreads an answer (Nq,H,…), packed as an input is, to (B,H,T,…), with zeros."""
        own = self.own_places[of]
        dense = np.zeros((*own.shape, *answer.shape[1:]), answer.dtype)
        dense[own] = answer
        return dense.swapaxes(1, 2)

    def spread_inputs(self, gradients: Mapping[str, Array]) -> Mapping[str, Array]:
        """Spreads gradients of packed inputs to (B,H,T,D); others, as sinks' (H,), stay."""
        packed = gradients.keys() & self.own_places.keys()
        return {**gradients, **{name: self.spread(gradients[name], name) for name in packed}}

    @property
    def lays(self) -> Lays:
        """Returns the function that packs entries of each input as (Nq,H,·) or (Nk,Hkv,·)."""
        return {name: partial(_pack_array, own=own) for name, own in self.own_places.items()}

    def pack_output(self, array: Array) -> Array:
        """Packs an array (B,H,T,Dv) like the output as (Nq,H,Dv)."""
        return _pack_array(array, self.own_places["query"])


def pack(problem: Problem, parameters: frozenset[str]) -> PackedProblem:
    """Packs a problem, with those of `max_query` and `max_key` that the function takes. Lengths
    become borders; where none are given, every sequence is as long as the array.
    """
    sizes = problem.sizes
    of_queries, of_keys = _count_own(problem, "T"), _count_own(problem, "S")
    own = {"query": _find_places(of_queries, problem.query),
           "key": _find_places(of_keys, problem.key),
           "value": _find_places(of_keys, problem.value)}
    query, key, value = (_pack_array(getattr(problem, name), places)
                         for name, places in own.items())
    most = {"max_query": _find_longest(own["query"]), "max_key": _find_longest(own["key"])}
    form = {"cu_query": _find_borders(own["query"]), "cu_key": _find_borders(own["key"]),
            **{name: longest for name, longest in most.items() if name in parameters}}
    keywords = {name: value for name, value in sorted(problem.given.items()) if name not in SAID_BY_BORDERS}
    return PackedProblem(query, key, value, {**form, **keywords}, own, sizes)


def _count_own(problem: Problem, axis: str) -> Array | None:
    """Returns how many queries, or keys, each batch entry has, (B,); None for all."""
    name = next(name for name, counted in COUNTS.items() if counted == axis)
    lengths: Array | None = getattr(problem, name)
    return lengths


def _pack_array(array: Array, own: Array) -> Array:
    """Packs (B,H,T,D) as (T,H,D) of all sequences together."""
    return np.ascontiguousarray(array.swapaxes(1, 2)[own])


def _find_places(lengths: Array | None, array: Array) -> Array:
    """Returns the places (B,T) bool of each sequence in an array (B,H,T,D), or of keys."""
    B, _, most, _ = array.shape
    return np.arange(most) < (np.full((B, 1), most) if lengths is None else lengths[:, None])


def _find_borders(own: Array) -> Array:
    """Returns where sequences begin, and the last ends, (B+1,) int32; own: their places (B,T)."""
    return np.concatenate([[0], np.cumsum(own.sum(axis=1))]).astype(np.int32)


def _find_longest(own: Array) -> int:
    """Returns the most places (B,T) that a sequence has."""
    return int(own.sum(axis=1).max(initial=0))


LARGE_FILLER = 256.0
"""What stands, with alternating signs, in slots without a key, where reading such a slot must
show.
"""


@dataclass(frozen=True, slots=True, eq=False)
class PagedProblem:
    """key (pages,page,Hkv,D), value (pages,page,Hkv,Dv), table (B,N) int32, lengths (B,) int32."""

    key: Array
    value: Array
    table: Array
    lengths: Array

    @property
    def given_arguments(self) -> Mapping[str, object]:
        """Returns what is given beside query, key and value."""
        return {TABLE: self.table, KEY_COUNTS: self.lengths}


def _shuffle_pages(pages: int) -> Array:
    """Returns the page numbers (pages,), of any shape, in an order that is always the same."""
    return np.argsort(random_words(0, "pages", (pages,)), kind="stable")


def _number_page_zero(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Returns page 0, whoever's it is, in any shape (missing,)."""
    return np.zeros(missing, np.int64)


def _number_unused_pages(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Returns pages that nobody uses, in turn, in any shape (missing,)."""
    return np.resize(spare, missing)


def _number_no_page(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Returns numbers below and beyond all pages, by turns, in any shape (missing,)."""
    return np.resize(np.array([-1, pages + 7]), missing)


@dataclass(frozen=True, slots=True)
class PageLayout:
    """How keys are put into pages of `slots_of_page` slots.

    order: page numbers (pages,) in the order in which they are handed out.  spare: unused pages.
    columns: extra columns of the table.  tail: what stands there.  content: of slots that hold no
    key.  is_tight: whether keys beyond a length have no slot.  shares: whether pages of the same
    content are one.
    """

    order: Callable[[int], Array] = _shuffle_pages
    spare: int = 2
    columns: int = 0
    tail: Callable[[Array, int, int], Array] = _number_page_zero
    content: float = 1.0
    is_tight: bool = False
    shares: bool = False


UNUSED_PAGES = 65_600
"""More pages than 16 bits count: a number that is cut off names another page."""

MOST_SLOTS = 2**21
"""The most slots of a pool, so that long pages do not make it gigabytes."""

_LONG_TAIL = PageLayout(columns=3, is_tight=True)
_BEYOND_TAIL = replace(_LONG_TAIL, tail=_number_unused_pages)

LAYOUTS: Mapping[PagePattern, PageLayout] = {
    "in_order": PageLayout(order=np.arange, spare=0),
    "backwards": PageLayout(order=lambda pages: np.arange(pages)[::-1], spare=0),
    "one_page": PageLayout(spare=0),
    "long_table": _LONG_TAIL,
    "large_beyond": replace(_BEYOND_TAIL, content=LARGE_FILLER),
    "nan_beyond": replace(_BEYOND_TAIL, content=np.nan),
    "no_page_beyond": replace(_LONG_TAIL, tail=_number_no_page),
    "beyond_16_bits": PageLayout(order=lambda pages: np.arange(pages)[::-1], spare=UNUSED_PAGES),
    "shared": PageLayout(shares=True),
}


def in_pages(problem: Problem, pattern: PagePattern, multiple: int = 1) -> PagedProblem:
    """Puts keys and values into pages by a pattern, whose slots are a multiple of a number."""
    pages = _lay_pages(problem, pattern, multiple)
    return PagedProblem(pages.lay(problem.key), pages.lay(problem.value), pages.table,
                        pages.lengths)


def laid_in_pages(problem: Problem, pattern: PagePattern, multiple: int = 1) -> Lays:
    """Returns the function that lays out entries of keys and values, (B,Hkv,S,·), as
    (pages,slots,Hkv,·).
    """
    return dict.fromkeys(CACHED_INPUTS, _lay_pages(problem, pattern, multiple).lay)


@dataclass(frozen=True, slots=True, eq=False)
class LaidPages:
    """Table (B,N), lengths (B,), and what lays (B,Hkv,S,·) out in pages (pages,slots,Hkv,·)."""

    table: Array
    lengths: Array
    lay: Callable[[Array], Array]


def _lay_pages(problem: Problem, pattern: PagePattern, multiple: int) -> LaidPages:
    """Decides which page has which keys, by a pattern, and where it is in the pool."""
    layout, sizes = LAYOUTS.get(pattern, PageLayout()), problem.sizes
    slots = slots_of_page(pattern, sizes.S, multiple)
    given = getattr(problem, KEY_COUNTS)
    lengths = np.full(sizes.B, sizes.S, np.int32) if given is None else given
    held = lengths if layout.is_tight else np.full(sizes.B, sizes.S)
    needed = -(-held // slots)
    is_used = np.arange(max(1, needed.max(initial=0) + layout.columns)) < needed[:, None]
    cut = partial(_cut_pages, held=held, is_used=is_used, slots=slots, content=layout.content)
    owner = np.arange(is_used.sum())
    if layout.shares:
        owner = _find_same_pages([cut(array) for array in _list_key_arrays(problem)])
    own, pages = np.unique(owner, return_inverse=True)
    order = layout.order(len(own) + (layout.spare if layout.spare * slots <= MOST_SLOTS else 0))
    table = np.empty(is_used.shape, np.int32)
    table[is_used] = order[pages]
    table[~is_used] = layout.tail(order[len(own):], len(order), int((~is_used).sum()))
    return LaidPages(table, lengths,
                     lambda array: _fill_pool(cut(array)[own], order, layout.content))


def _list_key_arrays(problem: Problem) -> Iterator[Array]:
    """Yields keys and values (B,Hkv,S,·), and what says which numbers their entries stand for."""
    yield from (problem.key, problem.value)
    for name, array in problem.given.items():
        if name in OF_ENTRIES and KEYWORDS[name].meaning_of in CACHED_INPUTS:
            yield array


def _cut_pages(array: Array, held: Array, is_used: Array, slots: int, content: float) -> Array:
    """Cuts (B,Hkv,S,·) into the pages in use, (pages,slots,Hkv,·); `content` fills the rest."""
    B, heads, S, width = array.shape
    columns = is_used.shape[1]
    every = np.empty((B, columns * slots, heads, width), array.dtype)
    every[...] = _make_filler(content, width, array)
    own = min(S, columns * slots)
    is_held = np.arange(own) < held[:, None]
    every[:, :own][is_held] = array.swapaxes(1, 2)[:, :own][is_held]
    return np.asarray(every.reshape(B, columns, slots, heads, width)[is_used])


def _make_filler(content: float, width: int, like: Array) -> Array:
    """Makes the content (width,), with alternating signs, in the dtype of any shape."""
    return (content * np.where(np.arange(width) % 2, -1.0, 1.0)).astype(like.dtype)


def _find_same_pages(contents: list[Array]) -> Array:
    """Returns, for each page (pages,), the first with the same keys and values, of any shape."""
    first: dict[bytes, int] = {}
    pages = range(len(contents[0]))
    texts = (b"".join(array[page].tobytes() for array in contents) for page in pages)
    return np.array([first.setdefault(text, page) for page, text in enumerate(texts)], np.int64)


def _fill_pool(pages: Array, order: Array, content: float) -> Array:
    """Puts each page, (pages,slots,Hkv,·) of any shape, in its place; others hold nothing."""
    pool = np.empty((len(order), *pages.shape[1:]), pages.dtype)
    pool[...] = _make_filler(content, pages.shape[-1], pages)
    pool[order[: len(pages)]] = pages
    return pool


USUAL_STEPPING: StepPattern = "at_once"
"""How the past comes into the cache where a case does not say it."""

MOST_STEPS = 16
"""How many past keys at most have a call of their own."""

GROWING = 7
"""How many calls each store one more key than the call before; the rest is stored at once."""

NO_CACHE = ""
"""The name of the cache of a sequence that has not begun."""

FIRST_STEP: Mapping[str, object] = {CACHE: {"earlier": {}, "takes": NO_CACHE}}
"""What is told of the first call of a sequence."""

OWN_CACHE, OTHER_CACHE, TRIED_CACHE = "own", "other", "tried"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A call of a decoder: a problem without a past.  takes: the name of the cache that it is
    handed.  makes: that of the cache that it returns.
    """

    problem: Problem
    takes: str
    makes: str


@dataclass(frozen=True, slots=True, eq=False)
class SteppedDecoding:
    """The earlier calls, in their order, and the one that is judged."""

    earlier: tuple[Step, ...]
    last: Step


def in_steps(problem: Problem, pattern: StepPattern) -> SteppedDecoding:
    """Turns a problem into calls of a decoder; without a past, the judged call is the first."""
    cut_past = _ENDS_BY_STEPPING.get(pattern, _store_at_once)
    own = tuple(_storing_steps(problem, OWN_CACHE, cut_past(problem.past)))
    takes = OWN_CACHE if own else NO_CACHE
    last = Step(_without_past(problem), takes, OWN_CACHE)
    if pattern == "beside_another":
        beside = tuple(_storing_steps(_make_other_call(problem), OTHER_CACHE,
                                      _store_in_halves(problem.past)))
        pairs = zip(own, beside, strict=True)
        return SteppedDecoding(tuple(step for pair in pairs for step in pair), last)
    if pattern == "after_another":
        return SteppedDecoding((*_storing_steps(_make_other_call(problem), OTHER_CACHE,
                                                _store_at_once(problem.sizes.S)), *own), last)
    if pattern == "tried_before":
        other = _make_other_call(problem)
        tried = Step(_silence_call(other, _without_past(other)), takes, TRIED_CACHE)
        return SteppedDecoding((*own, tried), last)
    return SteppedDecoding(own, last)


Arguments = tuple[Mapping[str, Array], Mapping[str, object]]
"""The arrays of a call, query (B,H,T,D) or (B,T,M) and its like, and its keywords."""


def steps_for_host(stepped: SteppedDecoding,
                   call: Callable[[Problem], Arguments]) -> dict[str, Any]:
    """Returns the keyword of earlier calls (docs/protocol.md).  call: lists a call's arguments."""
    earlier = {}
    for number, step in enumerate(stepped.earlier):
        arrays, keywords = call(step.problem)
        earlier[str(number)] = {"inputs": arrays, "keywords": keywords, "takes": step.takes,
                                "makes": step.makes}
    return {CACHE: {"earlier": earlier, "takes": stepped.last.takes}}


def _store_at_once(past: int) -> tuple[int, ...]:
    """Returns where calls begin and end, for so many past keys."""
    return (0, past)


def _store_in_halves(past: int) -> tuple[int, ...]:
    return (0, past // 2, past)


def _store_one_by_one(past: int) -> tuple[int, ...]:
    return (0, *range(max(0, past - MOST_STEPS), past + 1))


def _store_growing(past: int) -> tuple[int, ...]:
    ends = (number * (number + 1) // 2 for number in range(GROWING + 1))
    return (*(end for end in ends if end < past), past)


_ENDS_BY_STEPPING: Mapping[StepPattern, Callable[[int], tuple[int, ...]]] = {
    "token_by_token": _store_one_by_one, "halves": _store_in_halves, "growing": _store_growing,
    "beside_another": _store_in_halves}


def _storing_steps(problem: Problem, name: str, places: tuple[int, ...]) -> Iterator[Step]:
    """Yields the calls that store the first keys of a problem, cut at these places."""
    whole, takes = join_past(problem), NO_CACHE
    for first, end in pairwise(places):
        if first < end:
            yield Step(_silence_call(problem, _take_span(whole, first, end), end), takes, name)
            takes = name


def _take_span(whole: Problem, first: int, end: int) -> Problem:
    """Takes as many queries as keys: the keys themselves, or queries where those are codes."""
    key, value = (np.ascontiguousarray(getattr(whole, name)[:, :, first:end])
                  for name in CACHED_INPUTS)
    rows = np.arange(end - first) % whole.query.shape[2]
    scales = cut_meanings(whole, keys=slice(first, end), queries=rows)
    if scales:
        query = whole.query[:, :, rows]
    else:
        query = np.repeat(key, whole.query.shape[1] // key.shape[1], axis=1)
    return whole.but(**scales, query=np.ascontiguousarray(query), key=key, value=value)


def _silence_call(problem: Problem, part: Problem, end: int | None = None) -> Problem:
    """Makes a call whose answer is thrown away: no rows, no requests, no keys beyond its end."""
    rows = {name for name, axes in AXES.items()
            if name in problem.given and set(axes) & set("TS")} - OF_ENTRIES
    asked = {name for name in problem.given if KEYWORDS[name].acts is Acts.ANSWER}
    bare: dict[str, Any] = {**dict.fromkeys(rows), **dict.fromkeys(asked, False)}
    for name in problem.given.keys() & COUNTS.keys():
        bare[name] = None
        if end is not None and COUNTS[name] == "S":
            lengths = problem.given[name]
            bare[name] = np.minimum(lengths, end).astype(lengths.dtype)
    return _without_past(part.but(**bare))


def _without_past(problem: Problem) -> Problem:
    """Removes what the cache holds and what belongs to it."""
    new = cut_meanings(problem, keys=slice(problem.past, None))
    return problem.but(**new, **dict.fromkeys(HELD_IN_CACHE), **{CACHE: None})


def _make_other_call(problem: Problem) -> Problem:
    """Negates keys and values and rolls them by one place; codes get scales twice the size."""
    has_meanings = not OF_ENTRIES.isdisjoint(problem.given)
    scales = {name: np.asarray(2 * value) for name, value in cut_meanings(problem).items()
              if KEYWORDS[name].is_factor}
    moved: dict[str, Array] = {}
    for name in (*CACHED_INPUTS, *HELD_IN_CACHE):
        if (value := getattr(problem, name)) is not None:
            other = value if has_meanings else -value
            moved[name] = np.ascontiguousarray(np.roll(other, 1, axis=2))
    return problem.but(**scales, **moved)
