"""A problem for a function that reads keys and values from pages: where each lies, and what lies beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.forms import NUMBER, TABLE
from attnspec.core.keyword_nouns import PagePattern
from attnspec.problems.entries import random_words
from attnspec.problems.problem import HELD, Array, Problem
from attnspec.subjects.laying import Lays

USUAL: PagePattern = "shuffled"
"""How keys and values lie where a case does not say it, and the subject takes nothing but pages."""

LARGE = 256.0
"""What stands, with alternating signs, in slots that hold no key, where that is to be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class PagedProblem:
    """key (pages,page,Hkv,D), value (pages,page,Hkv,Dv), table (B,N) int32, lengths (B,) int32."""

    key: Array
    value: Array
    table: Array
    lengths: Array

    @property
    def given(self) -> Mapping[str, object]:
        """What is given beside query, key and value."""
        return {TABLE: self.table, NUMBER: self.lengths}


def _any_order(pages: int) -> Array:
    """Any shape, (pages,): their numbers in an order of their own, the same each time."""
    return np.argsort(random_words(0, "pages", (pages,)), kind="stable")


def _page_zero(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Any shape, (missing,): page 0, whoever's it is."""
    return np.zeros(missing, np.int64)


def _unused(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Any shape, (missing,): pages that nobody uses, one after the other."""
    return np.resize(spare, missing)


def _no_page(spare: Array, pages: int, missing: int) -> Array:  # noqa: ARG001  (the same parameters for all)
    """Any shape, (missing,): numbers below and beyond those of the pages, by turns."""
    return np.resize(np.array([-1, pages + 7]), missing)


@dataclass(frozen=True, slots=True)
class PageLayout:
    """How keys are put into pages. slots: of a page, by the number of keys.  order: page numbers (pages,) in
    the order in which they are handed out.  spare: pages that nobody uses.  columns: of the table, more than needed.
    tail: what stands there.  content: of slots that hold no key.  is_tight: whether keys beyond a length have no slot.
    shares: whether pages of the same content are one.
    """

    slots: Callable[[int], int] = lambda _: 4
    order: Callable[[int], Array] = _any_order
    spare: int = 2
    columns: int = 0
    tail: Callable[[Array, int, int], Array] = _page_zero
    content: float = 1.0
    is_tight: bool = False
    shares: bool = False


UNUSED_PAGES = 65_600
"""More pages than 16 bits count: a number of theirs that is cut off names another page."""

MOST_SLOTS = 2**21
"""Slots of a pool at most: a subject whose pages are long is not handed gigabytes for the sake of their number."""

_LONG = PageLayout(columns=3, is_tight=True)
_BEYOND = replace(_LONG, slots=lambda keys: max(slots for slots in (1, 2, 3, 4) if keys % slots == 0), tail=_unused)

LAYOUTS: Mapping[PagePattern, PageLayout] = {
    "shuffled": PageLayout(),
    "in_order": PageLayout(order=np.arange, spare=0),
    "backwards": PageLayout(order=lambda pages: np.arange(pages)[::-1], spare=0),
    "one_slot": PageLayout(slots=lambda _: 1),
    "odd": PageLayout(slots=lambda _: 3),
    "one_page": PageLayout(slots=lambda keys: keys, spare=0),
    "long_table": _LONG,
    "large_beyond": replace(_BEYOND, content=LARGE),
    "nan_beyond": replace(_BEYOND, content=np.nan),
    "no_page_beyond": replace(_LONG, tail=_no_page),
    "pages_of_16": PageLayout(slots=lambda _: 16),
    "pages_of_32": PageLayout(slots=lambda _: 32),
    "pages_of_64": PageLayout(slots=lambda _: 64),
    "pages_of_128": PageLayout(slots=lambda _: 128),
    "pages_of_256": PageLayout(slots=lambda _: 256),
    "beyond_16_bits": PageLayout(slots=lambda _: 1, order=lambda pages: np.arange(pages)[::-1], spare=UNUSED_PAGES),
    "shared": PageLayout(slots=lambda _: 2, shares=True),
}


def slots_of_page(pattern: PagePattern, keys: int, multiple: int = 1) -> int:
    """How many slots a page of a pattern has, which are a multiple of a number."""
    return -(-max(1, LAYOUTS[pattern].slots(keys)) // multiple) * multiple


def in_pages(problem: Problem, pattern: PagePattern, multiple: int = 1) -> PagedProblem:
    """Keys and values of a problem, put into pages by a pattern, whose slots are a multiple of a number."""
    layout, sizes, slots = LAYOUTS[pattern], problem.sizes, slots_of_page(pattern, problem.sizes.S, multiple)
    given = getattr(problem, NUMBER)
    lengths = np.full(sizes.B, sizes.S, np.int32) if given is None else given
    held = lengths if layout.is_tight else np.full(sizes.B, sizes.S)
    needed = -(-held // slots)
    is_used = np.arange(max(1, needed.max(initial=0) + layout.columns)) < needed[:, None]
    contents = [_cut(array, held, is_used, slots, layout.content) for array in (problem.key, problem.value)]
    owner = _same(contents) if layout.shares else np.arange(is_used.sum())
    own, pages = np.unique(owner, return_inverse=True)
    order = layout.order(len(own) + (layout.spare if layout.spare * slots <= MOST_SLOTS else 0))
    table = np.empty(is_used.shape, np.int32)
    table[is_used] = order[pages]
    table[~is_used] = layout.tail(order[len(own):], len(order), int((~is_used).sum()))
    key, value = (_pool(array[own], order, layout.content) for array in contents)
    return PagedProblem(key, value, table, lengths)


def laid_in_pages(problem: Problem, pattern: PagePattern, multiple: int = 1) -> Lays:
    """How what belongs to the entries of keys and values, (B,Hkv,S,·), lies in their pages, (pages,slots,Hkv,·)."""
    def lay(array: Array) -> Array:
        """(pages,slots,Hkv,·)."""
        return in_pages(problem.but(key=array, value=array), pattern, multiple).key
    return dict.fromkeys(HELD, lay)


def _cut(array: Array, held: Array, is_used: Array, slots: int, content: float) -> Array:
    """(pages,slots,Hkv,·) of (B,Hkv,S,·): the pages in use, entry by entry; `content` stands beyond what is held."""
    B, heads, S, width = array.shape
    columns = is_used.shape[1]
    every = np.empty((B, columns * slots, heads, width), array.dtype)
    every[...] = _filler(content, width, array)
    own = min(S, columns * slots)
    is_held = np.arange(own) < held[:, None]
    every[:, :own][is_held] = array.swapaxes(1, 2)[:, :own][is_held]
    return np.asarray(every.reshape(B, columns, slots, heads, width)[is_used])


def _filler(content: float, width: int, like: Array) -> Array:
    """(width,) in the dtype of an array of any shape: the content, with alternating signs."""
    return (content * np.where(np.arange(width) % 2, -1.0, 1.0)).astype(like.dtype)


def _same(contents: list[Array]) -> Array:
    """(pages,): of each page the first whose keys and values, of any shape, are the same to the bit."""
    first: dict[bytes, int] = {}
    texts = (b"".join(array[page].tobytes() for array in contents) for page in range(len(contents[0])))
    return np.array([first.setdefault(text, page) for page, text in enumerate(texts)], np.int64)


def _pool(pages: Array, order: Array, content: float) -> Array:
    """Of any shape, (pages,slots,Hkv,·): each page in its place; the others hold nothing."""
    pool = np.empty((len(order), *pages.shape[1:]), pages.dtype)
    pool[...] = _filler(content, pages.shape[-1], pages)
    pool[order[: len(pages)]] = pages
    return pool
