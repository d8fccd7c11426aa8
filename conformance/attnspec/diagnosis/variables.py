"""Numbers of a problem, beside the lengths of its axes, that may decide whether it is answered rightly.

The cases that a search has put, and the failing one with other values of its keywords, are measured. A number is told
where it divides all that fail from all that hold, and no condition on lengths does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from attnspec.core.keywords import KEYWORDS
from attnspec.core.rotary import EVERY_VALUED
from attnspec.diagnosis.boundary import Boundary, BoundaryCondition
from attnspec.numerics.sinks import sink_over_lse
from attnspec.problems.demand import work
from attnspec.problems.domain import ANY_MASK, Domain
from attnspec.problems.problem import Problem
from attnspec.problems.recipe import Recipe
from attnspec.record.contradictions import meets, parts_of
from attnspec.subjects.paged import slots_of_page
from attnspec.trials.resizing import Resizer
from attnspec.trials.trial import Trial

LARGEST = 2**22
"""Multiply-adds of a case beyond which it is not made anew to be measured."""

ALTERNATIVES = 8
"""So many other values of a keyword are tried at most."""

MOST = 24
"""So many cases with other values are put at most: a search puts some sixty."""

FEW = 2
"""Of a number that has a threshold, so many different ones fail, and so many hold, at least."""

WITH_EMPTY_ROWS = "with_empty_rows"


@dataclass(frozen=True, slots=True)
class Variable:
    """A number of a problem: what it is called, and how it is read; None where the problem has none.

    is_flag: it is 1 where the name, a sentence, is true, and 0 where `otherwise` is.
    """

    name: str
    read: Callable[[Problem], float | None]
    is_flag: bool = False
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A problem that was put, and whether it failed."""

    problem: Problem
    fails: bool


def _last_place(problem: Problem) -> float | None:
    return problem.past + problem.query.shape[2] - 1 if problem.has_past else None


def _largest_of(name: str) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        lengths = getattr(problem, name)
        return None if lengths is None else float(np.max(lengths))
    return read


def _number_of(keyword: str, number: Callable[[Any], float]) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        value = getattr(problem, keyword)
        return None if value is None else number(value)
    return read


def _slots(multiple: int) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        pattern = problem.block_table
        return float(slots_of_page(pattern, problem.sizes.S, multiple)) if isinstance(pattern, str) else None
    return read


def _sees_no_key(all_of_them: bool) -> Callable[[Problem], float | None]:
    def read(problem: Problem) -> float | None:
        if problem.mask is None:
            return None
        empty = ~np.asarray(problem.mask).any(axis=-1)
        return float(empty.all() if all_of_them else empty.any())
    return read


VARIABLES = (
    Variable("no query sees a key", _sees_no_key(all_of_them=True), is_flag=True, otherwise="some query sees one"),
    Variable("a query sees no key", _sees_no_key(all_of_them=False), is_flag=True, otherwise="each query sees one"),
    Variable("P + i", _last_place),
    Variable("the largest key length", _largest_of("key_lengths")),
    Variable("the largest query length", _largest_of("query_lengths")),
    *(Variable(name, _number_of(word.name, number))
      for word in KEYWORDS.values() for name, number in word.numbers.items()),
    Variable("sink - lse", sink_over_lse),
)
"""In this order: the first that divides the cases is told. P + i is the place of the last query behind a past."""


def with_variables(trial: Trial, resizer: Resizer, boundary: Boundary) -> Boundary:
    """The boundary in the variable that divides the cases which fail from those which hold, where lengths do not."""
    facts = [*_facts_of(trial, resizer), *_alternatives(trial, resizer, boundary.smallest)]
    if all(each.fails for each in facts) or (boundary.told and _divide(boundary.sentence, facts)):
        return boundary
    pages = Variable("the slots of a page", _slots(trial.evaluator.subject.declaration.limits.page_multiple))
    told = next(filter(None, (condition_on(variable, facts) for variable in (*VARIABLES, pages))), None)
    return replace(boundary, told=(told,), outside=()) if told else boundary


def _divide(begins: str, facts: Sequence[Fact]) -> bool:
    """Whether the conditions on lengths are met by all that fail, and by none that hold."""
    parts = parts_of(begins)
    return all(all(meets(part, each.problem.sizes.by_axis) is not False for part in parts) is each.fails
               for each in facts)


def condition_on(variable: Variable, facts: Sequence[Fact]) -> BoundaryCondition | None:
    """The condition on a variable that divides the facts; None where there is none, or too few speak for it."""
    read = [(value, each.fails) for each in facts if (value := variable.read(each.problem)) is not None]
    failing, holding = (sorted({value for value, fails in read if fails is which}) for which in (True, False))
    if len(read) < len(facts) or not failing or not holding:
        return None
    if variable.is_flag:
        is_so = failing == [1.0] and holding == [0.0]
        return BoundaryCondition((), variable.name, f"sizes where {variable.otherwise}") if is_so else None
    if len(failing) == 1 and len(holding) > FEW and failing[0] not in holding:
        nearest = min(holding, key=lambda value: abs(value - failing[0]))
        return _condition(variable, "=", failing[0], nearest) if holding[0] < failing[0] < holding[-1] else None
    if min(len(failing), len(holding)) < FEW:
        return None
    if holding[-1] < failing[0]:
        return _condition(variable, "≥", failing[0], holding[-1])
    return _condition(variable, "≤", failing[-1], holding[0]) if failing[-1] < holding[0] else None


def _condition(variable: Variable, sign: str, fails: float, holds: float) -> BoundaryCondition:
    return BoundaryCondition((), f"{variable.name} {sign} {fails:.4g}", f"{variable.name} = {holds:.4g}")


def _facts_of(trial: Trial, resizer: Resizer) -> Iterator[Fact]:
    """What the search has put."""
    for sizes, fails in resizer.known.items():
        recipe = resizer.failing.get(sizes) if fails else resizer.first_at(sizes)
        if recipe and (problem := _measurable(trial, recipe)):
            yield Fact(problem, fails)


def _alternatives(trial: Trial, resizer: Resizer, failing: Recipe) -> Iterator[Fact]:
    """The failing case with other values of the keywords that it is given."""
    for recipe in islice(_others(failing, trial.check.domain), MOST):
        problem = _measurable(trial, recipe)
        if problem is None:
            continue
        again = replace(recipe, seed=(recipe.seed + 1) % 2**24)
        tallies = [resizer.put(each) for each in (recipe, again)]
        if type(tallies[0].failure) is resizer.failure:
            yield Fact(problem, fails=True)
        elif all(each.failure is None and each.cases for each in tallies):
            yield Fact(problem, fails=False)


def _others(failing: Recipe, domain: Domain) -> Iterator[Recipe]:
    for name in sorted(EVERY_VALUED.keys() & failing.features):
        values = dict.fromkeys((*domain.values.get(name, ()), *EVERY_VALUED[name].usual))
        others = [value for value in values if value != failing.value(name)]
        yield from (replace(failing, values={**failing.values, name: value}) for value in others[:ALTERNATIVES])
    if failing.mask != "none":
        masks = dict.fromkeys((*domain.masks, *ANY_MASK, WITH_EMPTY_ROWS))
        yield from (replace(failing, mask=name) for name in list(masks)[:ALTERNATIVES] if name != failing.mask)


def _measurable(trial: Trial, recipe: Recipe) -> Problem | None:
    if work(recipe.sizes) > LARGEST:
        return None
    problem = trial.evaluator.problem(recipe, trial.check.domain.poses)
    return problem if isinstance(problem, Problem) else None
