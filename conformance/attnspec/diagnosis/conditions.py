"""Finds at which lengths of one axis a case fails.

There is a rule for each habit of kernels; the lengths that are put leave one of them. A condition
is told with the sizes beside it that hold.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnspec.problems.problem import Recipe, Sizes
from attnspec.trials.sizes import MAX_SEEDS, MIN_SEEDS, MISSED_SHARE, rungs_below

# By whether a case fails with the first axis longer, with both of one length, and with the second longer.
RELATIONS: Mapping[tuple[bool, bool, bool], str] = {
    (True, False, False): ">", (False, False, True): "<", (True, False, True): "≠",
    (False, True, False): "=", (True, True, False): "≥", (False, True, True): "≤"}
# The same where no case with both of one length can be put, and of what holds beside it.
RELATIONS_APART: Mapping[tuple[bool, bool], str] = {(True, False): ">", (False, True): "<"}
HOLDING_APART: Mapping[str, str] = {">": "<", "<": ">"}
HOLDING: Mapping[str, str] = {">": "=", "<": "=", "≠": "=", "=": "≠", "≥": "<", "≤": ">"}


@dataclass(frozen=True, slots=True)
class BoundaryCondition:
    """One condition of a boundary: the axes it speaks of, its words, and the sizes beside it that
    hold.

    is_settled: whether enough other sizes were put to claim it for all.
    """

    axes: tuple[str, ...]
    words: str
    holding_text: str
    is_settled: bool = True


@dataclass(frozen=True, slots=True)
class Boundary:
    """The sizes at which a case fails.

    smallest: the case at the smallest of them.  holding_sizes: sizes beside them that hold.
    """

    smallest: Recipe
    conditions: tuple[BoundaryCondition, ...]
    holding_sizes: tuple[Sizes, ...] = ()

    @property
    def sentence(self) -> str:
        """`Fails where T ≥ 65 and D ≥ 33; holds at T = 64 and at D = 32.`

        Empty where sizes do not matter.
        """
        if not self.conditions:
            return ""
        fails = " and ".join(each.words for each in self.conditions)
        holds = " and ".join(f"at {each.holding_text}" for each in self.conditions)
        if all(each.is_settled for each in self.conditions):
            return f"Fails where {fails}; holds {holds}."
        return f"Fails at {fails}; holds {holds} (few other sizes were tried)."


Lengths: TypeAlias = NDArray[np.int64]

BLOCK_LENGTHS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 112, 128,
                 160, 192, 256, 384, 512, 1024)
"""Lengths of blocks, and widths that get a kernel of their own."""

COMMON_BLOCKS = frozenset({8, 16, 32, 64, 128, 256, 512})

FEW_TURNS = 4
"""Chance brings about up to so many turns between lengths that fail and lengths that hold."""

SETTLED_SHARE = 0.03
"""A rule is settled if no further length divides the remaining rules more evenly than this."""


class LengthRule(enum.Enum):
    """How the length of an axis decides, in terms of the condition's `n` and `rest`."""

    FROM = "≥"
    ONLY = "="
    UP_TO = "≤"
    MULTIPLE = "is a multiple of"
    NO_MULTIPLE = "is not a multiple of"
    REST = "mod"
    NO_POWER = "is not a power of two"


# By how much each is likelier than another: a number of blocks must not outvote the plain threshold.
_RULE_LIKELIHOODS: Mapping[LengthRule, float] = {
    LengthRule.FROM: 1.0, LengthRule.ONLY: 0.3, LengthRule.UP_TO: 0.02, LengthRule.MULTIPLE: 0.1,
    LengthRule.NO_MULTIPLE: 0.1, LengthRule.REST: 0.02, LengthRule.NO_POWER: 0.1}


def _format_rest(axis: str, n: int, rest: int) -> str:
    if rest == 1:
        return f"{axis} is one more than a multiple of {n}"
    if rest == n - 1:
        return f"{axis} is one less than a multiple of {n}"
    return f"{axis} mod {n} = {rest}"


_RULE_WORDS: Mapping[LengthRule, Callable[[str, int, int], str]] = {
    LengthRule.FROM: lambda axis, n, _: f"{axis} ≥ {n}",
    LengthRule.ONLY: lambda axis, n, _: f"{axis} = {n}",
    LengthRule.UP_TO: lambda axis, n, _: f"{axis} ≤ {n}",
    LengthRule.MULTIPLE: lambda axis, n, _: f"{axis} is a multiple of {n}",
    LengthRule.NO_MULTIPLE: lambda axis, n, _: f"{axis} is not a multiple of {n}",
    LengthRule.REST: _format_rest,
    LengthRule.NO_POWER: lambda axis, *_: f"{axis} is not a power of two"}


