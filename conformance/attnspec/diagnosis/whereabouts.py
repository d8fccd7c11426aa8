"""Finds where the failures of a subject begin, and which entries are wrong.

A failure begins at lengths of axes, or at another number of the problem. Such a number is named
where it divides the failing cases of a search from the others, and no condition on lengths does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from attnspec.core.forms import EVERY_VALUED
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Effort
from attnspec.diagnosis.boundaries import describe_ranges, find_boundary, wrong_entries
from attnspec.diagnosis.conditions import Boundary, BoundaryCondition
from attnspec.numerics.operands import extra_over_lse
from attnspec.problems.domain import ANY_MASK, Domain
from attnspec.problems.keyword_arrays import slots_of_page
from attnspec.problems.problem import Problem, Recipe, Sizes, count_work
from attnspec.record.boundaries import (
    ConditionStanding,
    condition_standing,
    conditions_needed_alone,
    lengths_in,
    meets_condition,
    parts_of,
    weaken_boundary,
)
from attnspec.subjects.subject import SubjectRaised
from attnspec.trials.judging import Violated
from attnspec.trials.sizes import Resizer
from attnspec.trials.trial import Trial

LARGEST_REMADE_WORK = 2**22
"""Multiply-adds of a case beyond which it is not made anew to be measured."""

MOST_ALTERNATIVES = 8
"""At most so many other values of a keyword are tried."""

MOST_OTHER_CASES = 24
"""At most so many cases with other values are put; a search puts some sixty."""

LEAST_OF_EACH = 2
"""A number has a threshold only if at least so many of its values fail, and so many hold."""

WITH_EMPTY_ROWS = "with_empty_rows"


@dataclass(frozen=True, slots=True)
class ProblemNumber:
    """A number of a problem, with its name and how it is read; None where the problem has none.

    is_flag: it is 1 where the name, a sentence, is true, and 0 where `otherwise_text` is.
    """

    name: str
    read_number: Callable[[Problem], float | None]
    is_flag: bool = False
    otherwise_text: str = ""


@dataclass(frozen=True, slots=True)
class ProblemOutcome:
    """A problem that was put, and whether it failed."""

    problem: Problem
    fails: bool


def _last_place(problem: Problem) -> float | None:
    return problem.past + problem.query.shape[2] - 1 if problem.has_past else None


def _largest_reader(name: str) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        lengths = getattr(problem, name)
        return None if lengths is None else float(np.max(lengths))
    return read


def _keyword_reader(keyword: str,
                    number: Callable[[Any], float]) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        value = getattr(problem, keyword)
        return None if value is None else number(value)
    return read


def _slots_reader(multiple: int) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        pattern = problem.block_table
        if isinstance(pattern, str):
            return float(slots_of_page(pattern, problem.sizes.S, multiple))
        return None
    return read


def _empty_rows_reader(all_of_them: bool) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        if problem.mask is None:
            return None
        empty = ~np.asarray(problem.mask).any(axis=-1)
        return float(empty.all() if all_of_them else empty.any())
    return read


PROBLEM_NUMBERS = (
    ProblemNumber("no query sees a key", _empty_rows_reader(all_of_them=True), is_flag=True,
                  otherwise_text="some query sees one"),
    ProblemNumber("a query sees no key", _empty_rows_reader(all_of_them=False), is_flag=True,
                  otherwise_text="each query sees one"),
    ProblemNumber("P + i", _last_place),
    ProblemNumber("the largest key length", _largest_reader("key_lengths")),
    ProblemNumber("the largest query length", _largest_reader("query_lengths")),
    *(ProblemNumber(name, _keyword_reader(word.name, number))
      for word in KEYWORDS.values() for name, number in word.numbers.items()),
    ProblemNumber("sink - lse", extra_over_lse),
)
"""The first that divides the cases is named. P + i is the last query's place after a past."""


def restate_by_number(trial: Trial, resizer: Resizer, boundary: Boundary) -> Boundary:
    """The boundary in terms of a number that divides the cases, where lengths do not."""
    facts = [*_known_outcomes(trial, resizer),
             *_try_other_values(trial, resizer, boundary.smallest)]
    # nothing to divide, or lengths divide it already
    if (all(each.fails for each in facts)
        or (boundary.conditions and _is_divided(boundary.sentence, facts))):
        return boundary
    pages = ProblemNumber("the slots of a page",
                          _slots_reader(trial.evaluator.subject.declaration.limits.page_multiple))
    for variable in (*PROBLEM_NUMBERS, pages):
        if condition := find_number_condition(variable, facts):
            return replace(boundary, conditions=(condition,), holding_sizes=())
    return boundary


