"""The forms in which a function may take attention's arrays. Problems are dense; others are put into their form."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attnspec.core.keyword import Acts
from attnspec.core.keywords import CACHED, COUNTS, KEYWORDS
from attnspec.core.nouns import Kind


class InputForm(enum.Enum):
    """How query, key and value are laid out."""

    DENSE = "dense"    # query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv)
    PACKED = "packed"  # query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv): the sequences one behind the other
    DECODER = "decoder"  # as dense; behind the output it hands back a cache, which the next call takes
    PAGED = "paged"    # query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv): a table names the pages


BORDERS = ("cu_query", "cu_key")
"""The parameters by which a packed function is known; it has both."""

GIVES: Mapping[str, str] = {
    "cu_query": "(B+1,) int32: sequence b has the queries cu_query[b] … cu_query[b+1]-1",
    "cu_key": "(B+1,) int32: sequence b has the keys cu_key[b] … cu_key[b+1]-1",
    "max_query": "int: the most queries that a sequence has",
    "max_key": "int: the most keys that a sequence has",
}
"""What a packed function is given beside the arrays: the borders always, the others if it has a parameter for them."""

SAID = frozenset(COUNTS)
"""The keywords that the borders of packed sequences say; a packed function has no parameter for them."""

_WHOLE = "return_weights"  # their shape is (B,H,T,S)

OF_ENTRIES = frozenset(word.name for word in KEYWORDS.values() if word.acts is Acts.STORAGE)
"""The keywords that say which numbers the entries of an array stand for: they lie as it does, in any form."""

EXPRESSED = OF_ENTRIES | frozenset(
    word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds and word.name != _WHOLE
    and word.name not in SAID and not set(word.axes) & set("TSP") and word.acts is not Acts.WEIGHTS)
"""The keywords that a packed function may take. What has the shape of B, T and S has no place in packed arrays, and
neither has what is drawn for each weight of such a shape; what belongs to the entries of an array is packed as it is.
"""

TABLE = "block_table"
"""The parameter by which a paged function is known."""

NUMBER = next(name for name, axis in COUNTS.items() if axis == "S")
"""The parameter of the number of keys of each batch entry. A paged function takes both, and is given both each time."""

ROWS = next(name for name, axis in COUNTS.items() if axis == "T")
"""The keyword of the number of queries of each batch entry."""

HELD_IN_PAGES = EXPRESSED | SAID
"""The keywords that a paged function may take. A table does not say how many keys the longest entry has, so that what
has S columns has no place.
"""

STATE = "cache"
"""The parameter by which a decoder is known. It is given in every call, None in the first."""

HELD_IN_CACHE = frozenset(CACHED)
"""The keywords that a cache says; a decoder has no parameter for them."""

BESIDE_CACHE = frozenset(word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds
                         and word.name not in HELD_IN_CACHE and word.axes not in {"BT", "BS"})
"""The keywords that a decoder's attention may take. Segments come without a past."""
