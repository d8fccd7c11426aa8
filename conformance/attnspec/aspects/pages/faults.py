"""Faults of tables of pages: ignored, read at another place, read too far, or not far enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.core.forms import TABLE, InputForm
from attnspec.faults.fault import AspectFaults, Fault, Outside
from attnspec.faults.staged import (
    FindSlots,
    PageSlots,
    PageTable,
    around,
    attention,
    gather,
    gather_from,
    slots_of_keys,
    staged,
    table_of,
)
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.problems.problem import Array

KERNEL_PAGE = 4


def _with_table(change: Callable[[PageTable], Array]) -> FindSlots:
    """The slots of keys by another table, any shape, with pages modulo the number there are."""
    return lambda table: slots_of_keys(replace(table, pages=change(table) % table.most))


def _in_order(table: PageTable) -> Array:
    """The pages, any shape, as if entries had theirs one behind the other."""
    return np.arange(table.pages.size).reshape(table.pages.shape)


def _if_first(changed: Callable[[PageTable], Array],
              condition: Callable[[PageTable], bool]) -> Callable[[PageTable], Array]:
    """The pages (B,N) of another table, if a condition holds."""
    return lambda table: changed(table) if condition(table) else table.pages


def _late_border(table: PageTable) -> PageSlots:
    """The slots of keys, the first key of a page looked for in the page before it."""
    pages, slots = slots_of_keys(table)
    columns = np.maximum(table.places - 1, 0) // table.slots
    return np.where(table.places < table.lengths[:, None], table.pages[:, columns], pages), slots


def _slots_of_kernel(table: PageTable) -> PageSlots:
    """The slots of keys as if a page had 4 slots, whatever it has."""
    columns = np.minimum(table.places // KERNEL_PAGE, table.pages.shape[1] - 1)
    pages = table.pages[:, columns] % table.most
    return pages, np.broadcast_to(table.places % min(KERNEL_PAGE, table.slots), pages.shape)


def _full_pages(table: PageTable) -> Array:
    """The number of keys, (B,), without a last page that is not full, unless there is one only."""
    full = table.lengths // table.slots * table.slots
    return np.where(full > 0, full, table.lengths)


def _one_page_more(table: PageTable) -> Array:
    """The number of keys, (B,), with the next page if the last one is just full."""
    is_just_full = (table.lengths > 0) & (table.lengths % table.slots == 0)
    return table.lengths + np.where(is_just_full, table.slots, 0)


def _reading(lengths: Callable[[PageTable], Array]) -> Callable[[HandedOver], HandedOver]:
    """A `gather` stage for which entries have so many keys (B,), as far as the table goes."""
    def count_keys(table: PageTable) -> Array:
        """How many keys each entry has, (B,)."""
        return np.minimum(lengths(table), len(table.places))

    def find_slots(table: PageTable) -> PageSlots:
        """The page and the slot of each of these keys."""
        pages, slots = slots_of_keys(replace(table, lengths=count_keys(table)))
        return pages % table.most, slots
    return gather_from(find_slots, lengths=count_keys)


def _slots_of_all(table: PageTable) -> PageSlots:
    """The page and the slot of each place in the table, whether or not an entry has keys there."""
    pages = table.pages[:, table.places // table.slots] % table.most
    return pages, np.broadcast_to(table.places % table.slots, pages.shape)


def _own_pages_once(call: HandedOver) -> HandedOver:
    """The call in which the first entry that names a page has it; others find zeros there."""
    table = table_of(call)
    if table is None:
        return call
    _, first = np.unique(table.pages, return_index=True)
    is_taken = np.ones(table.pages.size, bool)
    is_taken[first] = False
    key, value = (np.concatenate([array, np.zeros_like(array[:1])]) for array in (call.key, call.value))
    names = np.where(is_taken.reshape(table.pages.shape), table.most, table.pages)
    return gather(call.but(key=key, value=value, block_table=names))


def _heads_first(call: HandedOver) -> HandedOver:
    """The pool is read as if heads came before slots."""
    if table_of(call) is None:
        return call
    return gather(call.but(key=_read_as(call.key), value=_read_as(call.value)))


def _read_as(pool: Array) -> Array:
    """A pool (pages,slots,Hkv,·), whose memory is read as (pages,Hkv,slots,·)."""
    pages, slots, heads, width = pool.shape
    return pool.reshape(pages, heads, slots, width).swapaxes(1, 2)


def _every_number(call: HandedOver) -> HandedOver:
    """The call; all pages that the table names are fetched, with keys or without."""
    if table := table_of(call):
        _ = call.key[table.pages]
    return gather(call)


def _clears(call: HandedOver) -> Answer:
    """The answer; then the first page of the first entry is filled with zeros."""
    answer = attention(call)
    if table := table_of(call):
        call.key[table.pages[0, 0]] = 0
    return answer


def _is_one_query(table: PageTable) -> bool:
    return table.queries == 1


def _fault(name: str, story: str, reach: str, **changes: Any) -> Fault:  # noqa: ANN401  (stages)
    return Fault(name, TABLE, story, reach, staged(**changes), form=InputForm.PAGED)


_ANY = "pages that do not lie in order"
_TWO = "several pages for an entry"

_FAULTS = (
    _fault("pages_in_order", "The table is not handed on, and the pool is read from its beginning.", _ANY,
           gather=gather_from(_with_table(_in_order))),
    _fault("pages_in_order_for_queries",
           "The path for several queries reads the pool without the table.", f"{_ANY}, T > 1",
           gather=gather_from(_with_table(_if_first(_in_order, lambda table: not _is_one_query(table))))),
    _fault("pages_in_order_for_one_query", "The path for a single query (T = 1) reads the pool without the table.",
           f"{_ANY}, T = 1", gather=gather_from(_with_table(_if_first(_in_order, _is_one_query)))),
    _fault("pages_of_next_entry", "Each batch entry has the row of the next.", "B > 1",
           gather=gather_from(_with_table(lambda table: np.roll(table.pages, -1, axis=0)))),
    _fault("pages_of_first_entry", "All batch entries have the row of the first.", "B > 1",
           gather=gather_from(_with_table(lambda table: np.repeat(table.pages[:1], len(table.pages), axis=0)))),
    _fault("pages_by_columns", "The table is read along the wrong axis.", "B > 1, several pages for an entry",
           gather=gather_from(_with_table(lambda table: table.pages.T.reshape(table.pages.shape)))),
    _fault("pages_next_at_border", "The next page is looked up one key late.", _TWO, gather=gather_from(_late_border)),
    _fault("pages_of_four_slots", "The kernel counts in pages of 4 slots, and the cache has others.",
           "pages of other than 4 slots", gather=gather_from(_slots_of_kernel)),
    _fault("pages_read_whole", "The last page is read whole.", "a last page that is not full",
           gather=_reading(lambda table: -(-table.lengths // table.slots) * table.slots)),
    _fault("pages_last_lost", "The last page is not read unless it is full.",
           "a last page that is not full, after another", gather=_reading(_full_pages)),
    _fault("pages_one_more", "Where a page is just full, the one after it is read, too.",
           "a length that fills its pages, and a longer table", gather=_reading(_one_page_more)),
    _fault("pages_to_the_end", "The rows of the table are read to their ends.", "a table that is longer than an entry",
           gather=_reading(lambda table: np.full(len(table.lengths), len(table.places)))),
    _fault("pages_of_keys_only", "The table is applied to keys, and values are read in order.",
           _ANY, gather=gather_from(of_value=_with_table(_in_order))),
    _fault("pages_owned_by_one", "A page that two entries share is read by the first one only.",
           "pages that entries share", gather=_own_pages_once),
    _fault("pages_heads_first", "A page is read as if heads came before slots.",
           "Hkv > 1, pages of several slots", gather=_heads_first),
    _fault("pages_low_bits", "The lowest 4 bits of a page's number are kept.",
           "more than 16 pages", gather=gather_from(_with_table(lambda table: table.pages & 15))),
    _fault("pages_numbered_in_16_bits", "A page's number is kept in 16 bits.", "more than 65,536 pages",
           gather=gather_from(_with_table(lambda table: table.pages & 0xFFFF))),
    _fault("pages_tail_of_32_lost",
           "Where a page has a multiple of 32 slots, the last one is not read unless it is full.",
           "pages of 32 slots and more, a last page that is not full, after another",
           gather=_reading(lambda table: table.lengths if table.slots % 32 else _full_pages(table))),
    _fault("pages_all_fetched", "All pages that the table names are fetched, also beyond an entry's keys.",
           "numbers that no page has", gather=_every_number),
    _fault("pages_causal_from_the_end", "The last query stands at the end of the table.",
           "what counts from a query's place, and a table that does not end at the last query",
           start=lambda work: work.shape[3] - work.shape[2]),
    _fault("pages_zero_times_content", "What unused slots hold is multiplied by a weight of 0.",
           "NaN in slots that hold no key", gather=gather_from(_slots_of_all),
           mix=lambda weights, work: weights @ work.value),
    Fault("pages_cleared", TABLE, "The first page is cleared in the pool after the call.",
          "any page", around(_clears), form=InputForm.PAGED),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {"pages": {
    "tanishqkumar/ssd/issues/23": "pages_in_order",
    "golang-design/accel/issues/10": "pages_in_order_for_queries",
    "vllm-project/vllm/pull/27547": "pages_of_four_slots",
    "pegainfer-project/pegainfer/issues/291": "pages_one_more",
    "ROCm/ATOM/issues/702": "pages_low_bits",
    "local-inference-lab/b12x/issues/156": "pages_all_fetched",
}}

MISTAKES = AspectFaults(about={TABLE: _FAULTS}, bugs=_BUGS)