def _is_divided(begins: str, facts: Sequence[ProblemOutcome]) -> bool:
    """Whether all failing cases meet the conditions on lengths, and no other case does."""
    parts = parts_of(begins)
    for fact in facts:
        lengths = fact.problem.sizes.by_axis
        if all(meets_condition(part, lengths) is not False for part in parts) is not fact.fails:
            return False
    return True


def find_number_condition(variable: ProblemNumber,
                          facts: Sequence[ProblemOutcome]) -> BoundaryCondition | None:
    """The condition on a number that divides the facts.

    None where there is none, or too few values speak for it.
    """
    failing_values, holding_values = set[float](), set[float]()
    for fact in facts:
        value = variable.read_number(fact.problem)
        # a number that some of the cases do not have is none that decides
        if value is None:
            return None
        if fact.fails:
            failing_values.add(value)
        else:
            holding_values.add(value)
    failing, holding = sorted(failing_values), sorted(holding_values)
    if variable.is_flag:
        if failing == [1.0] and holding == [0.0]:
            return BoundaryCondition((), variable.name, f"sizes where {variable.otherwise_text}")
    elif len(failing) == 1 and len(holding) > LEAST_OF_EACH and failing[0] not in holding:
        # a single value that fails between others that hold
        if holding[0] < failing[0] < holding[-1]:
            nearest = min(holding, key=lambda value: abs(value - failing[0]))
            return _number_condition(variable, "=", failing[0], nearest)
    elif min(len(failing), len(holding)) >= LEAST_OF_EACH:
        # with one value on a side, any number divides the cases
        if holding[-1] < failing[0]:
            return _number_condition(variable, "≥", failing[0], holding[-1])
        if failing[-1] < holding[0]:
            return _number_condition(variable, "≤", failing[-1], holding[0])
    return None


def _number_condition(variable: ProblemNumber, sign: str, fails: float,
                      holds: float) -> BoundaryCondition:
    return BoundaryCondition((), f"{variable.name} {sign} {fails:.4g}",
                             f"{variable.name} = {holds:.4g}")


def _known_outcomes(trial: Trial, resizer: Resizer) -> Iterator[ProblemOutcome]:
    """The problems that the search has put."""
    for sizes, fails in resizer.known_sizes.items():
        recipe = resizer.failing_recipes.get(sizes) if fails else resizer.first_at(sizes)
        if recipe and (problem := _measurable(trial, recipe)):
            yield ProblemOutcome(problem, fails)


def _try_other_values(trial: Trial, resizer: Resizer, failing: Recipe) -> Iterator[ProblemOutcome]:
    """Puts the failing case with other values of its keywords."""
    for recipe in islice(_other_recipes(failing, trial.check.domain), MOST_OTHER_CASES):
        problem = _measurable(trial, recipe)
        if problem is None:
            continue
        # other entries: a case that holds with one seed may do so by chance
        other_seed = replace(recipe, seed=(recipe.seed + 1) % 2**24)
        tallies = [resizer.judge_recipe(each) for each in (recipe, other_seed)]
        if type(tallies[0].failure) is resizer.failure:
            yield ProblemOutcome(problem, fails=True)
        elif all(each.failure is None and each.cases for each in tallies):
            yield ProblemOutcome(problem, fails=False)


def _other_recipes(failing: Recipe, domain: Domain) -> Iterator[Recipe]:
    for name in sorted(EVERY_VALUED.keys() & failing.features):
        # what the clause draws from first: others may be none of its values
        values = dict.fromkeys((*domain.values.get(name, ()), *EVERY_VALUED[name].usual))
        others = [value for value in values if value != failing.value(name)]
        for value in others[:MOST_ALTERNATIVES]:
            yield replace(failing, values={**failing.values, name: value})
    if failing.mask != "none":
        # the clause's own masks first: others may be such as it does not speak of
        masks = dict.fromkeys((*domain.masks, *ANY_MASK, WITH_EMPTY_ROWS))
        for mask in list(masks)[:MOST_ALTERNATIVES]:
            if mask != failing.mask:
                yield replace(failing, mask=mask)


def _measurable(trial: Trial, recipe: Recipe) -> Problem | None:
    if count_work(recipe.sizes) > LARGEST_REMADE_WORK:
        return None
    problem = trial.evaluator.problem(recipe, trial.check.domain.poses)
    return problem if isinstance(problem, Problem) else None


