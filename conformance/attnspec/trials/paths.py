"""Notes what calls show beside their answers: what compiling took, and which took the path of a
variant.

An adapter that goes another way than the variant says so on stderr.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from attnspec.core.effort import SHARE
from attnspec.problems.choices import Menu
from attnspec.problems.problem import Recipe, Sizes, count_logits
from attnspec.record.outcome import Reading
from attnspec.trials.covering_cases import deal_openings

LENGTH_RATIO = 8
"""The growth of compiling with length is known if one length is so many times another.

A compiler that does not unroll a loop takes the same at any length.
"""

SHORT_LENGTH = 32
"""Queries and keys together that any function compiles soon."""


@dataclass(slots=True)
class CompilingTime:
    """Processors' seconds that the calls of a subject have taken, of those that they may take.

    Not seconds of the clock: what was tried must not depend on what else the machine does.
    """

    most_seconds: float = math.inf
    seconds_spent: float = 0.0
    _first_seconds: dict[Hashable, float] = field(default_factory=dict)
    _at_length: dict[int, float] = field(default_factory=dict)
    _told_seconds: float = 0.0

    def count(self, sizes: Sizes, keywords: frozenset[str], seconds: float) -> None:
        """Counts a call. The first at these sizes, with these keywords, is compiled."""
        self.seconds_spent += seconds
        self._first_seconds.setdefault((sizes, keywords), seconds)
        self._at_length.setdefault(sizes.T + sizes.S, seconds)

    def expected_seconds(self, sizes: Sizes) -> float:
        """Seconds that a call at these sizes is expected to take, if compiling grows with lengths.

        A loop over blocks is unrolled. 0 where it does not grow; infinite far beyond all lengths
        so far while nobody knows: to compile a hundred blocks took one kernel 300 s.
        """
        shortest = min(self._at_length, default=SHORT_LENGTH)
        longest = max(self._at_length, default=SHORT_LENGTH)
        if longest < LENGTH_RATIO * shortest:
            is_far_beyond = LENGTH_RATIO * longest < sizes.T + sizes.S
            return math.inf if is_far_beyond else 0.0
        slope = statistics.linear_regression([*self._at_length], [*self._at_length.values()]).slope
        if slope > 0:
            return self._at_length[longest] + slope * (sizes.T + sizes.S - longest)
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
        """The total of seconds at which a clause that begins now ends."""
        return self.seconds_spent + self.seconds_left / SHARE

    @property
    def seconds_a_shape(self) -> float:
        """Median seconds of the first calls at a shape, as of the first time it was asked.

        So all verdicts name one number.
        """
        if not self._told_seconds and self._first_seconds:
            self._told_seconds = statistics.median(self._first_seconds.values())
        return self._told_seconds


MARK_OF_OTHER_PATH = "attnspec: path not taken"
"""What an adapter prints, at the beginning of a line, if a call leaves its variant's path."""

GENTLE_FAMILY = "integers"
"""The family whose entries lie close together: others often keep a call from a fast path."""

_OPENINGS_LOOKED_AT = 24  # openings among which cases with a keyword are looked for
_CASES_A_KEYWORD = 2  # cases of each keyword
_SEVERAL_KEYS = 3  # keys


@dataclass(slots=True)
class Paths:
    """Counts, for one variant at one dtype, how many calls took its path, and how many did not."""

    taken_count: int = 0
    left_count: int = 0

    def count(self, stderr: str) -> None:
        """Counts a call.

        stderr: what it printed.
        """
        if stderr.startswith(MARK_OF_OTHER_PATH) or f"\n{MARK_OF_OTHER_PATH}" in stderr:
            self.left_count += 1
        else:
            self.taken_count += 1


def gentle_cases(menu: Menu, seed: int, keywords: frozenset[str]) -> Iterator[Recipe]:
    """The cases with each of these keywords that leave a fast path open, with few others.

    They have several keys where there are such cases: with one key no keyword changes anything.
    """
    recipes = [menu.recipe(*choices) for choices in deal_openings(menu, seed, _OPENINGS_LOOKED_AT)]
    for keyword in sorted(keywords):
        having = sorted((each for each in recipes if keyword in each.features), key=_tells_little)
        yield from (replace(each, families=(GENTLE_FAMILY,)) for each in having[:_CASES_A_KEYWORD])


def _tells_little(recipe: Recipe) -> tuple[float, ...]:
    """A key to sort by: what tells most, at least cost, comes first."""
    sizes = recipe.sizes
    return sizes.S < _SEVERAL_KEYS, len(recipe.features), count_logits(sizes) * sizes.D


def readings_of(paths: Mapping[str, Paths]) -> Iterator[Reading]:
    """For each variant that some call did not take, in how many calls it took its path."""
    for name, each in paths.items():
        if each.left_count:
            whole = each.taken_count + each.left_count
            yield Reading(
                f"path of {name}", f"{each.taken_count} of {whole}", 0.0,
                f"{each.taken_count} of {whole} calls took the path of the variant {name}")
