"""A recipe is all that Hypothesis draws: sizes, families, mask, features, a seed and a few integers.

Its text is one line, and the arrays of the case can be made again from it anywhere:
`B2,H4,Hkv2,T5,S7,D8,Dv8;mask=random;families=normal+integers;with=mask+causal;seed=91;cut=3`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.problems.problem import Sizes


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a case is made from. `features` are the optional keywords in use; `drawn` are the clause's drawn values."""

    sizes: Sizes
    families: tuple[str, ...]
    mask: str
    features: frozenset[str]
    seed: int
    drawn: Mapping[str, int] = field(default_factory=dict)
