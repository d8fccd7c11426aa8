"""Finds where the failures of a subject begin, and which entries are wrong: what a finding says
first.

A failure begins at lengths of axes, or at another number of the problem. Such a number is told
where it divides the cases that fail from those that hold, among all that a search has put, and no
condition on lengths does.
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
"""So many other values of a keyword are tried at most."""

MOST_OTHER_CASES = 24
"""So many cases with other values are put at most: a search puts some sixty."""

LEAST_OF_EACH = 2
"""Of a number that has a threshold, so many different ones fail, and so many hold, at least."""

WITH_EMPTY_ROWS = "with_empty_rows"


@dataclass(frozen=True, slots=True)
class ProblemNumber:
    """A number of a problem: what it is called, and how it is read; None where the problem has
    none.

    is_flag: it is 1 where the name, a sentence, is true, and 0 where `otherwise` is.
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
"""In this order: the first that divides the cases is told. P + i is the place of the last query
behind a past.
"""


def restate_by_number(trial: Trial, resizer: Resizer, boundary: Boundary) -> Boundary:
    """The boundary in the variable that divides the cases which fail from those which hold, where
    lengths do not.
    """
    facts = [*_known_outcomes(trial, resizer),
             *_try_other_values(trial, resizer, boundary.smallest)]
    # nothing to divide, or lengths divide it already
    if (all(each.fails for each in facts)
        or (boundary.conditions and _is_divided(boundary.sentence, facts))):
        return boundary
    pages = ProblemNumber("the slots of a page",
                          _slots_reader(trial.evaluator.subject.declaration.limits.page_multiple))
    told = next(filter(None,
                       (find_number_condition(variable, facts)
                        for variable in (*PROBLEM_NUMBERS, pages))), None)
    return replace(boundary, conditions=(told,), holding_sizes=()) if told else boundary


def _is_divided(begins: str, facts: Sequence[ProblemOutcome]) -> bool:
    """Whether the conditions on lengths are met by all that fail, and by none that hold."""
    parts = parts_of(begins)
    return all(all(meets_condition(part, each.problem.sizes.by_axis) is not False
                   for part in parts) is each.fails
               for each in facts)


def find_number_condition(variable: ProblemNumber,
                          facts: Sequence[ProblemOutcome]) -> BoundaryCondition | None:
    """The condition on a variable that divides the facts; None where there is none, or too few
    speak for it.
    """
    read = [(value, each.fails) for each in facts
            if (value := variable.read_number(each.problem)) is not None]
    failing = sorted({value for value, fails in read if fails})
    holding = sorted({value for value, fails in read if not fails})
    # a number that some of the cases do not have is none that decides
    if len(read) < len(facts) or not failing or not holding:
        return None
    told: BoundaryCondition | None = None
    if variable.is_flag:
        if failing == [1.0] and holding == [0.0]:
            told = BoundaryCondition((), variable.name, f"sizes where {variable.otherwise_text}")
    elif len(failing) == 1 and len(holding) > LEAST_OF_EACH and failing[0] not in holding:
        # a single value that fails between others that hold
        if holding[0] < failing[0] < holding[-1]:
            nearest = min(holding, key=lambda value: abs(value - failing[0]))
            told = _number_condition(variable, "=", failing[0], nearest)
    elif min(len(failing), len(holding)) >= LEAST_OF_EACH:
        # with one value on a side, any number divides the cases
        if holding[-1] < failing[0]:
            told = _number_condition(variable, "≥", failing[0], holding[-1])
        elif failing[-1] < holding[0]:
            told = _number_condition(variable, "≤", failing[-1], holding[0])
    return told


def _number_condition(variable: ProblemNumber, sign: str, fails: float,
                      holds: float) -> BoundaryCondition:
    return BoundaryCondition((), f"{variable.name} {sign} {fails:.4g}",
                             f"{variable.name} = {holds:.4g}")


def _known_outcomes(trial: Trial, resizer: Resizer) -> Iterator[ProblemOutcome]:
    """What the search has put."""
    for sizes, fails in resizer.known_sizes.items():
        recipe = resizer.failing_recipes.get(sizes) if fails else resizer.first_at(sizes)
        if recipe and (problem := _measurable(trial, recipe)):
            yield ProblemOutcome(problem, fails)


def _try_other_values(trial: Trial, resizer: Resizer, failing: Recipe) -> Iterator[ProblemOutcome]:
    """The failing case with other values of the keywords that it is given."""
    for recipe in islice(_other_recipes(failing, trial.check.domain), MOST_OTHER_CASES):
        problem = _measurable(trial, recipe)
        if problem is None:
            continue
        # other entries: a case that holds with one seed may do so by chance
        again = replace(recipe, seed=(recipe.seed + 1) % 2**24)
        tallies = [resizer.judge_recipe(each) for each in (recipe, again)]
        if type(tallies[0].failure) is resizer.failure:
            yield ProblemOutcome(problem, fails=True)
        elif all(each.failure is None and each.cases for each in tallies):
            yield ProblemOutcome(problem, fails=False)


