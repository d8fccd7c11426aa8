"""Where a failure begins: at which sizes a case fails, as a sentence on its axes; and which
entries are wrong.

The case is made as small as it fails, axis by axis. From there each axis is moved alone; what else
it takes (more queries than keys, batch times heads) is tried where single axes do not explain what
was seen. Wrong entries are told as ranges of the axes of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import comb

import numpy as np

from attnspec.core.errors import AttnspecError
from attnspec.core.keyword import GRAD
from attnspec.diagnosis.conditions import (
    BLOCK_RULES,
    ENDING_RULES,
    HOLDING,
    HOLDING_APART,
    NEEDS_NO_REASON,
    RELATIONS,
    RELATIONS_APART,
    Boundary,
    BoundaryCondition,
    LengthCondition,
    LengthProfile,
    LengthRule,
    lengths_to_try,
    narrow_condition,
)
from attnspec.problems.problem import Array, Recipe, Sizes
from attnspec.record.boundaries import is_needed, parts_of
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.trials.sizes import MAX_SEEDS, MIN_SEEDS, MISSED_SHARE, Resizer, length_along, move_axis
from attnspec.vocabulary.observables import OF_INPUT, QUANTITIES, axes_of, find_beyond, look_at
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Scene

FORWARD_QUANTITIES = ("output", "lse")
_SILENT_ENDINGS = NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer, AttnspecError


def describe_right_quantities(scene: Scene, recipe: Recipe) -> str:
    """`Only the log-sum-exp is wrong; the output is right.`; empty where all of it is wrong, or
    nothing is.
    """
    asked = [*OF_INPUT, "output"] if GRAD in recipe.features else list(FORWARD_QUANTITIES)
    # the first run is the case itself; others are what it is compared with
    run = next(iter(scene.runs))
    fared = [(QUANTITIES[name], is_right) for name in asked
             for is_right in _quantity_verdicts(scene, run, name)]
    wrong = [name for name, is_right in fared if not is_right]
    right = [name for name, is_right in fared if is_right]
    if not wrong or not right:
        return ""
    return (f"Only the {_join_quantities(wrong)} {_is_or_are(wrong)} wrong; "
            f"the {_join_quantities(right)} {_is_or_are(right)} right.")


def _quantity_verdicts(scene: Scene, run: str, name: str) -> Iterator[bool]:
    """Whether it is right where a claim is made; nothing where none is, or it is not asked for."""
    try:
        seen = look_at(scene, run, name)
    except _SILENT_ENDINGS:
        return
    if seen.claimed.any():
        with np.errstate(all="ignore"):
            yield not (find_beyond(seen.array, seen.truth, seen.allowance) & seen.claimed).any()


def _join_quantities(names: list[str]) -> str:
    return " and the ".join(names)


def _is_or_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


_AXIS_WORDS = {"B": ("batch entry", "batch entries"), "H": ("head", "heads"), "T": ("row", "rows"),
               "S": ("key", "keys"),
               **dict.fromkeys(("D", "Dv", "M", "Out"), ("column", "columns")),
               "In": ("row", "rows")}
_MOST_LISTED = 4
"""So many single indices are listed; of more, how many they are."""

_FILLED_SHARE = 0.5
"""Where fewer of the entries in the ranges are wrong, it is some of them."""


def wrong_entries(scene: Scene) -> tuple[Array, tuple[str, ...]] | None:
    """Which entries of the output of the first wrong run lie beyond their allowance, and the names
    of its axes.

    bool, (B,H,T,Dv), of a layer (B,T,M), of a rotary embedding (B,H,T,D). None where every run's
    output is right.
    """
    for run, posed in scene.runs.items():
        seen = look_at(scene, run, "output")
        with np.errstate(invalid="ignore"):
            near = np.abs(seen.array - seen.truth) <= seen.allowance
        wrong = seen.claimed & ~near & (seen.array != seen.truth)
        if wrong.any():
            return wrong, axes_of(posed.parts[0])
    return None


def describe_ranges(wrong: Array, axes: Sequence[str]) -> str:
    """`rows 64 to 128 of every head`; "every entry" where all of them are wrong.

    wrong: bool, of any shape with these axes, some of them True.
    """
    among = [np.asarray(wrong.any(axis=tuple(other for other in range(wrong.ndim)
                                             if other != axis)))
             for axis in range(wrong.ndim)]
    told = {name: _describe_indices(name, each) for name, each in zip(axes, among, strict=True)
            if not each.all()}
    # ranges along each axis span a box, of which the wrong entries may be few
    filled = wrong[np.ix_(*(np.flatnonzero(each) for each in among))].mean()
    some = "some entries of " if filled < _FILLED_SHARE else ""
    if not told:
        return "some entries, spread over all of it" if some else "every entry"
    return some + " of ".join(_order_ranges(told, wrong, axes))


def _order_ranges(told: dict[str, str], wrong: Array, axes: Sequence[str]) -> Iterator[str]:
    """The innermost first: columns of rows of heads of batch entries.  wrong: any shape with these
    axes.
    """
    for name in ("D", "Dv", "M", "Out", "S", "T", "In"):
        if name in told:
            yield told[name]
    heads = wrong.shape[axes.index("H")] if "H" in axes else 0
    if "H" in told:
        yield told["H"]
    elif heads > 1 and "B" not in told:
        yield "every head"
    if "B" in told:
        yield told["B"]


def _describe_indices(name: str, among: Array) -> str:
    """`rows 64 to 128`, `the last row`, `every second row from 1 on`, `heads 1, 5 and 6`, `12 of
    40 rows`.

    among: bool, (T,) of rows and alike of other axes, some of them True and some not.
    """
    one, many = _AXIS_WORDS[name]
    at = [int(index) for index in np.flatnonzero(among)]
    if len(at) == 1:
        return f"the last {one}" if at[0] == len(among) - 1 else f"{one} {at[0]}"
    # one step tells a block, or every n-th entry
    steps = {after - before for before, after in pairwise(at)}
    if steps == {1}:
        return f"{many} {at[0]} to {at[-1]}"
    if len(steps) == 1 and len(at) > 2:
        return f"every {_ordinal(steps.pop())} {one} from {at[0]} to {at[-1]}"
    if len(at) <= _MOST_LISTED:
        return f"{many} {', '.join(map(str, at[:-1]))} and {at[-1]}"
    return f"{len(at)} of {len(among)} {many}, {at[0]} to {at[-1]}"


def _ordinal(number: int) -> str:
    named = {2: "second", 3: "third"}
    if number % 100 in {11, 12, 13}:
        ending = "th"
    else:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return named.get(number, f"{number}{ending}")


LEAST_TOLD_LENGTHS: Mapping[str, int] = {"B": 2, "H": 2, "Hkv": 2, "G": 2}
"""From which threshold on it is told; of lengths and widths, once it needs a reason."""

MOST_HELD_BY_CHANCE = 2
"""So many lengths may hold by chance among those that are put, each with SEEDS entries."""

_COMPARED_SEEDS = range(MAX_SEEDS + 32, MAX_SEEDS + 40)
"""Seeds of the entries with which two neighbouring lengths are compared: those of `_CHANCE_SEEDS`
have decided which lengths they are.
"""

_LONGEST_TRIED: Mapping[str, int] = {"T": 2048, "S": 2048, "T=S": 1024, "D": 256, "Dv": 256,
                                     "D=Dv": 256}
_MOST_HEADS = 64
_LENGTHENED_BY = 40
# with which a case is put to see whether it holds by chance
_CHANCE_SEEDS = range(MAX_SEEDS, MAX_SEEDS + 32)
_AXIS_NAMES: Mapping[str, str] = {"T=S": "T (= S)", "D=Dv": "D (= Dv)", "G": "H/Hkv"}

# Larger sizes at which a case is put whose small sizes need no reason: multiples of blocks, odd ones, either longer.
_SCREENING_SIZES: Sequence[Mapping[str, int]] = (
    {"T": 256, "S": 256, "T=S": 256}, {"T": 257, "S": 259, "T=S": 257}, {"T": 263, "S": 261},
    {"D": 128, "Dv": 128, "D=Dv": 128}, {"D": 97, "Dv": 99, "D=Dv": 97}, {"D": 101, "Dv": 99},
    {"B": 8, "H": 8, "Hkv": 4, "G": 2}, {"B": 9, "H": 7, "Hkv": 3, "G": 3})

_PAIRED_AXES = (("T", "S"), ("D", "Dv"))


def find_boundary(resizer: Resizer) -> Boundary | None:
    """Where the failure of the resizer's case begins; None where it does not fail again."""
    # chance, or a memory: a boundary of what does not fail again would be one of nothing
    if not resizer.fails(resizer.recipe.sizes):
        return None
    smallest = resizer.find_smallest()
    # a case that fails with some entries only needs more of them at every length
    resizer.find_out_how_often(smallest)
    # shrunk anew: with few entries it may have stopped where it held by chance
    if resizer.seeds > MIN_SEEDS:
        smallest = resizer.find_smallest()
    return _BoundarySearch(resizer, smallest).boundary()