COMPILING_FRAMEWORKS = frozenset({"jax"})
"""Frameworks that compile for every new shape."""

LEAST_LENGTH = 4
"""Lengths and widths are made no smaller: with fewer entries a mistake may happen not to show."""

MOST_HELD_CASES = 16
"""How many holding cases are kept beside a failing one; a fault that is wrong on one of them is not
the cause.
"""

ROOMY_LENGTH = 6
"""Lengths and widths at which ranges are described where they do not matter: enough to tell one
row from every row.
"""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What locating may cost: the failures of a subject, and the sizes, multiply-adds and seconds
    of each.

    compiled_sizes: how many sizes where each is compiled for.
    """

    failures: int
    sizes: int
    compiled_sizes: int
    work: float
    seconds: float


BRIEF_BUDGET, USUAL_BUDGET = SearchBudget(1, 40, 8, 1e8, 2.0), SearchBudget(4, 60, 20, 1e9, 8.0)
"""At a glance, and at other efforts. The work ends a search; seconds end one of slow calls."""


@dataclass(frozen=True, slots=True)
class FailurePlace:
    """Where a failure lies: the sizes at which it begins, and the entries that are wrong.

    begins: at which sizes it fails, in a sentence; "" where all are alike.  wrong: which entries
    of `case` are wrong, in a sentence; the case has room around the smallest sizes.  held_recipes:
    some that hold at other sizes.  smallest: the sizes at which the failure begins.
    """

    begins: str = ""
    wrong: str = ""
    case: Recipe | None = None
    held_recipes: tuple[Recipe, ...] = ()
    smallest: Sizes | None = None


NOWHERE = FailurePlace()
"""The place of a failure that was not located."""


def check_place(place: FailurePlace, failing: str, holding: Sequence[Recipe]) -> FailurePlace:
    """The place as the cases of the run bear it out.

    Its condition decides, or is needed but not enough, or is reduced to what the failing case
    meets.  failing: the recipe of the case that is shown.  holding: cases that hold; one speaks
    against a condition if it would show as much.
    """
    failing_recipe, lengths = Recipe.parse(failing), lengths_in(failing)
    passing = [lengths_in(each.text) for each in holding if shows_as_much(each, failing_recipe)]
    standing = condition_standing(place.begins, [lengths], passing)
    if standing is ConditionStanding.IS_NEEDED:
        return replace(place, begins=weaken_boundary(place.begins))
    if standing is ConditionStanding.DECIDES:
        return place
    # what is left are the conditions that the case which is shown meets
    needed = conditions_needed_alone(place.begins, [(lengths,)])
    return replace(place, begins=f"{needed[:1].upper()}{needed[1:]}." if needed else "")


def shows_as_much(recipe: Recipe, failing: Recipe) -> bool:
    """Whether a case would show a mistake that the failing case shows.

    It has the same keywords, the same kind of entries, and is as large along every axis. A bias of
    zeros shows few mistakes.
    """
    is_alike = (recipe.features, recipe.mask, recipe.bias, recipe.families) == (
        failing.features, failing.mask, failing.bias, failing.families)
    return is_alike and all(recipe.sizes.by_axis[axis] >= length
                            for axis, length in failing.sizes.by_axis.items())


@dataclass(slots=True)
class FailureLocator:
    """Locates the failures of one subject. Those that begin at the same sizes share a search."""

    _found_boundaries: list[Boundary] = field(default_factory=list)
    _search_count: int = 0

    def locate_failure(self, trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised],
                       *, searches: bool = True) -> FailurePlace:
        """Finds where the failure of a case begins. At a glance only the subject's first is
        located.

        searches: whether a new boundary is looked for where no known one is this failure's.
        """
        budget = BRIEF_BUDGET if trial.effort is Effort.GLANCE else USUAL_BUDGET
        if self._search_count >= budget.failures and trial.effort is Effort.GLANCE:
            return NOWHERE
        resizer = _resizer(trial, recipe, failure, budget)
        boundary = self._find_shared_boundary(resizer)
        if boundary is None and searches and self._search_count < budget.failures:
            self._search_count += 1
            boundary = find_boundary(resizer)
            if boundary and budget is USUAL_BUDGET:
                boundary = restate_by_number(trial, resizer, boundary)
            if boundary:
                self._found_boundaries.append(boundary)
        if boundary is None:
            return NOWHERE
        place = FailurePlace(boundary.sentence)
        if failure is Violated:
            place = _place_failure(trial, resizer, boundary)
        return replace(place, held_recipes=resizer.held_recipes[:MOST_HELD_CASES],
                       smallest=boundary.smallest.sizes)

    def weakened_boundary(self, failing: Sequence[str], holding: Sequence[Recipe]) -> str:
        """The weaker form of a known boundary that a holding case contradicts; or empty."""
        for boundary in self._found_boundaries:
            begins = boundary.sentence
            weaker = weaken_boundary(begins)
            if boundary.conditions and weaker != begins and any(
                    check_place(FailurePlace(begins), recipe, holding).begins == weaker
                    for recipe in failing):
                return weaker
        return ""

    def _find_shared_boundary(self, resizer: Resizer) -> Boundary | None:
        """The known boundary at which this failure begins, too."""
        for boundary in self._found_boundaries:
            is_comparable = boundary.holding_sizes or not boundary.conditions
            if is_comparable and (_fails_at_boundary(resizer, boundary)
                                  or _fails_across_boundary(resizer, boundary)):
                return boundary
        return None


def _fails_at_boundary(resizer: Resizer, boundary: Boundary) -> bool:
    """Whether the case fails at the smallest sizes of a boundary, and not beside them."""
    return bool(resizer.fails(boundary.smallest.sizes)) and all(
        resizer.fails(sizes) is False for sizes in boundary.holding_sizes)


def _fails_across_boundary(resizer: Resizer, boundary: Boundary) -> bool:
    """Whether the case's own sizes, moved to either side of a boundary, fail and hold likewise.

    A clause may have no case with the smallest sizes of the boundary.
    """
    failing = boundary.smallest.sizes.by_axis
    for holding_sizes in boundary.holding_sizes:
        holding = holding_sizes.by_axis
        differing = [axis for axis in failing if failing[axis] != holding[axis]]
        one, other = (replace(resizer.recipe.sizes, **{axis: side[axis] for axis in differing})
                      for side in (failing, holding))
        if not resizer.fails(one) or resizer.fails(other) is not False:
            return False
    return bool(boundary.holding_sizes)


def _resizer(trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised],
             budget: SearchBudget) -> Resizer:
    declaration, compiling = trial.evaluator.subject.declaration, trial.evaluator.compiling
    sizes, seconds = budget.sizes, budget.seconds
    # each size is a program, which takes longer to compile than a case to put
    if declaration.lift in COMPILING_FRAMEWORKS:
        sizes = budget.compiled_sizes
    if compiling:
        seconds = min(seconds, compiling.seconds_left)
    return Resizer(replace(trial, compiles=False).judge_recipe, recipe, trial.check.domain,
                   declaration.limits, sizes, budget.work, seconds, failure, LEAST_LENGTH,
                   any_family=True)


def _place_failure(trial: Trial, resizer: Resizer, boundary: Boundary) -> FailurePlace:
    """The place, with the wrong entries: `At B=2 …: rows 64 to 129 of every head.`"""
    for sizes in _sizes_with_room(boundary):
        recipe = resizer.failing_recipes.get(sizes) if resizer.fails(sizes) else None
        if recipe and (entries := wrong_entries(trial.scene(recipe))):
            ranges = describe_ranges(*entries)
            return FailurePlace(boundary.sentence, f"At {sizes}: {ranges}.", recipe)
    return FailurePlace(boundary.sentence)


def _sizes_with_room(boundary: Boundary) -> Iterator[Sizes]:
    """The smallest sizes with room; before and after that with those that matter doubled and as
    they are; then the smallest.
    """
    sizes = boundary.smallest.sizes
    groups = sizes.H // sizes.Hkv
    kv_heads = max(sizes.Hkv, 2)
    # two entries and heads: of one, a range could not be told from all
    roomy = Sizes(max(sizes.B, 2), kv_heads * groups, kv_heads,
                  *(max(each, ROOMY_LENGTH) for each in (sizes.T, sizes.S, sizes.D, sizes.Dv)))
    lengths = {axis for condition in boundary.conditions for axis in condition.axes
               if axis in {"T", "S", "D", "Dv"}}
    # wrong entries beyond a threshold show as a range only where some lie on either side of it
    yield replace(roomy, **{axis: 2 * getattr(roomy, axis) for axis in lengths})
    yield roomy
    yield replace(roomy, **{axis: getattr(sizes, axis) for axis in lengths})
    yield sizes
