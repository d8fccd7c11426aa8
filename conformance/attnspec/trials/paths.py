"""What calls show beside their answers: what compiling has taken, and which cases took the path of
a variant.

An adapter that goes another way than the variant says so on stderr.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from attnspec.core.effort import SHARE
from attnspec.problems.choices import Menu
from attnspec.problems.problem import Recipe, Sizes
from attnspec.record.outcome import Reading
from attnspec.trials.covering_cases import deal_openings

LENGTH_RATIO = 8
"""How compiling grows with lengths is known where one is eight times as long as another; one that
does not unroll a loop takes the same at any length.
"""

SHORT_LENGTH = 32
"""Queries and keys together that any function compiles soon."""


@dataclass(slots=True)
class CompilingTime:
    """Seconds of processors that the calls of a subject have taken in its process, of those that
    they may take.

    Not seconds of the clock: what was tried is not to depend on what else the machine does.
    """

    most_seconds: float = math.inf
    seconds_spent: float = 0.0
    _first_seconds: dict[Hashable, float] = field(default_factory=dict)
    _at_length: dict[int, float] = field(default_factory=dict)
    _told_seconds: float = 0.0

    def count(self, sizes: Sizes, given: frozenset[str], seconds: float) -> None:
        """Count a call. The first at these sizes, given these keywords, is compiled."""
        self.seconds_spent += seconds
        self._first_seconds.setdefault((sizes, given), seconds)
        self._at_length.setdefault(sizes.T + sizes.S, seconds)

    def expected_seconds(self, sizes: Sizes) -> float:
        """Seconds that a call at these sizes is expected to take, where compiling takes the longer
        the more queries and keys there are: a loop over blocks is unrolled. 0 where it does not;
        infinite far beyond all lengths so far while nobody knows: to compile a hundred blocks took
        one kernel 300 s.
        """
        near = min(self._at_length, default=SHORT_LENGTH)
        far = max(self._at_length, default=SHORT_LENGTH)
        if far < LENGTH_RATIO * near:
            if LENGTH_RATIO * far < sizes.T + sizes.S:
                return math.inf
            return 0.0
        slope = statistics.linear_regression([*self._at_length], [*self._at_length.values()]).slope
        if slope > 0:
            return self._at_length[far] + slope * (sizes.T + sizes.S - far)
        return 0.0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is begun."""
        return self.seconds_spent >= self.most_seconds

    @property
    def seconds_left(self) -> float:
        """Seconds that calls may still take."""
        return max(0.0, self.most_seconds - self.seconds_spent)

    @property
    def end_of_clause(self) -> float:
        """Up to how many seconds in all a clause goes on that begins now."""
        return self.seconds_spent + self.seconds_left / SHARE

    @property
    def seconds_a_shape(self) -> float:
        """Seconds that the first call at a shape takes, in the middle of those that were made when
        it was first asked: all that are told so have one reason.
        """
        if not self._told_seconds and self._first_seconds:
            self._told_seconds = statistics.median(self._first_seconds.values())
        return self._told_seconds


MARK_OF_OTHER_PATH = "attnspec: path not taken"
"""What an adapter prints, at the beginning of a line, in a call that leaves its variant's path."""

GENTLE_FAMILY = "integers"
"""The family whose entries lie close together: mostly others keep a call from a fast path."""

_OPENINGS_LOOKED_AT = 24  # openings among which cases with a keyword are looked for
_CASES_A_KEYWORD = 2  # cases of each keyword
_SEVERAL_KEYS = 3  # keys


@dataclass(slots=True)
class Paths:
    """Counts, for one variant at one dtype, how many calls took its path, and how many did not."""

    taken_count: int = 0
    left_count: int = 0

    def count(self, said: str) -> None:
        """Take an answer into account. said: what was printed meanwhile."""
        if said.startswith(MARK_OF_OTHER_PATH) or f"\n{MARK_OF_OTHER_PATH}" in said:
            self.left_count += 1
        else:
            self.taken_count += 1


def gentle_cases(menu: Menu, seed: int, keywords: frozenset[str]) -> Iterator[Recipe]:
    """The cases with each of these keywords, and with few others, whose entries keep no call from
    a fast path; and with several keys, where there are such: with one key no keyword changes
    anything.
    """
    recipes = [menu.recipe(*choices) for choices in deal_openings(menu, seed, _OPENINGS_LOOKED_AT)]
    for keyword in sorted(keywords):
        having = sorted((each for each in recipes if keyword in each.features), key=_tells_little)
        yield from (replace(each, families=(GENTLE_FAMILY,)) for each in having[:_CASES_A_KEYWORD])


def _tells_little(recipe: Recipe) -> tuple[float, ...]:
    """A key to sort by: what tells most, at least cost, comes first."""
    sizes = recipe.sizes
    return sizes.S < _SEVERAL_KEYS, len(recipe.features), sizes.B * sizes.H * sizes.T * sizes.S * sizes.D


def readings_of(paths: Mapping[str, Paths]) -> Iterator[Reading]:
    """Tells of each variant that went another way in some call in how many it took its path."""
    for name, each in paths.items():
        if each.left_count:
            whole = each.taken_count + each.left_count
            yield Reading(
                f"path of {name}", f"{each.taken_count} of {whole}", 0.0,
                f"{each.taken_count} of {whole} calls took the path of the variant {name}")