@dataclass(slots=True)
class _BoundarySearch:
    """Looks for the boundary of a failure, from the smallest failing sizes on, which move along."""

    resizer: Resizer
    start_sizes: Sizes
    found_profiles: dict[str, LengthProfile] = field(default_factory=dict)
    _suspicious_axes: set[str] = field(default_factory=set)
    _by_chance: dict[str, bool] = field(default_factory=dict)
    _holding_sizes: list[Sizes] = field(default_factory=list)

    def boundary(self) -> Boundary:
        """What is found of each axis, then of two at a time."""
        for axis in (*self._large_axes, *self._screened_axes()):
            self._profile_axis(axis, self._move_one_axis(axis))
        # before joint ones are told: what compares two lengths explains both
        related = list(self._find_related_lengths())
        joined = list(self._find_joint_conditions())
        # two axes may come to one sentence, such as heads
        single = {told.words: told for axis in self._axes if self._is_told(axis)
                  for told in [self._describe_axis(axis)]}
        told = self._select_needed_conditions((*joined, *related, *single.values()))
        smallest = self.resizer.failing_recipes[self.start_sizes]
        return Boundary(smallest, tuple(told), tuple(self._nearest_holding_sizes()))

    def _select_needed_conditions(
            self, told: Sequence[BoundaryCondition]) -> tuple[BoundaryCondition, ...]:
        """Those that every case which failed meets: two axes may be found to matter that stand in
        for a third.
        """
        failed = [sizes.by_axis for sizes, fails in self.resizer.known_sizes.items() if fails]
        return tuple(each for each in told if not each.is_settled or all(
            is_needed(part, failed) for part in parts_of(f"Fails where {each.words}")))

    @property
    def _axes(self) -> tuple[str, ...]:
        """Those that can be moved one by one from here; of two that happen to be equal, each
        alone.
        """
        axes = self.resizer.axes
        return tuple(axis for axis in axes if "=" not in axis
                     or axis.partition("=")[0] not in axes)

    @property
    def _large_axes(self) -> tuple[str, ...]:
        return tuple(axis for axis in self._axes
                     if length_along(self.start_sizes, axis) >= _least_told(axis))

    def _screened_axes(self) -> tuple[str, ...]:
        """Of the axes whose small length needs no reason, those of which a larger one holds,
        together with others.
        """
        # a small case may be all that fails: larger ones are put, to see whether they hold
        small = [axis for axis in self._axes if axis not in self._large_axes]
        suspicious: dict[str, None] = {}
        for screen in _SCREENING_SIZES:
            sizes, moving = self.start_sizes, [axis for axis in small if axis in screen]
            for axis in moving:
                sizes = move_axis(sizes, axis, screen[axis])
            # several axes at once, since most screens fail as well and need no second look
            if moving and self.resizer.fails(sizes) is False:
                suspicious |= dict.fromkeys(moving)
        for one, other in (*_PAIRED_AXES, *(pair[::-1] for pair in _PAIRED_AXES)):
            if (one in small and other in self._large_axes
                and self._holds_at_one_length(one, other)):
                suspicious[one] = None
        self._suspicious_axes |= set(suspicious)
        return tuple(suspicious)

    def _holds_at_one_length(self, one: str, other: str) -> bool:
        """Whether it holds with the first of two axes as long as the second."""
        return (self.resizer.fails(move_axis(self.start_sizes, one,
                                             length_along(self.start_sizes, other))) is False)

    def _move_one_axis(self, axis: str) -> Callable[[int], Sizes]:
        """The sizes with another length of this axis."""
        return lambda value: move_axis(self.start_sizes, axis, value)

    def _profile_axis(self, axis: str, at: Callable[[int], Sizes]) -> None:
        """The condition on one axis, with the sizes `at` each length; of blocks the least that
        fails is kept.
        """
        # what the shrinking has put counts, too
        here, known = length_along(self.start_sizes, axis), self._known_lengths(axis, at)
        # four times the failing length shows whether it ends; 512 is the largest usual block
        top = min(_LONGEST_TRIED.get(axis, _MOST_HEADS), max(512, 4 * here))
        condition = narrow_condition(known, here, top, lambda value: self.resizer.fails(at(value)))
        # a plain threshold needs no second look: chance makes other rules out of it
        while (condition and condition.rule is not LengthRule.FROM
               and (chance := self._held_by_chance(here, known, at))):
            # it fails there with other entries
            known[chance] = True
            condition = narrow_condition(known, here, top,
                                         lambda value: self.resizer.fails(at(value)))
        if condition and condition.rule is LengthRule.UP_TO:
            condition = replace(condition, n=self._last_failing_length(condition, known, at))
            known = self._known_lengths(axis, at)
        if condition and condition.rule is not LengthRule.FROM:
            # rules that are fitted to what was put are tried on what was not
            tried = dict.fromkeys(lengths_to_try(here, top))
            fresh = [value for value in tried if 1 <= value <= top and value not in known]
            condition = condition if self._is_confirmed(condition, fresh, at) else None
        if (condition and condition.rule in ENDING_RULES
            and self._mistake_fades(condition, known, at)):
            condition = None
        if condition and condition.rule in BLOCK_RULES:
            here = min(value for value, failed in known.items() if failed)
            # what other axes are moved beside is the least length at which the rule is met
            self.start_sizes = at(here)
        self.found_profiles[axis] = LengthProfile(here, condition, self._known_lengths(axis, at),
                                                  not self.resizer.is_spent)

    def _held_by_chance(self, here: int, known: Mapping[int, bool],
                        at: Callable[[int], Sizes]) -> int | None:
        """A longer length that fails with other entries, where one or two alone speak against a
        plain threshold: an output of few whole numbers may be right by chance.
        """
        longer = [value for value, failed in known.items() if not failed and value > here]
        if len(longer) > MOST_HELD_BY_CHANCE or self.resizer.is_spent:
            return None
        return next((value for value in longer if self.resizer.holds_by_chance(at(value))), None)

    def _is_confirmed(self, condition: LengthCondition, fresh: Sequence[int],
                      at: Callable[[int], Sizes]) -> bool:
        """Whether two further lengths fare as it says: one that should fail and one that should
        hold.
        """
        for should_fail in (True, False):
            # the longest first: it is furthest from the lengths that the rule was fitted to
            value = next((each for each in reversed(fresh)
                          if condition.includes(each) is should_fail), None)
            if value and self.resizer.fails(at(value)) is (not should_fail):
                return False
        return True

    def _known_lengths(self, axis: str, at: Callable[[int], Sizes]) -> dict[int, bool]:
        """How the lengths of an axis fared so far, with the sizes `at` each."""
        return {length_along(sizes, axis): failed
                for sizes, failed in self.resizer.known_sizes.items()
                if at(length_along(sizes, axis)) == sizes}

    def _mistake_fades(self, condition: LengthCondition, fared: Mapping[int, bool],
                       at: Callable[[int], Sizes]) -> bool:
        """Whether what is wrong becomes less and less, and lies within rounding beyond the last
        length that fails: with more keys, or features, a mistake that is made at all of them shows
        less.

        Then both lengths are off by as much, but for their entries. That e of n cases at the one
        are further off than all n at the other would come about with a probability of C(2n - e, n)
        / C(2n, n).
        """
        beyond = min((value for value, failed in fared.items() if not failed
                      and value > condition.n), default=0)
        if not beyond:
            return False
        inside, outside = (self.resizer.margins_of(at(value), _COMPARED_SEEDS)
                           for value in (condition.n, beyond))
        if not inside or len(inside) != len(outside):
            return False
        further = sum(each > max(outside) for each in inside)
        return (comb(2 * len(inside) - further, len(inside))
                > MISSED_SHARE * comb(2 * len(inside), len(inside)))

    def _last_failing_length(self, condition: LengthCondition, known: Mapping[int, bool],
                             at: Callable[[int], Sizes]) -> int:
        """The last length that fails: it lies below the first that is known to hold."""
        low = max(value for value, failed in known.items() if failed and value <= condition.n)
        high = min(value for value, failed in known.items() if not failed and value > low)
        while high - low > 1 and not self.resizer.is_spent:
            middle = (low + high) // 2
            low, high = (middle, high) if self.resizer.fails(at(middle)) else (low, middle)
        return low

    def _is_told(self, axis: str) -> bool:
        """Whether it matters: it is no threshold so low that it needs no reason, and something
        smaller holds.
        """
        found = self.found_profiles.get(axis)
        if found is None:
            return False
        if found.condition and not found.is_threshold:
            return (found.nearest_holding is not None
                    and not found.may_be_chance(self.resizer.seeds))
        # up to so few it needs no reason that all goes well, and nothing is learned of a mistake
        if found.failing_length < _least_told(axis) or found.largest_holding_below is None:
            return False
        return not self._is_by_chance(axis)

    def _is_by_chance(self, axis: str) -> bool:
        """Whether a case that fails with some entries only may hold for no other reason than that
        it has fewer heads, or less of a length that follows no rule.

        If each of n heads went wrong by itself, so that a case fails with a probability of p, then
        one with m of them would hold with (1 - p)^(m/n).
        """
        here = self.found_profiles[axis].failing_length
        below = self.found_profiles[axis].largest_holding_below
        if (axis not in LEAST_TOLD_LENGTHS
            and self.found_profiles[axis].condition) or self.resizer.seeds <= MIN_SEEDS or not below:
            return False
        if axis not in self._by_chance:
            # entries of their own: those that the search has used have decided what it found
            fewer = self.resizer.how_often(move_axis(self.start_sizes, axis, below), _CHANCE_SEEDS)
            share = self.resizer.how_often(self.start_sizes, _CHANCE_SEEDS) / len(_CHANCE_SEEDS)
            self._by_chance[axis] = (fewer > 0
                                     or (1 - share) ** (len(_CHANCE_SEEDS) * below / here)
                                     > MISSED_SHARE)
        return self._by_chance[axis]

    def _describe_axis(self, axis: str) -> BoundaryCondition:
        found, name = self.found_profiles[axis], self._axis_name(axis)
        if found.largest_holding_below is None:
            below = found.nearest_holding
        else:
            below = found.largest_holding_below
        if not found.is_settled:
            return BoundaryCondition((name,), f"{name} = {found.failing_length}",
                                     f"{name} = {below}", is_settled=False)
        if found.condition is None:
            return BoundaryCondition((name,), f"{name} = {found.failing_length}, "
                                     f"though not at every {name} beyond", f"{name} = {below}")
        if found.is_threshold:
            return BoundaryCondition((name,), found.condition.format_for_axis(name),
                                     f"{name} = {below}")
        holding = found.nearest_holding
        if found.condition.rule is LengthRule.UP_TO:
            holding = found.condition.n + 1
        return BoundaryCondition((name,), found.condition.format_for_axis(name),
                                 f"{name} = {holding}")

    def _axis_name(self, axis: str) -> str:
        """Query heads, unless it is found out that key heads or groups count."""
        if axis not in {"G", "Hkv"}:
            return _AXIS_NAMES.get(axis, axis)
        here, other = length_along(self.start_sizes, axis), "Hkv" if axis == "G" else "G"
        profiles = self.found_profiles
        is_alike = other in profiles and profiles[other].condition == profiles[axis].condition
        if is_alike and not self.found_profiles[axis].is_threshold:
            return "H"
        if self.resizer.is_spent:
            if axis == "Hkv" and length_along(self.start_sizes, "G") == 1:
                return "H"
            return _AXIS_NAMES.get(axis, axis)
        # as many query heads on fewer key heads: if that fails, it is query heads that count
        few = [max(few, length_along(self.start_sizes, other)) for few in (1, 2) if few < here]
        shared = (move_axis(move_axis(self.start_sizes, axis, each), other, -(-here // each))
                  for each in few)
        return "H" if any(map(self.resizer.fails, shared)) else _AXIS_NAMES.get(axis, axis)

    def _find_related_lengths(self) -> Iterator[BoundaryCondition]:
        """How two lengths compare, where single ones do not explain what was seen."""
        for one, other in _PAIRED_AXES:
            difference = (length_along(self.start_sizes, one)
                          - length_along(self.start_sizes, other))
            are_near = {one, other} <= set(self._axes) and abs(difference) <= 1
            odd = [axis for axis in (one, other) if axis in self.found_profiles]
            if all(self.found_profiles[axis].is_threshold and axis not in self._suspicious_axes
                   and not are_near for axis in odd):
                continue
            if len(odd) == len((one, other)) and (apart := self._find_least_difference(*odd)):
                yield apart
            elif odd and (relation := self._compare_lengths(one, other)):
                for axis in odd:
                    if are_near or not self.found_profiles[axis].is_threshold:
                        del self.found_profiles[axis]
                self._holding_sizes += self._holding_at_other_lengths(one, other)[:1]
                if self._may_equal(one, other):
                    holding = HOLDING[relation]
                else:
                    holding = HOLDING_APART[relation]
                yield BoundaryCondition((one, other), f"{one} {relation} {other}",
                                        f"{one} {holding} {other}")
                # with the comparison known, the second length may still have a threshold of its
                # own
                if are_near:
                    self._profile_axis(other, self._move_axes_together(one, other))

    def _move_axes_together(self, one: str, other: str) -> Callable[[int], Sizes]:
        """The sizes with another length of the second axis, and the first moved by as much."""
        by = length_along(self.start_sizes, one) - length_along(self.start_sizes, other)
        return lambda value: move_axis(move_axis(self.start_sizes, one, max(1, value + by)), other,
                                       value)

    def _find_least_difference(self, one: str, other: str) -> BoundaryCondition | None:
        """That one length exceeds the other by so many at the least, where more than one: both are
        moved by as much.
        """
        long, short = sorted((one, other), key=lambda axis: length_along(self.start_sizes, axis),
                             reverse=True)
        here, there = length_along(self.start_sizes, long), length_along(self.start_sizes, short)
        if here - there < 2:
            return None
        # far from where it was found, so that a difference is told from two thresholds
        both = move_axis(self.start_sizes, short, there + _LENGTHENED_BY)
        if [self.resizer.fails(move_axis(both, long, here + _LENGTHENED_BY - less))
            for less in (0, 1)] != [True, False]:
            return None
        for axis in (one, other):
            del self.found_profiles[axis]
        self._holding_sizes.append(move_axis(both, long, here + _LENGTHENED_BY - 1))
        by = here - there - 1
        return BoundaryCondition((long, short), f"{long} > {short} + {by}",
                                 f"{long} = {short} + {by}")

    def _compare_lengths(self, one: str, other: str) -> str:
        """The comparison that two rounds of three cases bear out; empty if none is. The longer
        length of the first is the shorter of the second: this tells a comparison from a length
        that happens to hold.
        """
        least = (max(length_along(self.start_sizes, one), length_along(self.start_sizes, other))
                 + 13)
        seen = set()
        for base in (least, least + 7):
            trio = ((base + 7, base), (base, base), (base, base + 7))
            sizes = [move_axis(move_axis(self.start_sizes, one, a), other, b) for a, b in trio]
            seen.add(self._choose_comparison(*map(self.resizer.fails, sizes)))
        return seen.pop() if len(seen) == 1 else ""

    @staticmethod
    def _choose_comparison(longer: bool | None, same: bool | None, shorter: bool | None) -> str:
        """The comparison that these cases bear out; some clauses have none with both of one
        length.
        """
        if longer is None or shorter is None:
            return ""
        if same is None:
            return RELATIONS_APART.get((longer, shorter), "")
        return RELATIONS.get((longer, same, shorter), "")

    def _may_equal(self, one: str, other: str) -> bool:
        """Whether a case with both of one length was put."""
        return any(length_along(sizes, one) == length_along(sizes, other)
                   for sizes in self.resizer.known_sizes)

    def _find_joint_conditions(self) -> Iterator[BoundaryCondition]:
        """Products of two axes that have to be large together: what one lacks the other makes up
        for.
        """
        heads = next((axis for axis in ("H", "Hkv") if axis in self._axes), "")
        # pairs whose product is the size of something: a grid, logits, a tile of either operand
        for one, other in (("B", heads), ("T", "S"), ("T", "D"), ("S", "D"), (heads, "D")):
            if ({one, other} <= set(self._axes) and self._may_multiply(one, other)
                and self._makes_up(one, other)):
                n = length_along(self.start_sizes, one) * length_along(self.start_sizes, other)
                least, held = self._least_product(one, other, n), self._held_product(one, other)
                for axis in (one, other):
                    self.found_profiles.pop(axis, None)
                name = f"{one}·{self._heads_that_count(other, least)}" if one == "B" else f"{one}·{other}".replace(
                    "Hkv", "H")
                if "Hkv" in (one, other) and "Hkv" not in name:  # it was found in key heads
                    groups = length_along(self.start_sizes, "G")
                    held *= groups
                    least = held + 1 if groups > 1 else least
                self._holding_sizes += self._holding_sizes_below(one, other)[:1]
                yield BoundaryCondition((one, other), f"{name} ≥ {least}", f"{name} = {held}")

    def _heads_that_count(self, axis: str, least: int) -> str:
        """Query heads, unless as many of them that share fewer key heads hold; another axis is
        itself.
        """
        if axis != "Hkv" or "G" not in self._axes:
            return axis.replace("Hkv", "H")
        # some clauses have no case without groups
        if (groups := length_along(self.start_sizes, "G")) > 1:
            twice = (move_axis(sizes, "G", 2 * groups)
                     for sizes in self._holding_sizes_below("B", axis)[:1])
            return "H" if any(map(self.resizer.fails, twice)) else "Hkv"
        pairs = [(B, -(-least // (2 * B))) for B in (length_along(self.start_sizes, "B"), 1, 2)]
        one_group = [move_axis(move_axis(self.start_sizes, "B", B), "Hkv", Hkv)
                     for B, Hkv in pairs if B * Hkv < least]
        shared = (move_axis(sizes, "G", 2) for sizes in one_group)
        fared = [self.resizer.fails(sizes) for sizes in shared]
        return "Hkv" if False in fared and True not in fared else "H"

    def _may_multiply(self, one: str, other: str) -> bool:
        are_told = [axis in self.found_profiles and self.found_profiles[axis].is_threshold
                    and self._is_told(axis)
                    for axis in (one, other)]
        return any(are_told) if one == "B" else all(are_told)

    def _makes_up(self, one: str, other: str) -> bool:
        """Whether it fails as well with the longer of the two cut to half and the other made twice
        as long.
        """
        a, b = length_along(self.start_sizes, one), length_along(self.start_sizes, other)
        long, short = (one, other) if a > b else (other, one)
        half = -(-max(a, b) // 2)
        if half == max(a, b):
            return False
        return (self.resizer.fails(move_axis(move_axis(self.start_sizes, long, half), short,
                                             2 * min(a, b))) is True)

    def _least_product(self, one: str, other: str, n: int) -> int:
        """The least product that fails, looked for with one of the shorter axis, or with two if it
        holds at one.
        """
        short, long = sorted((one, other), key=lambda axis: length_along(self.start_sizes, axis))
        # with one of the short axis the product is the long one, which can be told to the unit
        for few in (1, 2):
            with_few = move_axis(self.start_sizes, short, few)
            low, high = self._held_product(one, other) // few, -(-n // few)
            if not self.resizer.fails(move_axis(with_few, long, high)):
                continue
            while high - low > 1 and not self.resizer.is_spent:
                middle = (low + high) // 2
                if self.resizer.fails(move_axis(with_few, long, middle)):
                    high = middle
                else:
                    low = middle
            # an odd product is not met with two of an axis, but may be with three or more
            odd = few * high - 1
            divisors = [each for each in range(3, math.isqrt(odd) + 1) if odd % each == 0]
            odd_sizes = (move_axis(move_axis(self.start_sizes, short, each), long, odd // each)
                         for each in divisors)
            is_odd_less = few > 1 and any(map(self.resizer.fails, odd_sizes))
            return min(n, odd if is_odd_less else few * high)
        return n

    def _held_product(self, one: str, other: str) -> int:
        """The largest product that is known to hold below the smallest failing one, all other axes
        as they are.
        """
        return next((length_along(sizes, one) * length_along(sizes, other)
                     for sizes in self._holding_sizes_below(one, other)), 0)

    def _holding_sizes_below(self, one: str, other: str) -> list[Sizes]:
        """What is known to hold with a smaller product of two axes, all others as they are; the
        largest first.
        """
        def product(sizes: Sizes) -> int:
            return length_along(sizes, one) * length_along(sizes, other)

        smaller = (sizes for sizes in self._holding_at_other_lengths(one, other)
                   if product(sizes) < product(self.start_sizes))
        return sorted(smaller, key=product, reverse=True)

    def _holding_at_other_lengths(self, one: str, other: str) -> list[Sizes]:
        """What is known to hold with other lengths of two axes, all others as they are."""
        return [sizes for sizes, failed in self.resizer.known_sizes.items() if not failed
                and move_axis(move_axis(self.start_sizes, one, length_along(sizes, one)), other,
                              length_along(sizes, other)) == sizes]

    def _nearest_holding_sizes(self) -> Iterator[Sizes]:
        """The nearest sizes that hold, of each axis or pair of axes that matters."""
        yield from self._holding_sizes
        for axis, found in self.found_profiles.items():
            if self._is_told(axis) and found.nearest_holding is not None:
                yield move_axis(self.start_sizes, axis, found.nearest_holding)


def _least_told(axis: str) -> int:
    return LEAST_TOLD_LENGTHS.get(axis, NEEDS_NO_REASON + 1)