BLOCK_RULES = frozenset({LengthRule.MULTIPLE, LengthRule.NO_MULTIPLE, LengthRule.REST})
ENDING_RULES = frozenset({LengthRule.ONLY, LengthRule.UP_TO})
"""Rules under which all lengths beyond one hold."""

ENOUGH_LONGER = math.ceil(math.log(MISSED_SHARE) / (MAX_SEEDS * math.log(1 - 1 / MAX_SEEDS)))
"""At so many longer lengths, put with MAX_SEEDS seeds each, a case that fails with one seed in
MAX_SEEDS would have failed.
"""

NEEDS_NO_REASON = 4
"""A case this short may pass for no reason: little goes wrong with few keys or features."""


@dataclass(frozen=True, slots=True)
class LengthCondition:
    """A condition on the length of one axis: a rule, from `start` on.

    n: the length, or that of the block.  rest: the remainder modulo n, for REST.
    """

    rule: LengthRule
    n: int
    rest: int = 0
    start: int = 1

    def includes(self, value: int) -> bool:
        """Whether a length meets the condition."""
        return bool(self.includes_each(np.array([value]))[0])

    def includes_each(self, values: Lengths) -> NDArray[np.bool_]:
        """Whether each length, in any shape, meets the condition."""
        match self.rule:
            case LengthRule.FROM:
                meets = values >= self.n
            case LengthRule.ONLY:
                meets = values == self.n
            case LengthRule.UP_TO:
                meets = values <= self.n
            case LengthRule.NO_POWER:
                meets = (values & (values - 1) != 0) | (values == 0)
            case LengthRule.NO_MULTIPLE:
                meets = values % self.n != self.rest
            case LengthRule.MULTIPLE | LengthRule.REST:
                meets = values % self.n == self.rest
        includes: NDArray[np.bool_] = meets & (values >= self.start)
        return includes

    @property
    def prior_weight(self) -> float:
        """The weight of the condition among others; a rule with a threshold has less."""
        weight = _RULE_LIKELIHOODS[self.rule]
        # kernels have blocks of powers of two; a rule with another number needs more evidence
        if self.rule in BLOCK_RULES and self.n not in COMMON_BLOCKS:
            weight *= 0.3
        return weight if self.start == 1 else weight * 0.5

    def format_for_axis(self, axis: str) -> str:
        """The condition in words: `S ≥ 65`; `S ≥ 17 is not a multiple of 16`; `33 ≤ S ≤ 64`."""
        words = _RULE_WORDS[self.rule](axis, self.n, self.rest)
        without_start = LengthCondition(self.rule, self.n, self.rest)
        excluded = range(NEEDS_NO_REASON + 1, self.start)
        if (self.rule in {LengthRule.FROM, LengthRule.ONLY}
                or not any(map(without_start.includes, excluded))):
            return words
        if self.rule is LengthRule.UP_TO:
            return f"{self.start} ≤ {words}"
        return f"{words} and ≥ {self.start}"


@dataclass(frozen=True, slots=True)
class LengthProfile:
    """Which lengths of an axis fail, and a condition that says so; None if none is simple."""

    failing_length: int
    condition: LengthCondition | None
    failed_by_length: Mapping[int, bool]
    is_settled: bool

    @property
    def is_threshold(self) -> bool:
        """Whether the case fails from some length on."""
        return self.condition is not None and self.condition.rule is LengthRule.FROM

    @property
    def turns(self) -> int:
        """How often the verdict changes from length to length."""
        verdicts = [fails for _, fails in sorted(self.failed_by_length.items())]
        return sum(one is not other for one, other in pairwise(verdicts))

    def may_be_chance(self, seeds: int) -> bool:
        """Whether a small case that fails only with some seeds may follow the rule by chance.

        A case that holds at all larger lengths, with more entries that may fail, does not do so by
        chance.  seeds: so many are put before a case counts as holding.
        """
        is_told_by_size = self.turns > FEW_TURNS or self._holds_at_all_longer(seeds)
        return seeds > MIN_SEEDS and self.failing_length <= NEEDS_NO_REASON and not is_told_by_size

    def _holds_at_all_longer(self, seeds: int) -> bool:
        """Whether failing ends at a length, and enough longer ones hold to rule out chance."""
        if self.condition is None or self.condition.rule not in ENDING_RULES:
            return False
        longer = [value for value in self._holding_lengths if value > self.failing_length]
        return seeds < MAX_SEEDS or len(longer) >= ENOUGH_LONGER

    @property
    def _holding_lengths(self) -> list[int]:
        return [value for value, fails in self.failed_by_length.items() if not fails]

    @property
    def largest_holding_below(self) -> int | None:
        """The largest length that holds and is smaller than the failing one."""
        return max((value for value in self._holding_lengths if value < self.failing_length),
                   default=None)

    @property
    def nearest_holding(self) -> int | None:
        """The nearest length that holds; those at which the condition speaks come first."""
        start = self.condition.start if self.condition else 1
        return min(self._holding_lengths, default=None,
                   key=lambda value: (value < start, abs(value - self.failing_length)))


