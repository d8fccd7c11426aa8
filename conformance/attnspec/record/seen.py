"""What a failure has to show for a finding to explain it. Plain data; `record/explaining.py` compares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Seen:
    """Signs that all have to be there; one that is not given does not matter.

    clauses: ids, with * for any text.  needs, needs_any, without: keywords of which the case has all, has one at least,
    has none.  sizes: comparisons of sizes, and of the scale where one is given ("T > S", "scale <= 0").
    exception: a regular expression that is found in the exception's type and words; without it, only measured answers
    are explained.  values: what stands at the worst entry: nan, infinity, zero or number.
    relative_error, absolute_error, margin: the most that the worst entry is off, in units of what is expected, of the
    answer, of the allowance.
    """

    BRIEF: ClassVar[bool] = True

    clauses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    exception: str = ""
    values: tuple[str, ...] = ()
    relative_error: float = math.inf
    absolute_error: float = math.inf
    margin: float = math.inf
