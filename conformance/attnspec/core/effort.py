"""Lists what each effort costs: all numbers by which the efforts differ, and how much compilers
may take.

A new level is one name in `core.nouns.Effort` and one row here. `docs/sizes.md` says what the
numbers come to. What is said where compiling leaves something out of a quick run is at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.nouns import Effort

FULL_STRENGTH = 3
"""At this strength, a triple of features that does not act is dealt again."""


@dataclass(frozen=True, slots=True)
class EffortNumbers:
    """The numbers of one effort.

    openings: how many cases of a clause are dealt, so that together they show what they can.
    drawn: how many more Hypothesis draws, which looks for those closest to a failure.
    sample: how many cases of a clause whose verdict does not depend on the dtype are tried at
    further dtypes than the first; 0: all.
    strength: how many features meet in every combination.
    shrinking: the work that shrinking one failure may cost; a small case is tried hundreds of
    times, a large one a few.
    rows: how many sizes each demand is dealt.
    aimed: how many of them, the first ones, are aimed at pairs: those that a trial opens with.
    shared: how many sizes all clauses share where a compiler runs for each.
    budget: the work that a run may spend on its rows at one dtype, in multiply-adds
    (`demand.count_work`).
    largest: the work of the largest case.
    compiling: seconds of processor that the process of a subject may take for its calls where each
    new shape is compiled.
    chances: by kind of problems, how many of each shape a law of chance is tried on, each with its
    own values and keywords.
    shapes: by kind of problems that bring sizes of their own, how many of these are tried, the
    first ones; all where it is not said.
    """

    openings: int
    drawn: int
    sample: int
    strength: int
    shrinking: float
    rows: int
    aimed: int
    shared: int
    budget: float
    largest: float
    compiling: float
    chances: Mapping[str, int]
    shapes: Mapping[str, int]

    @property
    def cases(self) -> int:
        """How many cases of a clause are tried, unless a sample stands for them."""
        return self.openings + self.drawn


EFFORTS: Mapping[Effort, EffortNumbers] = {
    Effort.GLANCE: EffortNumbers(
        openings=1, drawn=0, sample=0, strength=2, shrinking=3e8, rows=9, aimed=9, shared=7,
        budget=6e8, largest=2e7,
        compiling=20.0, chances={"generic": 2, "long": 1, "panel": 1, "dropout": 1},
        shapes={"generic": 1, "long": 1, "panel": 1, "dropout": 1, "gaussian": 2}),
    Effort.QUICK: EffortNumbers(
        openings=8, drawn=0, sample=3, strength=FULL_STRENGTH, shrinking=1e9, rows=14, aimed=8,
        shared=9, budget=2.5e9,
        largest=1e8, compiling=30.0, chances={"generic": 2, "long": 2, "panel": 1, "dropout": 1},
        shapes={"generic": 2, "long": 1, "panel": 1}),
    Effort.DEFAULT: EffortNumbers(
        openings=15, drawn=15, sample=5, strength=FULL_STRENGTH, shrinking=3e9, rows=26, aimed=16,
        shared=14, budget=1e10, largest=5e8, compiling=math.inf,
        chances={"generic": 4, "long": 3, "panel": 1, "dropout": 2},
        shapes={"generic": 4, "long": 2, "panel": 1}),
    Effort.THOROUGH: EffortNumbers(
        openings=75, drawn=75, sample=0, strength=FULL_STRENGTH, shrinking=3e10, rows=83, aimed=75,
        shared=40, budget=2e11, largest=4e9, compiling=math.inf,
        chances={"generic": 12, "long": 4, "panel": 1, "dropout": 6}, shapes={"panel": 1}),
}


SECONDS_UNTOLD = 60.0
"""After so many seconds of compiling, a message tells whoever waits."""

SHARE = 16
"""One clause may take a SHARE-th of the time left: new shapes in each call leave few cases."""

NEW_TO_OLD = 100
"""A first call at a shape counts as compiled if it takes so many times as long as the next."""

RESHAPING = frozenset({
    "split", "drop_keys", "drop_first_keys", "drop_last_value", "keep_prefix", "keep_queries",
    "keep_kv_heads",
    "repeat_keys", "repeat_kv_heads", "widen", "in_chunks", "token_by_token", "past_as_keys"})
"""The words of `runs` that give a case other sizes, each of which is compiled."""

OWN_SIZES = frozenset({
    "features", "worked_example", "acceptance", "gaussian", "generic", "long", "panel", "score",
    "dropout"})
"""The kinds of problems whose sizes no other clause has."""

_BECAUSE = "each new shape takes {:.1g} s to compile"
CUT_SHORT = "tried on fewer cases: " + _BECAUSE
LEFT_OUT = "left out: " + _BECAUSE


def is_cut_short(reason: str) -> bool:
    """Whether a reason is that of a clause that was tried on fewer cases."""
    return reason.startswith(CUT_SHORT.partition("{")[0])


def is_left_out(reason: str) -> bool:
    """Whether a reason is that of a clause that was not tried."""
    return reason.startswith(LEFT_OUT.partition("{")[0])


def explain_left_out(reason: str) -> str:
    """The cause in either of these reasons: `each new shape takes 0.4 s to compile`."""
    return reason.partition(": ")[2]
