"""Decides the sizes at which a clause is tried: dealt ones, those that a user names, and others
for a failing case.

Each clause is dealt its part of a subject's sizes, among all clauses of the spec that can be put
to the subject. A case that fails is put again at other sizes, by the same recipe, down to the
smallest at which it still fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

from attnspec.core.declaration import Limits
from attnspec.core.forms import EVERY_VALUED, SHAPES
from attnspec.core.forms import POOL as MADE
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.sizes import MOST_ENTRIES, MOST_HEADS, read_sizes, sizes_beside
from attnspec.problems.choices import Menu, is_lawful, menu_of
from attnspec.problems.demand import Demand, nearest_sizes
from attnspec.problems.domain import ANY_FAMILY, Domain
from attnspec.problems.make import model_width
from attnspec.problems.problem import Recipe, Sizes, count_logits, count_work
from attnspec.problems.size_plan import SizePlan, plan_for
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import FIXED_KINDS, Choices, deal_openings
from attnspec.trials.judging import Tally, Violated

COMPILED_OPENINGS = SHAPES
"""So many first cases of a trial are put to variants that compile.

In these, all keywords stand together once and each alone once, at sizes that clauses share. Later
cases are put to other variants alone.
"""


@dataclass
class Dealer:
    """Deals sizes to the clauses that one subject is put.

    checks: all checks of the spec, made when they are needed.  hurries: whether compilers have
    little time.
    """

    subject: Subject
    checks: Callable[[], Mapping[str, Check]]
    effort: Effort
    seed: int
    hurries: bool = False
    _demands: tuple[Demand, ...] | None = field(default=None, repr=False)

    def shapes(self, check: Check, dtype: DType,
               limits: Limits | None = None) -> tuple[Sizes, ...] | None:
        """The clause's sizes at a dtype; None where its kind of problem brings its own.

        A clause of another spec is dealt them alone.  limits: within which they lie; None: those
        that the subject declares.
        """
        if check.domain.kind in FIXED_KINDS:
            return None
        demand = check.demand(projects=self._projects)
        pool = tuple(each for each in self.demands if each.pool == demand.pool)
        demands = pool if demand in pool else (demand,)
        return self._plan(demands, dtype, limits or self.subject.declaration.limits).rows(demand)

    @property
    def demands(self) -> tuple[Demand, ...]:
        """The demands of all clauses for the subject whose cases are searched."""
        if self._demands is None:
            self._demands = tuple(dict.fromkeys(
                check.demand(projects=self._projects) for check in self.checks().values()
                if check.domain.kind not in FIXED_KINDS and not check.why_not_put(self.subject)))
        return self._demands

    def _plan(self, demands: tuple[Demand, ...], dtype: DType, limits: Limits) -> SizePlan:
        declaration = self.subject.declaration
        is_shared = declaration.has_compiled_variant or demands[0].pool == MADE
        flip_sizes = COMPILED_OPENINGS if is_shared else 0
        return plan_for(demands, limits, self.effort, self.seed, dtype,
                        compiles=declaration.is_compiled, flip_sizes=flip_sizes,
                        blocks=tuple(declaration.blocks.items()), hurries=self.hurries)

    @property
    def _projects(self) -> bool:
        return self.subject.declaration.kind is Kind.LAYER


LARGEST_ARRAYS = 2**26
"""Scores (B·H·T·S) up to which a problem has a mask or a bias, with an entry for each."""

DEFINITION_RELATION = "agrees_with_definition"


# The cases of a clause at sizes that a user names, and why it has none at others


@dataclass(frozen=True, slots=True)
class RequestedSizes:
    """Sizes that a user names.

    why_not: why the clause is not put at them; empty if it is.
    """

    sizes: Sizes
    why_not: str = ""


def is_of_one_call(check: Check) -> bool:
    """Whether a clause compares one call's answer with the definition: its cases may be large."""
    relations = [(step.bound.name, step.bound.values.get("observe")) for step in check.then]
    return (relations == [(DEFINITION_RELATION, "output")] and check.domain.kind == "attention"
            and not any(check.runs.values()) and check.domain.families == ANY_FAMILY
            and check.demand(projects=False).is_one_run)


