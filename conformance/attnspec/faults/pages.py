"""Keys and values that lie in pages, put side by side: the first stage of a staged attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnspec.core.forms import NUMBER, TABLE
from attnspec.faults.work import HandedOver
from attnspec.problems.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """The table that says which pages each batch entry has.

    pages: their numbers (B,N).  slots: of a page.  most: how many pages there are.
    lengths: how many keys each entry has, (B,).  queries: how many there are of each.
    """

    pages: Array
    slots: int
    most: int
    lengths: Array
    queries: int

    @property
    def places(self) -> Array:
        """(S,): the places that a row of the table can hold."""
        return np.arange(self.pages.shape[1] * self.slots)


PageSlots = tuple[Array, Array]
"""The page and the slot of each key, (B,S) twice."""
Where = Callable[[PageTable], PageSlots]


def where(table: PageTable) -> PageSlots:
    """The page and the slot of each key; page 0 beyond the keys of an entry, where the table may name any."""
    own = table.places < table.lengths[:, None]
    pages = np.where(own, table.pages[:, table.places // table.slots], 0)
    return pages, np.broadcast_to(table.places % table.slots, pages.shape)


def table_of(call: HandedOver) -> PageTable | None:
    """The table of a call whose keys lie in pages; None for any other."""
    pages, lengths = getattr(call, TABLE), getattr(call, NUMBER)
    if pages is None:
        return None
    return PageTable(pages, call.key.shape[1], len(call.key), lengths, call.query.shape[2])


def gathered(find: Where = where, *, of_value: Where | None = None,
             lengths: Callable[[PageTable], Array] | None = None) -> Callable[[HandedOver], HandedOver]:
    """A `gather` stage that finds keys, and values, in other places, or counts others, (B,), among an entry's."""
    def gather(call: HandedOver) -> HandedOver:
        table = table_of(call)
        if table is None:
            return call
        key, value = _read_pages(call.key, find(table)), _read_pages(call.value, (of_value or find)(table))
        counted = lengths(table) if lengths else table.lengths
        return call.but(key=key, value=value, **{TABLE: None, NUMBER: counted})
    return gather


def _read_pages(pool: Array, place: PageSlots) -> Array:
    """(B,Hkv,S,·) of (pages,slots,Hkv,·)."""
    return np.ascontiguousarray(pool[place].swapaxes(1, 2))


gather = gathered()
"""The call with the keys and values of each batch entry one behind the other; as it is where they lie so anyway."""
