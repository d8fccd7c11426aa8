"""Functions of any form whose entries stand for other numbers: these are read first, and then all is as without.

What says what an entry stands for lies as the entries do, in every form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.core.forms import OF_ENTRIES
from attnspec.faults.staged import Attend
from attnspec.faults.staged_work import PreparedCall, restore, wide_dtype
from attnspec.problems.problem import Array


def with_entries_read(attend: Attend) -> Attend:
    """A function of any form that takes entries which stand for others, made of one that takes none."""
    def attend_entries(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), or as they lie in the form -> what `attend` returns."""
        said = {name: keywords.get(name) for name in OF_ENTRIES if keywords.get(name) is not None}
        rest = {name: value for name, value in keywords.items() if name not in OF_ENTRIES}
        if not said:
            return attend(query, key, value, **rest)
        wide, none = wide_dtype(query.dtype), np.ones((), bool)
        given = PreparedCall(query.astype(wide), key.astype(wide), value.astype(wide), none)
        numbers = restore(given.but(**said))
        found = attend(numbers.query, numbers.key, numbers.value, **rest)
        return _narrowed(found, query.dtype, rest)
    return attend_entries


def _narrowed(found: Any, io: np.dtype[Any], keywords: Mapping[str, Any]) -> Any:  # noqa: ANN401  (a cache may be among it)
    """What comes back, the output (B,H,T,Dv) and weights in the dtype of the call."""
    if not isinstance(found, tuple):
        return found.astype(io)
    asked = 2 if keywords.get("return_weights") else 1
    return (*(each.astype(io) for each in found[:asked]), *found[asked:])


def whole_array(keywords: Mapping[str, Any], keyword: str, entries: Array) -> Array | None:
    """What says what entries stand for, in their shape, any; None where nothing does."""
    found = keywords.get(keyword)
    return None if found is None else np.broadcast_to(found, entries.shape)