def requested_sizes(check: Check, subject: Subject,
                    texts: Iterable[str]) -> tuple[RequestedSizes, ...]:
    """The sizes that these texts name, and those beside them, as the clause is put them."""
    if not is_of_one_call(check):
        return ()
    requested = dict[Sizes, RequestedSizes]()
    for text in texts:
        own = Sizes(**read_sizes(text))
        for each in (own, _sizes_beside_own(own, subject)):
            sizes = _with_head_groups(each, check.domain, subject)
            if sizes not in requested:
                why_not = _why_sizes_not_put(sizes, check, subject)
                requested[sizes] = RequestedSizes(sizes, why_not)
    return tuple(requested.values())


def _sizes_beside_own(own: Sizes, subject: Subject) -> Sizes:
    """Sizes with one more query and one more key, or as many more as the subject requires."""
    longer = Sizes(**sizes_beside(own.by_axis))
    least = {"T": longer.T, "S": longer.S}
    nearest = nearest_sizes(longer, subject.declaration.limits, is_square=own.T == own.S,
                            least=least)
    return replace(longer, T=nearest.T, S=nearest.S)


def _with_head_groups(sizes: Sizes, domain: Domain, subject: Subject) -> Sizes:
    """The sizes without groups of heads, unless clause and subject are about these."""
    limits = subject.declaration.limits
    grouping = Demand(domain).grouping(limits)
    is_grouped = grouping == "always" or (grouping == "maybe" and limits.grouped)
    if is_grouped:
        return sizes
    return replace(sizes, Hkv=sizes.H)


def _why_sizes_not_put(sizes: Sizes, check: Check, subject: Subject) -> str:
    """Why a clause is not put at these sizes; empty if it is."""
    arrays = check.domain.always & {"mask", "bias"}
    if subject.declaration.kind is Kind.LAYER:
        return f"{subject.id} is a layer, and layers are tested at drawn sizes only"
    if refusal := subject.refuses_sizes(sizes, check.domain.always):
        return refusal
    if not check.demand(projects=False).suits(sizes, subject.declaration.limits):
        return "the clause is about other sizes"
    if arrays and count_logits(sizes) > LARGEST_ARRAYS:
        return (f"a {min(arrays)} would have {count_logits(sizes):.1e} entries; up to "
                f"{LARGEST_ARRAYS:.1e} are made")
    return ""


def menu_at(check: Check, subject: Subject, sizes: Sizes) -> Menu:
    """What a case at these sizes is chosen from: the clause's keywords, and the causal flag."""
    limits = subject.declaration.limits
    takes_causal = limits.takes_lengths(sizes.T, sizes.S, causal=True)
    keywords = frozenset[str]()
    if takes_causal:
        keywords = subject.declaration.keywords & {"causal"}
    menu = menu_of(check.domain, keywords, limits, Effort.DEFAULT,
                   tuple(check.clause.draw), shapes=(sizes,))
    assert menu is not None  # it has a shape, whatever the effort
    return menu


def cases_at(menu: Menu, seed: int) -> Iterator[Choices]:
    """The cases with the causal flag and without; one case if the clause has no such flag."""
    yield from deal_openings(menu, seed, 1 + len(menu.optional))


MIN_SEEDS, MAX_SEEDS = 2, 8
"""A case holds after so many seeds; after more if it fails with some of them only."""

DEAREST_SHARE = 0.1
"""Sizes that cost a larger share of the work that is left are not put, except the failing ones."""

MISSED_SHARE = 0.01
"""The share of failing cases that may pass for holding ones."""

_OF_FIXED_SIZES = FIXED_KINDS - {"features"}
_HEAD_AXES, _LENGTH_AXES = frozenset({"B", "H", "Hkv", "G"}), frozenset({"T", "S", "T=S"})
_AXIS_PAIRS: Mapping[str, tuple[str, str]] = {"T=S": ("T", "S"), "D=Dv": ("D", "Dv")}


def length_along(sizes: Sizes, axis: str) -> int:
    """The length of an axis; G is H / Hkv, and T=S and D=Dv are two of one length."""
    if axis == "G":
        return sizes.H // sizes.Hkv
    value: int = getattr(sizes, _AXIS_PAIRS.get(axis, (axis,))[0])
    return value


