"""Functions of any form that are handed codes: these are dequantised first, and then all is as without codes.

Codes and scales lie alike in every form: entry by entry, each code times its scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.core.forms import OF_ENTRIES
from attnspec.faults.staged import Attend
from attnspec.faults.staged_work import PreparedCall, restore, wide_dtype
from attnspec.problems.problem import Array


def dequantised_first(attend: Attend) -> Attend:
    """A function of any form that takes codes, made of one that takes none."""
    def of_codes(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), or as they lie in the form -> what `attend` returns."""
        said = {name: keywords.get(name) for name in OF_ENTRIES if keywords.get(name) is not None}
        rest = {name: value for name, value in keywords.items() if name not in OF_ENTRIES}
        if not said:
            return attend(query, key, value, **rest)
        wide, none = wide_dtype(query.dtype), np.ones((), bool)
        codes = PreparedCall(query.astype(wide), key.astype(wide), value.astype(wide), none)
        numbers = restore(codes.but(**said))
        found = attend(numbers.query, numbers.key, numbers.value, **rest)
        return _narrow_answer(found, query.dtype, rest)
    return of_codes


def _narrow_answer(found: Any, io: np.dtype[Any], keywords: Mapping[str, Any]) -> Any:  # noqa: ANN401  (a cache may be among it)
    """What comes back, the output (B,H,T,Dv) and weights in the dtype of the call."""
    if not isinstance(found, tuple):
        return found.astype(io)
    asked = 2 if keywords.get("return_weights") else 1
    return (*(each.astype(io) for each in found[:asked]), *found[asked:])


def whole_array(keywords: Mapping[str, Any], keyword: str, codes: Array) -> Array | None:
    """Scales or zero points in the shape of their codes, any shape; None where there are none."""
    found = keywords.get(keyword)
    return None if found is None else np.broadcast_to(found, codes.shape)
