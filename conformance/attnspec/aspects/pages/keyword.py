"""The keyword `block_table`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.core.keyword import PAGES_POOL, Acts, Keyword, KeywordLimits, PagePattern, RareValues, make_pattern_values

PAGE_PATTERNS: Mapping[PagePattern, str] = {
    "shuffled": "pages of 4 slots in any order, two unused ones among them",
    "in_order": "pages of 4 slots, entry by entry, one behind the other",
    "backwards": "pages of 4 slots, the last one first",
    "one_slot": "pages of one slot in any order",
    "odd": "pages of 3 slots in any order, two unused ones among them",
    "one_page": "one page for each batch entry, in any order",
    "long_table": "as shuffled; the table has three more columns than are needed, which name page 0",
    "large_beyond": "pages that all keys fill, in any order; what lies beyond an entry's keys holds large numbers, and "
                    "three more columns of the table name such pages",
    "nan_beyond": "the same with NaN",
    "no_page_beyond": "as shuffled; three more columns of the table name no page there is",
    "pages_of_16": "pages of 16 slots in any order, two unused ones among them",
    "pages_of_32": "the same of 32 slots",
    "pages_of_64": "the same of 64 slots",
    "pages_of_128": "the same of 128 slots",
    "pages_of_256": "the same of 256 slots",
    "beyond_16_bits": "pages of one slot behind 65,600 unused ones, so that no 16 bits hold their numbers",
    "shared": "pages of 2 slots in any order, each of which all batch entries share whose keys and values are the same",
}
"""How keys and values are put into pages. Where a subject takes pages of certain lengths only,
they are longer. A clause asks for those after `long_table`, and for `in_order`, which shows
little.
"""
USUAL_PAGES: tuple[PagePattern, ...] = ("shuffled", "one_slot", "long_table", "odd", "one_page", "backwards")
NO_PAGES = RareValues("no_page_beyond", "table_names_pages", "a block_table with numbers of no page")


def _table_misfit(limits: KeywordLimits, table: Any, _causal: bool) -> str:  # noqa: ANN401  (a pattern or an array)
    """Why a subject with these limits takes no such pattern; an array (B,N) says nothing of it."""
    names_none = isinstance(table, str) and table == NO_PAGES.pattern
    return "only a block_table of which every number names a page" if limits.table_names_pages and names_none else ""


KEYWORDS = (
    Keyword(
        "block_table", "(B,N) int32", "key and value are pages (pages,page,Hkv,·), and key j of batch entry b stands "
        "in slot j % page of page block_table[b, j // page]; its number of keys comes with it", "paged", Acts.LAYOUT,
        "{0} | None", promise="keys and values lie in pages, which a table names for each batch entry",
        kinds=frozenset(), in_layers=False,
        values=make_pattern_values("block_table", PAGE_PATTERNS, USUAL_PAGES, "pages", "page_patterns"),
        sample="shuffled", is_uncommon=True, pool=PAGES_POOL, misfit=_table_misfit, rare=NO_PAGES,
        other_names=("page_table", "block_tables"),
        parameters=("block_table", "block_tables", "page_table", "page_tables", "page_indices")),
)