def move_axis(sizes: Sizes, axis: str, value: int) -> Sizes:
    """Sizes with another length of one axis. Hkv and G keep each other; H moves Hkv along."""
    groups = sizes.H // sizes.Hkv
    if axis in {"Hkv", "H"}:
        return replace(sizes, Hkv=value, H=value * groups)
    if axis == "G":
        return replace(sizes, H=sizes.Hkv * value)
    return replace(sizes, **dict.fromkeys(_AXIS_PAIRS.get(axis, (axis,)), value))


def resize_recipe(recipe: Recipe, sizes: Sizes, domain: Domain, limits: Limits) -> Recipe | None:
    """The case at other sizes; None where the clause or the subject has no such problem.

    A problem of a kind whose sizes are part of what it is has no other sizes.
    """
    is_one = recipe.inputs == "one" and sizes.T != sizes.S
    is_fixed = domain.kind in _OF_FIXED_SIZES or is_one
    if is_fixed or _is_too_large(sizes) or not is_lawful(sizes, domain, limits):
        return None
    share = sizes.S / recipe.sizes.S
    return replace(recipe, sizes=sizes, families=recipe.families[: sizes.B * sizes.Hkv],
                   M=model_width(sizes, limits) if recipe.M else 0,
                   values={name: _scale_keyword_value(name, value, share)
                           for name, value in recipe.values.items()})


def _is_too_large(sizes: Sizes) -> bool:
    """Whether a recipe of these sizes could not be read back."""
    heads, width = sizes.B * sizes.H, max(sizes.D, sizes.Dv)
    entries = heads * max(sizes.T * sizes.S, (sizes.T + sizes.S) * width)
    return heads > MOST_HEADS or entries > MOST_ENTRIES


def _scale_keyword_value(keyword: str, value: Any, share: float) -> Any:  # noqa: ANN401  (by the keyword)
    """A value, scaled with the number of keys."""
    scale_value = EVERY_VALUED[keyword].scaled
    return scale_value(value, share) if scale_value else value


