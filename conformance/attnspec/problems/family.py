"""What a value family is: random words in, the entries of one key/value head and its query heads out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnspec.ground.nouns import DType
from attnspec.problems.domain import FamilyName
from attnspec.problems.entries import Floats
from attnspec.problems.stream import Words


@dataclass(frozen=True, slots=True)
class HeadWords:
    """Random words for n heads: query (n,G,T,D), G = H/Hkv; key (n,S,D); value (n,S,Dv). The dtype sets the range."""

    query: Words
    key: Words
    value: Words
    dtype: DType

    @property
    def width(self) -> int:
        """D."""
        return int(self.key.shape[-1])


Entries = tuple[Floats, Floats, Floats]  # query, key, value, shaped as the words


@dataclass(frozen=True, slots=True)
class Family:
    """One way to make entries, and what it is for."""

    name: FamilyName
    make: Callable[[HeadWords], Entries]
    generic: bool
    meaning: str