def possible_conditions(fails_at: int, top: int) -> Iterator[LengthCondition]:
    """The conditions, up to length `top`, under which a case fails at this length."""
    # everything from a length on, or at every length
    starts = sorted({1, fails_at})
    for start in starts:
        yield LengthCondition(LengthRule.FROM, start, start=start)
    # a path for one length, such as a width with a kernel of its own
    yield LengthCondition(LengthRule.ONLY, fails_at, start=fails_at)
    for start in starts:
        for n in rungs_below(top):
            if n >= fails_at:
                yield LengthCondition(LengthRule.UP_TO, n, start=start)
        if fails_at.bit_count() != 1:
            yield LengthCondition(LengthRule.NO_POWER, 2, start=start)
    for n in BLOCK_LENGTHS:
        # from the first length, from beyond one block, or from where it was found
        for start in sorted({1, n + 1, fails_at}):
            yield from _block_conditions(fails_at, n, start)


def _block_conditions(fails_at: int, n: int, start: int) -> Iterator[LengthCondition]:
    """That whole blocks of n matter, from `start` on."""
    rest = fails_at % n
    if start > fails_at:
        return
    if rest:
        yield LengthCondition(LengthRule.NO_MULTIPLE, n, start=start)
        yield LengthCondition(LengthRule.REST, n, rest, start)
    else:
        yield LengthCondition(LengthRule.MULTIPLE, n, start=start)


def lengths_to_try(fails_at: int, top: int) -> Iterator[int]:
    """The lengths that tell conditions apart: neighbours, and those at the ends of blocks."""
    # neighbours tell a threshold from a rule of blocks
    yield from (fails_at + 1, fails_at + 2, fails_at + 3)
    for n in BLOCK_LENGTHS:
        after, before = fails_at // n + 1, -(-fails_at // n) - 1
        # odd multiples of a block: even ones are multiples of the next larger block, too
        odd, less = (after + 1 - after % 2) * n, (before - 1 + before % 2) * n
        yield from (odd - 1, odd, odd + 1, fails_at + n, less, fails_at - n)
    # the longest tell whether it ends, and one of them is odd
    yield from (top, top - 1)


def narrow_condition(known: dict[int, bool], fails_at: int, top: int,
                     fails: Callable[[int], bool | None]) -> LengthCondition | None:
    """The likeliest condition that all lengths bear out; None where none fits.

    The next length to put is the one that divides the remaining conditions most evenly.  known:
    the verdicts so far; the new ones are added.
    """
    possible = (*possible_conditions(fails_at, top), *_ends_before(known, fails_at))
    conditions = [each for each in possible if _bears_out(each, known)]
    lengths = {each for each in lengths_to_try(fails_at, top) if 1 <= each <= top} - known.keys()
    while conditions and lengths:
        candidates = np.array(sorted(lengths))
        # the length that divides the conditions best: each answer rules out as much as it can
        shares = _smaller_camp_shares(conditions, candidates)
        best = int(shares.argmax())
        if shares[best] < SETTLED_SHARE:
            break
        length = int(candidates[best])
        lengths.remove(length)
        if (answer := fails(length)) is not None:
            known[length] = answer
            # an end that nobody thought of becomes possible where a longer length holds
            possible = (*conditions, *_ends_before({length: answer}, fails_at))
            conditions = [each for each in possible if _bears_out(each, known)]
    return max(conditions, key=lambda each: each.prior_weight, default=None)


def _ends_before(known: Mapping[int, bool], fails_at: int) -> Iterator[LengthCondition]:
    """That failing ends before a length that holds."""
    for length, fails in known.items():
        if not fails and length > fails_at:
            for start in sorted({1, fails_at}):
                yield LengthCondition(LengthRule.UP_TO, length - 1, start=start)


def _bears_out(condition: LengthCondition, known: Mapping[int, bool]) -> bool:
    includes = condition.includes_each(np.array(list(known), dtype=np.int64))
    return bool((includes == np.array(list(known.values()), dtype=np.bool_)).all())


def _smaller_camp_shares(conditions: list[LengthCondition],
                         lengths: Lengths) -> NDArray[np.float64]:
    """For each length, in any shape, the share of the smaller camp."""
    # arrays, since hundreds of conditions are tried with hundreds of lengths
    weights = np.array([each.prior_weight for each in conditions])
    failing = np.array([each.includes_each(lengths) for each in conditions])
    # for each length, the weight of the rules under which it fails
    weight = (weights[:, np.newaxis] * failing).sum(axis=0)
    total = sum(each.prior_weight for each in conditions)
    share: NDArray[np.float64] = np.minimum(weight, total - weight) / total
    return share