@dataclass(slots=True)
class Resizer:
    """Puts a failing case at other sizes, each sizes once, and remembers the verdicts.

    judge_recipe: the clause on one case.  max_sizes, work_left, seconds: at most so many sizes,
    multiply-adds and seconds. What fails in another way (an exception for a wrong answer) does not
    count as failing.  min_length: lengths and widths are made no smaller; the fewer entries an
    answer has, the easier a mistake hides.  any_family: whether a case with fewer heads fails if
    it fails with any family of entries, not only the first ones.
    """

    judge_recipe: Callable[[Recipe], Tally]
    recipe: Recipe
    domain: Domain
    limits: Limits
    max_sizes: int
    work_left: float
    seconds: float
    failure: type[Violated | SubjectRaised] = Violated
    min_length: int = 1
    tried_count: int = 0
    cases: int = 0
    known_sizes: dict[Sizes, bool] = field(default_factory=dict)
    failing_recipes: dict[Sizes, Recipe] = field(default_factory=dict)
    seeds: int = MIN_SEEDS
    any_family: bool = False
    _unknown_sizes: set[Sizes] = field(default_factory=set)
    _holding_counts: dict[Sizes, int] = field(default_factory=dict)
    _started_at: float = field(default_factory=time.monotonic)

    @property
    def is_spent(self) -> bool:
        """Whether no further sizes are put."""
        is_late = time.monotonic() - self._started_at > self.seconds
        return self.tried_count >= self.max_sizes or self.work_left <= 0 or is_late

    def fails(self, sizes: Sizes) -> bool | None:
        """Whether it fails there as well; None for no such problem, no claim, or no time."""
        if sizes in self.known_sizes and (
            self.known_sizes[sizes] or self._holding_counts[sizes] >= self._entries_enough(sizes)
            or self.is_spent):
            return self.known_sizes[sizes]
        is_dear = count_work(sizes) > self.work_left * DEAREST_SHARE and sizes != self.recipe.sizes
        if sizes in self._unknown_sizes or self.is_spent or is_dear:
            return None
        if self._make_recipe_at(sizes, 0) is None:
            self._unknown_sizes.add(sizes)
            return None
        self.tried_count += sizes not in self.known_sizes
        return self._try_sizes(sizes)

    def _try_sizes(self, sizes: Sizes) -> bool | None:
        """The same, with seeds that were not put yet."""
        enough = self._entries_enough(sizes)
        for number in range(self._holding_counts.get(sizes, 0), enough):
            tally = self._judge_case(sizes, number)
            if type(tally.failure) is self.failure:
                self.known_sizes[sizes] = True
                return True
            if tally.failure is None and tally.cases:
                self.known_sizes[sizes] = False
        self._holding_counts[sizes] = enough
        if sizes not in self.known_sizes:
            self._unknown_sizes.add(sizes)
        return self.known_sizes.get(sizes)

    @property
    def held_recipes(self) -> tuple[Recipe, ...]:
        """The cases that held, with all seeds that were put; the least work first."""
        holding = [sizes for sizes, fails in self.known_sizes.items() if not fails]
        recipes = (self._make_recipe_at(sizes, number) for sizes in sorted(holding, key=count_work)
                   for number in range(self._holding_counts[sizes]))
        return tuple(filter(None, recipes))

    def first_at(self, sizes: Sizes) -> Recipe | None:
        """The case at these sizes, as it is put first; None where there is no such problem."""
        return self._make_recipe_at(sizes, 0)

    def _make_recipe_at(self, sizes: Sizes, number: int) -> Recipe | None:
        """The case at these sizes with the seed of this number; None where there is no such
        problem.

        If there are more families of entries than heads, each comes first in turn, where any may:
        it is not known which of them fails.
        """
        families = self.recipe.families
        if self._drops_families(sizes):
            first = number % len(families)
            families = (*families[first:], *families[:first])
        recipe = resize_recipe(replace(self.recipe, families=families), sizes, self.domain,
                               self.limits)
        return recipe and replace(recipe, seed=(recipe.seed + number) % 2**24)

    def _entries_enough(self, sizes: Sizes) -> int:
        """With so many seeds a case at these sizes is put before it counts as holding."""
        return max(self.seeds, len(self.recipe.families) * self._drops_families(sizes))

    def _drops_families(self, sizes: Sizes) -> bool:
        return self.any_family and len(self.recipe.families) > sizes.B * sizes.Hkv

    def _judge_case(self, sizes: Sizes, number: int) -> Tally:
        """Judges the case at these sizes with the seed of this number."""
        if (recipe := self._make_recipe_at(sizes, number)) is None:
            return Tally()
        self.work_left -= count_work(sizes) if sizes != self.recipe.sizes else 0
        self.cases += 1
        tally = self.judge_recipe(recipe)
        if type(tally.failure) is self.failure:
            self.failing_recipes.setdefault(sizes, recipe)
        return tally

    def find_out_how_often(self, sizes: Sizes) -> None:
        """Sets a larger number of seeds, if at these sizes it fails with some of them only."""
        often = self.how_often(sizes, range(MAX_SEEDS // 2))
        share = min(often / (MAX_SEEDS // 2), 1 - MISSED_SHARE)
        self.seeds = MAX_SEEDS
        if share:
            enough = round(log(MISSED_SHARE) / log(1 - share))
            self.seeds = min(MAX_SEEDS, max(MIN_SEEDS, enough))

    def how_often(self, sizes: Sizes, numbers: range) -> int:
        """With how many of these seeds the case fails."""
        return sum(type(self._judge_case(sizes, number).failure) is self.failure
                   for number in numbers)

    def holds_by_chance(self, sizes: Sizes) -> bool:
        """Whether it fails with further seeds, though it held with the first ones."""
        fails = self.how_often(sizes, range(MAX_SEEDS, 2 * MAX_SEEDS)) > 0
        self.known_sizes[sizes] = self.known_sizes[sizes] or fails
        return fails

    def margins_of(self, sizes: Sizes, numbers: range) -> list[float]:
        """How far answers are off with each of these seeds, in units of the allowance.

        Those that are not measured are left out.
        """
        margins = []
        for number in numbers:
            tally = self._judge_case(sizes, number)
            worst = tally.worst
            if isinstance(tally.failure, Violated):
                worst = tally.failure.measured
            if worst:
                margins.append(worst.margin)
        return margins

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that can be moved, in the order in which they are made small: lengths last.

        Axes that have to be equal move together. Axes that happen to be equal move together first,
        and then each alone.
        """
        sizes = self.recipe.sizes
        return (*self._axes_of_pair("D=Dv"), "B", *self._head_axes(sizes),
                *self._axes_of_pair("T=S"))

    def _axes_of_pair(self, pair: str) -> tuple[str, ...]:
        sizes, (one, other) = self.recipe.sizes, _AXIS_PAIRS[pair]
        is_tied = {"D=Dv": self.limits.ties_value_width, "T=S": self._ties_lengths()}[pair]
        if is_tied:
            return (pair,)
        if length_along(sizes, one) == length_along(sizes, other):
            return (pair, one, other)
        return (one, other)

    def _ties_lengths(self) -> bool:
        limits, domain = self.limits, self.domain
        return (domain.lengths == "self" or domain.inputs == "one" or self.recipe.inputs == "one"
                or limits.self_attention_only or limits.lengths == "equal")

    def _head_axes(self, sizes: Sizes) -> tuple[str, ...]:
        if self.limits.single_head:
            return ()
        in_groups = replace(sizes, H=4, Hkv=2)
        if sizes.Hkv < sizes.H or is_lawful(in_groups, self.domain, self.limits):
            return ("G", "Hkv")
        return ("H",)

    def find_smallest(self) -> Sizes:
        """The smallest sizes at which it fails, axis after axis; twice, if that helps."""
        sizes = self._shrink_all_at_once(self.recipe.sizes)
        for _ in range(2):
            last_sizes = sizes
            without_groups = replace(sizes, Hkv=sizes.H)  # what needs many heads needs no groups
            if without_groups != sizes and self.fails(without_groups):
                sizes = without_groups
            for axis in self.axes:
                # two axes are moved together only where they are of one length
                lengths = {length_along(sizes, each) for each in _AXIS_PAIRS.get(axis, (axis,))}
                if len(lengths) == 1:
                    sizes = move_axis(sizes, axis, self._lowest_failing(sizes, axis))
            if sizes == last_sizes:
                break
        return sizes

    def _shrink_all_at_once(self, sizes: Sizes) -> Sizes:
        """Tries the least widths and heads together, else the least lengths: one put for many."""
        for are_lengths in (False, True):
            small = sizes
            for axis in self.axes:
                if (axis in _LENGTH_AXES) is are_lengths:
                    least = 1 if axis in _HEAD_AXES else self.min_length
                    small = move_axis(small, axis, min(length_along(small, axis), least))
            if small != sizes and self.fails(small):
                return small
        return sizes

    def _lowest_failing(self, sizes: Sizes, axis: str) -> int:
        """The least length of an axis that fails, with all else as it is.

        First the least there is, then one less; between them, where blocks end, by halves.
        """
        here = length_along(sizes, axis)
        first = 1 if axis in _HEAD_AXES else self.min_length
        least = next((value for value in range(first, min(here, first + 4))
                      if resize_recipe(self.recipe, move_axis(sizes, axis, value), self.domain,
                                       self.limits)), here)
        if here <= least or self.fails(move_axis(sizes, axis, least)):
            return least
        if here <= least + 1 or not self.fails(move_axis(sizes, axis, here - 1)):
            return here
        rungs = [least, *(rung for rung in rungs_below(here - 1) if rung > least), here - 1]
        holding, failing = self._bisect_axis(sizes, axis, rungs)
        return self._bisect_axis(sizes, axis, range(holding, failing + 1))[1]

    def _bisect_axis(self, sizes: Sizes, axis: str, values: range | list[int]) -> tuple[int, int]:
        """Two neighbours of these values: the first holds (or cannot be put), the second fails."""
        low, high = 0, len(values) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.fails(move_axis(sizes, axis, values[middle])):
                high = middle
            else:
                low = middle
        return values[low], values[high]


def rungs_below(value: int) -> list[int]:
    """1 to 4, and each further power of two with the number behind it, below `value`."""
    powers = [2**n for n in range(2, value.bit_length())]
    return [rung for rung in [1, 2, 3, *(p + d for p in powers for d in (0, 1))] if rung < value]