def _other_recipes(failing: Recipe, domain: Domain) -> Iterator[Recipe]:
    for name in sorted(EVERY_VALUED.keys() & failing.features):
        # what the clause draws from first: others may be none of its values
        values = dict.fromkeys((*domain.values.get(name, ()), *EVERY_VALUED[name].usual))
        others = [value for value in values if value != failing.value(name)]
        yield from (replace(failing, values={**failing.values, name: value})
                    for value in others[:MOST_ALTERNATIVES])
    if failing.mask != "none":
        # the clause's own masks first: others may be such as it does not speak of
        masks = dict.fromkeys((*domain.masks, *ANY_MASK, WITH_EMPTY_ROWS))
        yield from (replace(failing, mask=name) for name in list(masks)[:MOST_ALTERNATIVES]
                    if name != failing.mask)


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
"""So many cases that hold beside a failing one are remembered: a fault that fails there is not
behind it.
"""

ROOMY_LENGTH = 6
"""Lengths and widths at which ranges are told, where they do not matter: enough to tell one row
from every row.
"""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What locating may cost: so many failures of a subject, and each so many sizes, multiply-adds
    and seconds.

    compiled_sizes: how many where each is compiled for.
    """

    failures: int
    sizes: int
    compiled_sizes: int
    work: float
    seconds: float


BRIEF_BUDGET, USUAL_BUDGET = SearchBudget(1, 40, 8, 1e8, 2.0), SearchBudget(4, 60, 20, 1e9, 8.0)
"""At a glance, and at every other effort. The work stops a search; seconds stop one of slow calls."""


@dataclass(frozen=True, slots=True)
class FailurePlace:
    """Where a failure lies: the sizes at which it begins, and the entries that are wrong.

    begins: at which sizes it fails, in a sentence; "" where all are alike.  wrong: which entries,
    in a sentence.  case: the failing case of which that is told, with room around the smallest.
    held_recipes: some that hold at other sizes.  smallest: the sizes at which it is told to begin.
    """

    begins: str = ""
    wrong: str = ""
    case: Recipe | None = None
    held_recipes: tuple[Recipe, ...] = ()
    smallest: Sizes | None = None


NOWHERE = FailurePlace()
"""Of a failure that was not located."""


def check_place(place: FailurePlace, failing: str, held: Sequence[Recipe]) -> FailurePlace:
    """The place as the cases of the run bear it out: as told, as needed but not enough, or with no
    boundary.

    failing: the recipe of the case that is shown. A case that holds speaks against it if it would
    show as much.
    """
    shown = Recipe.parse(failing)
    passing = [lengths_in(each.text) for each in held if shows_as_much(each, shown)]
    found = condition_standing(place.begins, [lengths_in(failing)], passing)
    if found is ConditionStanding.IS_NEEDED:
        return replace(place, begins=weaken_boundary(place.begins))
    if found is ConditionStanding.DECIDES:
        return place
    return replace(place, begins=_what_is_left(place.begins, failing))


def shows_as_much(held: Recipe, shown: Recipe) -> bool:
    """Whether a case would show a mistake that another shows: it is given the same, of such
    entries, and as large along every axis. A bias of zeros shows few mistakes.
    """
    is_alike = (held.features, held.mask, held.bias, held.families) == (
        shown.features, shown.mask, shown.bias, shown.families)
    return (is_alike
            and all(held.sizes.by_axis[axis] >= length
                    for axis, length in shown.sizes.by_axis.items()))


def _what_is_left(begins: str, failing: str) -> str:
    """The conditions that the case which is shown meets, as a sentence; empty where it meets none."""
    left = conditions_needed_alone(begins, [(lengths_in(failing),)])
    return f"{left[:1].upper()}{left[1:]}." if left else ""


@dataclass(slots=True)
class FailureLocator:
    """Locates the failures of one subject; failures that begin at the same sizes share what was
    found out.
    """

    _found_boundaries: list[Boundary] = field(default_factory=list)
    _search_count: int = 0

    def locate_failure(self, trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised],
                       *, searches: bool = True) -> FailurePlace:
        """Finds where the failure of this case sits. At a glance only the subject's first is
        looked into.

        searches: whether a boundary is looked for where none that is known is this one's.
        """
        patience = BRIEF_BUDGET if trial.effort is Effort.GLANCE else USUAL_BUDGET
        if self._search_count >= patience.failures and trial.effort is Effort.GLANCE:
            return NOWHERE
        resizer = _resizer(trial, recipe, failure, patience)
        boundary = self._find_shared_boundary(resizer)
        if boundary is None and searches and self._search_count < patience.failures:
            self._search_count += 1
            boundary = find_boundary(resizer)
            boundary = restate_by_number(trial, resizer,
                                         boundary) if boundary and patience is USUAL_BUDGET else boundary
            self._found_boundaries += [boundary] if boundary else []
        if boundary is None:
            return NOWHERE
        if failure is Violated:
            place = _place_failure(trial, resizer, boundary)
        else:
            place = FailurePlace(boundary.sentence)
        return replace(place, held_recipes=resizer.held_recipes[:MOST_HELD_CASES],
                       smallest=boundary.smallest.sizes)

    def weakened_boundary(self, failing: Sequence[str], held: Sequence[Recipe]) -> str:
        """What was told of where failures begin, as what is needed alone, where a case that holds
        speaks against it; empty if none does.
        """
        told = [known.sentence for known in self._found_boundaries if known.conditions]
        return next((weaken_boundary(begins) for begins in told for recipe in failing
                     if check_place(FailurePlace(begins), recipe, held).begins
                     == weaken_boundary(begins) != begins), "")

    def _find_shared_boundary(self, resizer: Resizer) -> Boundary | None:
        """What is known already, if this failure too is there, and not beside it."""
        told = (each for each in self._found_boundaries if each.holding_sizes
                or not each.conditions)
        return next((each for each in told if _fails_as_known(resizer, each)
                     or _fails_alike_here(resizer, each)), None)


def _fails_as_known(resizer: Resizer, known: Boundary) -> bool:
    """Whether a case fails at the smallest sizes of a boundary, and not beside them."""
    fails = resizer.fails
    return (bool(fails(known.smallest.sizes))
            and all(fails(outside) is False for outside in known.holding_sizes))


def _fails_alike_here(resizer: Resizer, known: Boundary) -> bool:
    """The same of the case's own sizes but for what differs there: a clause may not have its
    smallest sizes.
    """
    sizes, inside = resizer.recipe.sizes, known.smallest.sizes
    pairs = [(_take_side(sizes, inside, outside, inside),
              _take_side(sizes, inside, outside, outside))
             for outside in known.holding_sizes]
    return (bool(pairs)
            and all(resizer.fails(one) and resizer.fails(other) is False for one, other in pairs))


def _take_side(sizes: Sizes, inside: Sizes, outside: Sizes, which: Sizes) -> Sizes:
    """Sizes with those of one side of a boundary where both sides differ."""
    differing = inside.by_axis.items() - outside.by_axis.items()
    return replace(sizes, **{axis: which.by_axis[axis] for axis, _ in differing})


def _resizer(trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised],
             patience: SearchBudget) -> Resizer:
    quiet, subject = replace(trial, compiles=False), trial.evaluator.subject
    # each size is a program, which takes longer to compile than a case to put
    if subject.declaration.lift in COMPILING_FRAMEWORKS:
        sizes = patience.compiled_sizes
    else:
        sizes = patience.sizes
    compiling = trial.evaluator.compiling
    seconds = min(patience.seconds, compiling.seconds_left) if compiling else patience.seconds
    return Resizer(quiet.judge_recipe, recipe, trial.check.domain, subject.declaration.limits,
                   sizes, patience.work, seconds, failure, LEAST_LENGTH, any_family=True)


def _place_failure(trial: Trial, resizer: Resizer, boundary: Boundary) -> FailurePlace:
    """With the wrong entries at sizes with room around the smallest: `At B=2 …: rows 64 to 129 of
    every head.`
    """
    for sizes in _sizes_with_room(boundary):
        recipe = resizer.failing_recipes.get(sizes) if resizer.fails(sizes) else None
        found = wrong_entries(trial.scene(recipe)) if recipe else None
        if found:
            return FailurePlace(boundary.sentence, f"At {sizes}: {describe_ranges(*found)}.",
                                recipe)
    return FailurePlace(boundary.sentence)


def _sizes_with_room(boundary: Boundary) -> Iterator[Sizes]:
    """The sizes that matter twice as large and the others with room; those with room alone; the
    others alone with room; the smallest.
    """
    sizes = boundary.smallest.sizes
    matter = {axis for told in boundary.conditions for axis in told.axes}
    groups = sizes.H // sizes.Hkv
    kv_heads = max(sizes.Hkv, 2)
    # two entries and heads: of one, a range could not be told from all
    roomy = Sizes(max(sizes.B, 2), kv_heads * groups, kv_heads,
                  *(max(each, ROOMY_LENGTH) for each in (sizes.T, sizes.S, sizes.D, sizes.Dv)))
    lengths = [axis for axis in ("T", "S", "D", "Dv") if axis in matter]
    # wrong entries beyond a threshold show as a range only where some lie on either side of it
    twice = {axis: 2 * getattr(roomy, axis) for axis in lengths}
    kept = {axis: getattr(sizes, axis) for axis in lengths}
    yield from (replace(roomy, **twice), roomy, replace(roomy, **kept), sizes)
