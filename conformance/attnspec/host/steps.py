"""A call of a decoder: the calls before it are made first, and each hands its cache on. No cache leaves the process."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Tuple

CACHE = "cache"
"""The keyword that a decoder takes. Over the wire it tells which calls come before (docs/protocol.md)."""

Parted = Callable[[Any], Tuple[Any, Any]]


def stepped(function: Callable[..., Any], told: Mapping[str, Any], parted: Parted) -> Callable[..., Any]:
    """The decoder, which stands behind these calls, as a function without a cache. parted: what it answers, and the
    cache beside it.
    """
    caches: Dict[str, Any] = {"": None}
    for each in told["earlier"].values():
        answer = function(*each["inputs"].values(), **each["keywords"], **{CACHE: caches[each["takes"]]})
        caches[each["makes"]] = parted(answer)[1]

    def last(*inputs: Any, **keywords: Any) -> Any:
        """Query (B,H,T,D) or (B,T,M), key and value to what is handed back beside the cache."""
        return parted(function(*inputs, **keywords, **{CACHE: caches[told["takes"]]}))[0]

    return last
