"""How what belongs to the entries of query, key or value lies where these are packed, or lie in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attnspec.problems.problem import Array

Lays = Mapping[str, Callable[[Array], Array]]
"""By array, from (B,H,T,·), or of keys (B,Hkv,S,·), to the form of a call. Heads and features are the last axes there;
arrays that lie as in a problem are left out.
"""

DENSE: Lays = MappingProxyType({})
"""Every array lies as in a problem."""
