"""Finds where a failure begins: the sizes at which a case fails, in a sentence, and the entries
that are wrong.

The case is made as small as it fails, axis by axis. From there each axis is moved alone.
Conditions on two axes (more queries than keys, batch times heads) are tried where single axes do
not explain the verdicts. Wrong entries are described as ranges along the axes of an answer.
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
    """`Only the log-sum-exp is wrong; the output is right.`; empty if all quantities are wrong, or
    all are right.
    """
    quantities = (*OF_INPUT, "output") if GRAD in recipe.features else FORWARD_QUANTITIES
    # the first run is the case itself; others are what it is compared with
    run = next(iter(scene.runs))
    right, wrong = list[str](), list[str]()
    for name in quantities:
        is_right = _is_quantity_right(scene, run, name)
        if is_right:
            right.append(QUANTITIES[name])
        elif is_right is False:
            wrong.append(QUANTITIES[name])
    if not wrong or not right:
        return ""
    return (f"Only the {_join_quantities(wrong)} {_is_or_are(wrong)} wrong; "
            f"the {_join_quantities(right)} {_is_or_are(right)} right.")


def _is_quantity_right(scene: Scene, run: str, name: str) -> bool | None:
    """Whether it is right where a claim is made; None where none is, or it is not asked for."""
    try:
        view = look_at(scene, run, name)
    except _SILENT_ENDINGS:
        return None
    if not view.claimed.any():
        return None
    with np.errstate(all="ignore"):
        beyond = find_beyond(view.array, view.truth, view.allowance)
    return not (beyond & view.claimed).any()


def _join_quantities(names: list[str]) -> str:
    return " and the ".join(names)


def _is_or_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


_AXIS_WORDS = {"B": ("batch entry", "batch entries"), "H": ("head", "heads"), "T": ("row", "rows"),
               "S": ("key", "keys"),
               **dict.fromkeys(("D", "Dv", "M", "Out"), ("column", "columns")),
               "In": ("row", "rows")}
_MOST_LISTED = 4
"""Up to so many single indices are listed; of more, their number is given."""

_FILLED_SHARE = 0.5
"""If fewer of the entries within the ranges are wrong, "some entries of" stands before them."""


def wrong_entries(scene: Scene) -> tuple[Array, tuple[str, ...]] | None:
    """The entries of the first wrong run's output that lie beyond their allowance, and the names
    of their axes.

    bool, (B,H,T,Dv); of a layer (B,T,M), of a rotary embedding (B,H,T,D). None where every run's
    output is right.
    """
    for run, problem in scene.runs.items():
        view = look_at(scene, run, "output")
        with np.errstate(invalid="ignore"):
            is_near = np.abs(view.array - view.truth) <= view.allowance
        wrong = view.claimed & ~is_near & (view.array != view.truth)
        if wrong.any():
            return wrong, axes_of(problem.parts[0])
    return None


def describe_ranges(wrong: Array, axes: Sequence[str]) -> str:
    """`rows 64 to 128 of every head`; "every entry" where all of them are wrong.

    wrong: bool, of any shape with these axes, some of them True.
    """
    ranges, wrong_indices = dict[str, str](), list[Array]()
    for position, name in enumerate(axes):
        others = tuple(other for other in range(wrong.ndim) if other != position)
        along = np.asarray(wrong.any(axis=others))
        wrong_indices.append(np.flatnonzero(along))
        if not along.all():
            ranges[name] = _describe_indices(name, along)
    # ranges along each axis span a box, of which the wrong entries may be few
    some = "some entries of " if wrong[np.ix_(*wrong_indices)].mean() < _FILLED_SHARE else ""
    if not ranges:
        return "some entries, spread over all of it" if some else "every entry"
    return some + " of ".join(_order_ranges(ranges, wrong, axes))


def _order_ranges(ranges: dict[str, str], wrong: Array, axes: Sequence[str]) -> Iterator[str]:
    """The innermost first: columns of rows of heads of batch entries.

    wrong: bool, of any shape with these axes.
    """
    for name in ("D", "Dv", "M", "Out", "S", "T", "In"):
        if name in ranges:
            yield ranges[name]
    if "H" in ranges:
        yield ranges["H"]
    elif "H" in axes and wrong.shape[axes.index("H")] > 1 and "B" not in ranges:
        yield "every head"
    if "B" in ranges:
        yield ranges["B"]


def _describe_indices(name: str, wrong: Array) -> str:
    """`rows 64 to 128`, `the last row`, `every second row from 1 to 9`, `heads 1, 5 and 6`, or
    `12 of 40 rows, 3 to 38`.

    wrong: bool, (T,) of rows and alike of other axes, some of them True and some not.
    """
    one, many = _AXIS_WORDS[name]
    indices = [int(index) for index in np.flatnonzero(wrong)]
    first, last = indices[0], indices[-1]
    if len(indices) == 1:
        return f"the last {one}" if first == len(wrong) - 1 else f"{one} {first}"
    # one step tells a block, or every n-th entry
    steps = {higher - lower for lower, higher in pairwise(indices)}
    if steps == {1}:
        return f"{many} {first} to {last}"
    if len(steps) == 1 and len(indices) > 2:
        return f"every {_ordinal(steps.pop())} {one} from {first} to {last}"
    if len(indices) <= _MOST_LISTED:
        return f"{many} {', '.join(map(str, indices[:-1]))} and {last}"
    return f"{len(indices)} of {len(wrong)} {many}, {first} to {last}"


def _ordinal(number: int) -> str:
    if number in {2, 3}:
        return ("second", "third")[number - 2]
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


LEAST_TOLD_LENGTHS: Mapping[str, int] = {"B": 2, "H": 2, "Hkv": 2, "G": 2}
"""The least threshold worth a sentence; for lengths and widths it is NEEDS_NO_REASON + 1."""

MOST_HELD_BY_CHANCE = 2
"""So many of the lengths that are put may hold by chance."""

_COMPARED_SEEDS = range(MAX_SEEDS + 32, MAX_SEEDS + 40)
"""Seeds of the entries with which two neighbouring lengths are compared. Those of `_CHANCE_SEEDS`
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
    """Finds where the failure of the resizer's case begins; None where it does not fail again."""
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
    """Searches for the boundary of a failure, from the smallest failing sizes on."""

    resizer: Resizer
    start_sizes: Sizes
    found_profiles: dict[str, LengthProfile] = field(default_factory=dict)
    _suspicious_axes: set[str] = field(default_factory=set)
    _by_chance: dict[str, bool] = field(default_factory=dict)
    _holding_sizes: list[Sizes] = field(default_factory=list)

    def boundary(self) -> Boundary:
        """Looks at each axis alone, then at two at a time."""
        for axis in (*self._large_axes, *self._screened_axes()):
            self._profile_axis(axis, self._move_one_axis(axis))
        # before products are looked for: what compares two lengths explains both
        comparisons = list(self._find_related_lengths())
        products = list(self._find_joint_conditions())
        # two axes may come to one sentence, such as heads
        thresholds = [self._describe_axis(axis) for axis in self._axes if self._is_told(axis)]
        single = {each.words: each for each in thresholds}
        conditions = self._select_needed_conditions((*products, *comparisons, *single.values()))
        smallest = self.resizer.failing_recipes[self.start_sizes]
        return Boundary(smallest, conditions, tuple(self._nearest_holding_sizes()))

    def _select_needed_conditions(
            self, conditions: Sequence[BoundaryCondition]) -> tuple[BoundaryCondition, ...]:
        """The conditions that all failing cases meet; the others only seemed to matter."""
        failing = [sizes.by_axis for sizes, fails in self.resizer.known_sizes.items() if fails]

        def is_met_by_all(condition: BoundaryCondition) -> bool:
            parts = parts_of(f"Fails where {condition.words}")
            return all(is_needed(part, failing) for part in parts)

        return tuple(each for each in conditions if not each.is_settled or is_met_by_all(each))

    @property
    def _axes(self) -> tuple[str, ...]:
        """The axes that can be moved one by one, be two of them of equal length by chance."""
        axes = self.resizer.axes
        return tuple(axis for axis in axes if "=" not in axis
                     or axis.partition("=")[0] not in axes)

    @property
    def _large_axes(self) -> tuple[str, ...]:
        return tuple(axis for axis in self._axes
                     if length_along(self.start_sizes, axis) >= _least_told(axis))

    def _screened_axes(self) -> tuple[str, ...]:
        """The axes whose small length needs no reason, and which may hold at a larger one."""
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
        for one, other in (("T", "S"), ("D", "Dv"), ("S", "T"), ("Dv", "D")):
            if (one in small and other in self._large_axes
                and self._holds_at_one_length(one, other)):
                suspicious[one] = None
        self._suspicious_axes |= set(suspicious)
        return tuple(suspicious)

    def _holds_at_one_length(self, one: str, other: str) -> bool:
        """Whether the case holds with the first of two axes as long as the second."""
        length = length_along(self.start_sizes, other)
        return self.resizer.fails(move_axis(self.start_sizes, one, length)) is False

    def _move_one_axis(self, axis: str) -> Callable[[int], Sizes]:
        """The sizes with another length of this axis."""
        return lambda value: move_axis(self.start_sizes, axis, value)

    def _profile_axis(self, axis: str, sizes_at: Callable[[int], Sizes]) -> None:
        """Finds the condition on one axis. sizes_at: the sizes with a length of it. Of a rule of
        blocks, the least length that fails becomes the start.
        """
        # what the shrinking has put counts, too
        here, known_lengths = length_along(self.start_sizes, axis), self._known_lengths(axis, sizes_at)
        # four times the failing length shows whether it ends; 512 is the largest usual block
        top = min(_LONGEST_TRIED.get(axis, _MOST_HEADS), max(512, 4 * here))
        condition = narrow_condition(known_lengths, here, top, lambda value: self.resizer.fails(sizes_at(value)))
        # a plain threshold needs no second look: chance makes other rules out of it
        while (condition and condition.rule is not LengthRule.FROM
               and (chance := self._held_by_chance(here, known_lengths, sizes_at))):
            # it fails there with other entries
            known_lengths[chance] = True
            condition = narrow_condition(known_lengths, here, top,
                                         lambda value: self.resizer.fails(sizes_at(value)))
        if condition and condition.rule is LengthRule.UP_TO:
            condition = replace(condition, n=self._last_failing_length(condition, known_lengths, sizes_at))
            known_lengths = self._known_lengths(axis, sizes_at)
        if condition and condition.rule is not LengthRule.FROM:
            # rules that are fitted to what was put are tried on what was not
            fresh = [value for value in dict.fromkeys(lengths_to_try(here, top))
                     if 1 <= value <= top and value not in known_lengths]
            if not self._is_confirmed(condition, fresh, sizes_at):
                condition = None
        if (condition and condition.rule in ENDING_RULES
            and self._mistake_fades(condition, known_lengths, sizes_at)):
            condition = None
        if condition and condition.rule in BLOCK_RULES:
            here = min(value for value, fails in known_lengths.items() if fails)
            # what other axes are moved beside is the least length at which the rule is met
            self.start_sizes = sizes_at(here)
        self.found_profiles[axis] = LengthProfile(
            here, condition, self._known_lengths(axis, sizes_at), not self.resizer.is_spent)

    def _held_by_chance(self, here: int, known_lengths: Mapping[int, bool],
                        sizes_at: Callable[[int], Sizes]) -> int | None:
        """A longer length that holds, but fails with other entries. Asked where only one or two
        such lengths contradict a plain threshold: few whole numbers may come out right by chance.
        """
        longer = [value for value, fails in known_lengths.items() if not fails and value > here]
        if len(longer) > MOST_HELD_BY_CHANCE or self.resizer.is_spent:
            return None
        return next((value for value in longer if self.resizer.holds_by_chance(sizes_at(value))), None)

    def _is_confirmed(self, condition: LengthCondition, fresh: Sequence[int],
                      sizes_at: Callable[[int], Sizes]) -> bool:
        """Whether one further length that should fail does, and one that should hold."""
        for should_fail in (True, False):
            values = [each for each in fresh if condition.includes(each) is should_fail]
            # the longest: it is furthest from the lengths that the rule was fitted to
            if values and self.resizer.fails(sizes_at(values[-1])) is (not should_fail):
                return False
        return True

    def _known_lengths(self, axis: str, sizes_at: Callable[[int], Sizes]) -> dict[int, bool]:
        """Whether the case fails, by each length that was put."""
        return {length_along(sizes, axis): fails
                for sizes, fails in self.resizer.known_sizes.items()
                if sizes_at(length_along(sizes, axis)) == sizes}

    def _mistake_fades(self, condition: LengthCondition, known_lengths: Mapping[int, bool],
                       sizes_at: Callable[[int], Sizes]) -> bool:
        """Whether a mistake at all lengths shows less and less, and lies within rounding beyond
        the last length that fails.

        Then both lengths are off by as much, but for their entries. That e of n cases at the one
        are further off than all n at the other has a probability of C(2n - e, n) / C(2n, n).
        """
        longer = [value for value, fails in known_lengths.items() if not fails and value > condition.n]
        if not longer:
            return False
        failing = self.resizer.margins_of(sizes_at(condition.n), _COMPARED_SEEDS)
        holding = self.resizer.margins_of(sizes_at(min(longer)), _COMPARED_SEEDS)
        if not failing or len(failing) != len(holding):
            return False
        cases, further = len(failing), sum(each > max(holding) for each in failing)
        return comb(2 * cases - further, cases) > MISSED_SHARE * comb(2 * cases, cases)

    def _last_failing_length(self, condition: LengthCondition, known_lengths: Mapping[int, bool],
                             sizes_at: Callable[[int], Sizes]) -> int:
        """The last length that fails: it lies below the first that is known to hold."""
        low = max(value for value, fails in known_lengths.items() if fails and value <= condition.n)
        high = min(value for value, fails in known_lengths.items() if not fails and value > low)
        while high - low > 1 and not self.resizer.is_spent:
            middle = (low + high) // 2
            low, high = (middle, high) if self.resizer.fails(sizes_at(middle)) else (low, middle)
        return low

    def _is_told(self, axis: str) -> bool:
        """Whether the axis matters: its threshold is not so low that it needs no reason, and
        something smaller holds.
        """
        profile = self.found_profiles.get(axis)
        if profile is None:
            return False
        if profile.condition and not profile.is_threshold:
            return (profile.nearest_holding is not None
                    and not profile.may_be_chance(self.resizer.seeds))
        # up to so few it needs no reason that all goes well, and nothing is learned of a mistake
        if profile.failing_length < _least_told(axis) or profile.largest_holding_below is None:
            return False
        return not self._is_by_chance(axis)

    def _is_by_chance(self, axis: str) -> bool:
        """Whether a case that fails only with some entries may hold merely because it has fewer
        heads, or less of a length that follows no rule.

        If each of n heads went wrong by itself, so that a case fails with a probability of p, then
        one with m of them would hold with (1 - p)^(m/n).
        """
        profile = self.found_profiles[axis]
        follows_rule = axis not in LEAST_TOLD_LENGTHS and profile.condition is not None
        less = profile.largest_holding_below
        if follows_rule or self.resizer.seeds <= MIN_SEEDS or not less:
            return False
        if axis not in self._by_chance:
            # entries of their own: those that the search has used have decided what it found
            fewer = self.resizer.how_often(move_axis(self.start_sizes, axis, less), _CHANCE_SEEDS)
            share = self.resizer.how_often(self.start_sizes, _CHANCE_SEEDS) / len(_CHANCE_SEEDS)
            cases = len(_CHANCE_SEEDS) * less / profile.failing_length
            self._by_chance[axis] = fewer > 0 or (1 - share) ** cases > MISSED_SHARE
        return self._by_chance[axis]

    def _describe_axis(self, axis: str) -> BoundaryCondition:
        profile, name = self.found_profiles[axis], self._axis_name(axis)
        condition, here = profile.condition, f"{name} = {profile.failing_length}"
        holding = profile.largest_holding_below
        if condition and not profile.is_threshold and profile.is_settled:
            holding = None
        if holding is None:
            holding = profile.nearest_holding
        if not profile.is_settled:
            return BoundaryCondition((name,), here, f"{name} = {holding}", is_settled=False)
        if condition is None:
            here += f", though not at every {name} beyond"
            return BoundaryCondition((name,), here, f"{name} = {holding}")
        if condition.rule is LengthRule.UP_TO:
            holding = condition.n + 1
        return BoundaryCondition((name,), condition.format_for_axis(name), f"{name} = {holding}")

    def _axis_name(self, axis: str) -> str:
        """The axis that counts: query heads, unless it turns out to be key heads or groups."""
        if axis not in {"G", "Hkv"}:
            return _AXIS_NAMES.get(axis, axis)
        here, other = length_along(self.start_sizes, axis), "Hkv" if axis == "G" else "G"
        profile, profile_of_other = self.found_profiles[axis], self.found_profiles.get(other)
        if (profile_of_other and profile_of_other.condition == profile.condition
                and not profile.is_threshold):
            return "H"
        if self.resizer.is_spent:
            if axis == "Hkv" and length_along(self.start_sizes, "G") == 1:
                return "H"
            return _AXIS_NAMES.get(axis, axis)
        # as many query heads on fewer key heads: if that fails, it is query heads that count
        for least in (1, 2):
            if least < here:
                few = max(least, length_along(self.start_sizes, other))
                shared = move_axis(move_axis(self.start_sizes, axis, few), other, -(-here // few))
                if self.resizer.fails(shared):
                    return "H"
        return _AXIS_NAMES.get(axis, axis)

    def _find_related_lengths(self) -> Iterator[BoundaryCondition]:
        """Compares two lengths, where thresholds of single ones do not explain the verdicts."""
        for one, other in _PAIRED_AXES:
            difference = (length_along(self.start_sizes, one)
                          - length_along(self.start_sizes, other))
            are_near = {one, other} <= set(self._axes) and abs(difference) <= 1
            odd = [axis for axis in (one, other) if axis in self.found_profiles]
            if all(self.found_profiles[axis].is_threshold and axis not in self._suspicious_axes
                   and not are_near for axis in odd):
                continue
            if len(odd) == 2 and (condition := self._find_least_difference(one, other)):
                yield condition
            elif odd and (relation := self._compare_lengths(one, other)):
                for axis in odd:
                    if are_near or not self.found_profiles[axis].is_threshold:
                        del self.found_profiles[axis]
                self._holding_sizes += self._holding_at_other_lengths(one, other)[:1]
                opposites = HOLDING if self._may_equal(one, other) else HOLDING_APART
                yield BoundaryCondition((one, other), f"{one} {relation} {other}",
                                        f"{one} {opposites[relation]} {other}")
                # the second length may have a threshold of its own beside the comparison
                if are_near:
                    self._profile_axis(other, self._move_axes_together(one, other))

    def _move_axes_together(self, one: str, other: str) -> Callable[[int], Sizes]:
        """The sizes with another length of the second axis, and the first moved by as much."""
        gap = length_along(self.start_sizes, one) - length_along(self.start_sizes, other)

        def move(value: int) -> Sizes:
            return move_axis(move_axis(self.start_sizes, one, max(1, value + gap)), other, value)

        return move

    def _find_least_difference(self, one: str, other: str) -> BoundaryCondition | None:
        """The condition that one length exceeds the other by at least two."""
        long, short = sorted((one, other), key=lambda axis: length_along(self.start_sizes, axis),
                             reverse=True)
        here, there = length_along(self.start_sizes, long), length_along(self.start_sizes, short)
        if here - there < 2:
            return None
        # far from where it was found, so that a difference is told from two thresholds
        both = move_axis(self.start_sizes, short, there + _LENGTHENED_BY)
        failing = move_axis(both, long, here + _LENGTHENED_BY)
        holding = move_axis(both, long, here + _LENGTHENED_BY - 1)
        if self.resizer.fails(failing) is not True or self.resizer.fails(holding) is not False:
            return None
        for axis in (one, other):
            del self.found_profiles[axis]
        self._holding_sizes.append(holding)
        gap = here - there - 1
        return BoundaryCondition((long, short), f"{long} > {short} + {gap}",
                                 f"{long} = {short} + {gap}")

    def _compare_lengths(self, one: str, other: str) -> str:
        """The comparison that two rounds of three cases bear out; empty if there is none.

        The longer length of the first round is the shorter of the second: this tells a comparison
        from a length that happens to hold.
        """
        least = max(length_along(self.start_sizes, axis) for axis in (one, other)) + 13
        comparisons = set()
        for base in (least, least + 7):
            trio = ((base + 7, base), (base, base), (base, base + 7))
            sizes = [move_axis(move_axis(self.start_sizes, one, a), other, b) for a, b in trio]
            comparisons.add(self._choose_comparison(*map(self.resizer.fails, sizes)))
        return comparisons.pop() if len(comparisons) == 1 else ""

    @staticmethod
    def _choose_comparison(longer: bool | None, same: bool | None, shorter: bool | None) -> str:
        """The comparison that three verdicts bear out; some clauses have no `same`."""
        if longer is None or shorter is None:
            return ""
        if same is None:
            return RELATIONS_APART.get((longer, shorter), "")
        return RELATIONS.get((longer, same, shorter), "")

    def _may_equal(self, one: str, other: str) -> bool:
        """Whether a case was put in which both have one length."""
        return any(length_along(sizes, one) == length_along(sizes, other)
                   for sizes in self.resizer.known_sizes)

    def _find_joint_conditions(self) -> Iterator[BoundaryCondition]:
        """Products of two axes, where the one can make up for what the other lacks."""
        heads = next((axis for axis in ("H", "Hkv") if axis in self._axes), "")
        # pairs whose product is the size of something: a grid, logits, a tile of either operand
        for one, other in (("B", heads), ("T", "S"), ("T", "D"), ("S", "D"), (heads, "D")):
            if not ({one, other} <= set(self._axes) and self._may_multiply(one, other)
                    and self._makes_up(one, other)):
                continue
            n = length_along(self.start_sizes, one) * length_along(self.start_sizes, other)
            least, most = self._least_product(one, other, n), self._holding_product(one, other)
            for axis in (one, other):
                self.found_profiles.pop(axis, None)
            name = f"{one}·{other}".replace("Hkv", "H")
            if one == "B":
                name = f"B·{self._heads_that_count(other, least)}"
            if "Hkv" in (one, other) and "Hkv" not in name:  # it was found in key heads
                groups = length_along(self.start_sizes, "G")
                most *= groups
                least = most + 1 if groups > 1 else least
            self._holding_sizes += self._holding_sizes_below(one, other)[:1]
            yield BoundaryCondition((one, other), f"{name} ≥ {least}", f"{name} = {most}")

    def _heads_that_count(self, axis: str, least: int) -> str:
        """Query heads, unless as many that share fewer key heads hold."""
        if axis != "Hkv" or "G" not in self._axes:
            return axis.replace("Hkv", "H")
        # some clauses have no case without groups
        if (groups := length_along(self.start_sizes, "G")) > 1:
            twice = (move_axis(sizes, "G", 2 * groups)
                     for sizes in self._holding_sizes_below("B", axis)[:1])
            return "H" if any(map(self.resizer.fails, twice)) else "Hkv"
        verdicts = []
        for B in (length_along(self.start_sizes, "B"), 1, 2):
            key_heads = -(-least // (2 * B))
            if B * key_heads < least:
                one_group = move_axis(move_axis(self.start_sizes, "B", B), "Hkv", key_heads)
                verdicts.append(self.resizer.fails(move_axis(one_group, "G", 2)))
        return "Hkv" if False in verdicts and True not in verdicts else "H"

    def _may_multiply(self, one: str, other: str) -> bool:
        thresholds = [axis for axis in (one, other) if axis in self.found_profiles
                      and self.found_profiles[axis].is_threshold and self._is_told(axis)]
        return len(thresholds) >= (1 if one == "B" else 2)

    def _makes_up(self, one: str, other: str) -> bool:
        """Whether the case still fails with the longer axis halved and the other doubled."""
        a, b = length_along(self.start_sizes, one), length_along(self.start_sizes, other)
        long, short = (one, other) if a > b else (other, one)
        half = -(-max(a, b) // 2)
        if half == max(a, b):
            return False
        sizes = move_axis(move_axis(self.start_sizes, long, half), short, 2 * min(a, b))
        return self.resizer.fails(sizes) is True

    def _least_product(self, one: str, other: str, n: int) -> int:
        """The least product that fails, with one or two of the shorter axis."""
        short, long = sorted((one, other), key=lambda axis: length_along(self.start_sizes, axis))
        # with one of the short axis the product is the long one, which can be told to the unit
        for few in (1, 2):
            with_few = move_axis(self.start_sizes, short, few)
            low, high = self._holding_product(one, other) // few, -(-n // few)
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
            if few > 1 and any(map(self.resizer.fails, odd_sizes)):
                return min(n, odd)
            return min(n, few * high)
        return n

    def _holding_product(self, one: str, other: str) -> int:
        """The largest product that holds below the smallest that fails."""
        for sizes in self._holding_sizes_below(one, other):
            return length_along(sizes, one) * length_along(sizes, other)
        return 0

    def _holding_sizes_below(self, one: str, other: str) -> list[Sizes]:
        """Sizes that hold at a smaller product of two axes; the largest first."""
        def product(sizes: Sizes) -> int:
            return length_along(sizes, one) * length_along(sizes, other)

        smaller = (sizes for sizes in self._holding_at_other_lengths(one, other)
                   if product(sizes) < product(self.start_sizes))
        return sorted(smaller, key=product, reverse=True)

    def _holding_at_other_lengths(self, one: str, other: str) -> list[Sizes]:
        """Sizes that hold at other lengths of two axes, with all others fixed."""
        holding = []
        for sizes, fails in self.resizer.known_sizes.items():
            moved_one = move_axis(self.start_sizes, one, length_along(sizes, one))
            if not fails and move_axis(moved_one, other, length_along(sizes, other)) == sizes:
                holding.append(sizes)
        return holding

    def _nearest_holding_sizes(self) -> Iterator[Sizes]:
        """The nearest sizes that hold, of each axis or pair of axes that matters."""
        yield from self._holding_sizes
        for axis, profile in self.found_profiles.items():
            if self._is_told(axis) and profile.nearest_holding is not None:
                yield move_axis(self.start_sizes, axis, profile.nearest_holding)


def _least_told(axis: str) -> int:
    return LEAST_TOLD_LENGTHS.get(axis, NEEDS_NO_REASON + 1)
