"""All that the golden tests take from inside attnspec. Where a module is renamed, this file changes and no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from attnspec.cli.group import attnspec
from attnspec.core.conventions import CONVENTIONS
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.plan import Plan, is_own
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.faults.subject import own_ids, own_subject
from attnspec.numerics.expectation import ALL_PARTS, Expectation, expect, expect_layer
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.rotary import expect_rotary
from attnspec.problems.choices import menu_of
from attnspec.problems.domain import GENERIC_KINDS
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import LayerProblem, Problem, Recipe
from attnspec.record.outcome import Measured
from attnspec.spec.load import load_spec
from attnspec.subjects.registry import load_target, registered_subjects
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.covering_cases import deal_openings, fixed_recipes, seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, fit_to_domain
from attnspec.trials.searching import from_menu
from attnspec.trials.trial import Trial
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Scene
from evaluation.cli import evaluation
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

Named = Mapping[str, object]
"""Arrays, numbers and texts by name: what a digest is made of."""

RECOMMENDED = {name: convention.recommended for name, convention in CONVENTIONS.items()}
NO_CLAIM = "no claim"
OUTSIDE = "outside the limits"


@cache
def checks() -> Mapping[str, Check]:
    """Every clause that is shipped, compiled, by id."""
    return compile_spec(load_spec())


def clause_ids() -> list[str]:
    """The ids of all clauses, in their order."""
    return list(checks())


def dtypes() -> list[str]:
    """The names of all dtypes."""
    return [dtype.value for dtype in DType]


def efforts() -> list[str]:
    """The names of all efforts."""
    return [effort.value for effort in Effort]


def own_names() -> list[str]:
    """The ids of all faults and sound formulations."""
    return list(own_ids())


def subject_ids() -> list[str]:
    """The ids of all registered implementations, installed or not."""
    return list(registered_subjects())


def items(targets: Sequence[str], effort: str) -> Iterator[tuple[str, str, str]]:
    """Target, clause and dtype of all items that a run at this effort has; an item's id joins them by hyphens."""
    for item in Engine(Plan(tuple(targets), effort=Effort(effort))).items():
        assert item.id == f"{item.target}-{item.clause}-{item.dtype}"
        yield item.target, item.clause, item.dtype


@cache
def _subject(name: str) -> Subject:
    return own_subject(name) if is_own(name) else load_target(name, Surroundings())


@cache
def _evaluator(name: str, dtype: str) -> Evaluator:
    return Evaluator(_subject(name), DType(dtype))


def lacking(subject: str, clause: str) -> str:
    """Why the clause cannot be put to the subject; empty if it can."""
    return checks()[clause].why_not_put(_subject(subject))


def dealt(subject: str, clause: str, effort: str) -> list[str]:
    """The recipes that a trial begins with: those of a clause that is not searched, else half of an effort's cases."""
    check, declared = checks()[clause], _subject(subject).declaration
    seed = seed_of(0, check.domain)
    fixed = fixed_recipes(check.domain, declared.limits, Effort(effort), seed, declared.keywords)
    if fixed:
        return [recipe.text for recipe in fixed]
    menu = menu_of(check.domain, declared.keywords, declared.limits, Effort(effort), tuple(check.clause.draw))
    if menu is None:
        return []
    return [menu.recipe(*choices).text for choices in deal_openings(menu, seed, EFFORTS[Effort(effort)].openings)]


def drawn(subject: str, clause: str, effort: str, count: int) -> list[str]:
    """The recipes that Hypothesis draws for a clause that is searched."""
    check, declared = checks()[clause], _subject(subject).declaration
    menu = menu_of(check.domain, declared.keywords, declared.limits, Effort(effort), tuple(check.clause.draw))
    found: list[str] = []
    if menu is None:
        return found

    def note(recipe: Recipe) -> None:
        found.append(recipe.text)

    decide = settings(max_examples=count, database=None, deadline=None, phases=(Phase.generate,),
                      suppress_health_check=list(HealthCheck))
    with without_local_constants():
        seeded(seed_of(0, check.domain))(decide(given(recipe=from_menu(menu))(note)))()
    return found


@contextmanager
def without_local_constants() -> Iterator[None]:
    """Hypothesis draws one integer in twenty from the literals in whatever modules of a checkout are imported by then,
    and so other recipes wherever a module is moved, or before another test. That is no change of ours.
    """
    providers.CONSTANTS_CACHE.cache.clear()
    with patch.object(providers, "_get_local_constants", Constants):
        yield
    providers.CONSTANTS_CACHE.cache.clear()


class Case:
    """One case of one clause, put to a subject at one dtype as a trial at effort quick puts it."""

    def __init__(self, subject: str, clause: str, dtype: str, recipe: str) -> None:
        self._check, self._evaluator = checks()[clause], _evaluator(subject, dtype)
        trial = Trial(self._check, self._evaluator, Effort.QUICK, seed_of(0, self._check.domain), lambda _: None)
        self.without = ""
        """Why there is nothing to digest: nothing is claimed, or it lies outside the subject's limits."""
        self._scene: Scene | None = None
        try:
            self._scene = trial.scene(fit_to_domain(Recipe.parse(recipe), self._check.domain, self._evaluator))
        except NoClaim:
            self.without = NO_CLAIM
        except OutsideLimits:
            self.without = OUTSIDE

    def arrays(self) -> Named:
        """Everything that the subject is handed, run by run, call by call; and what was drawn beside it. Digests were
        recorded while rows of large cases could be sampled; all of them are judged now.
        """
        assert self._scene is not None
        return {**dict(self._problems()), "drawn": json.dumps(dict(self._scene.drawn), sort_keys=True),
                "rows": None}

    def _problems(self) -> Iterator[tuple[str, object]]:
        assert self._scene is not None
        for run, posed in self._scene.runs.items():
            yield f"{run} join", posed.join
            for at, back in enumerate(posed.back):
                yield f"{run} back {at} {back.axis}", np.asarray(back.index)
            for kind, parts in (("before", posed.before), ("part", posed.parts)):
                for at, problem in enumerate(parts):
                    yield from ((f"{run} {kind} {at} {name}", value) for name, value in _fields(problem))

    def expectations(self) -> tuple[Named, Named]:
        """What the definition answers to every part of every run, and the allowances beside it."""
        assert self._scene is not None
        truths: dict[str, object] = {}
        allowances: dict[str, object] = {}
        for run, posed in self._scene.runs.items():
            for at, problem in enumerate(posed.parts):
                try:
                    found = list(self._expect(problem))
                except ValueError as error:  # a layer whose heads do not divide its width, and that should refuse
                    found = [("none", type(error).__name__)]
                for name, array in found:
                    (allowances if _is_allowance(name) else truths)[f"{run} {at} {name}"] = array
        return truths, allowances

    def _expect(self, problem: Problem | LayerProblem | RotaryProblem) -> Iterable[tuple[str, object]]:
        assert self._scene is not None
        typical = {"typical"} if self._check.domain.kind in GENERIC_KINDS else set()
        if isinstance(problem, RotaryProblem):
            found = expect_rotary(problem, self._evaluator.precision, conventions=self._evaluator.conventions)
        elif isinstance(problem, LayerProblem):
            found = expect_layer(problem, self._evaluator.precision, conventions=self._evaluator.conventions)
        else:
            found = expect(problem, self._evaluator.precision, conventions=self._evaluator.conventions,
                           parts=ALL_PARTS | typical,
                           scale_width=self._evaluator.subject.scale_width(problem))
        return _arrays(found).items()

    def verdict(self) -> Named:
        """What each relation measures: margin, gap, allowance and place of the worst entry. No sentence: prose may
        change.
        """
        assert self._scene is not None
        found: dict[str, object] = {}
        try:
            for at, relation in enumerate(self._check.then):
                with np.errstate(all="ignore"):
                    found[str(at)] = _told(relation(self._scene, self._scene.drawn))
        except (NoClaim, OutsideLimits) as nothing:
            found["ends"] = type(nothing).__name__
        return found


def judging(subject: str, clause: str, dtype: str, recipe: str) -> Callable[[], float | None]:
    """What judges one case as a trial does, which has its recipe, before an evaluator that remembers nothing."""
    check, fresh = checks()[clause], Evaluator(_subject(subject), DType(dtype))
    trial = Trial(check, fresh, Effort.QUICK, seed_of(0, check.domain), lambda _: None)

    return partial(trial.judge, Recipe.parse(recipe), Tally())


def judge(subject: str, clause: str, dtype: str, recipe: str) -> None:
    """Judge one case."""
    judging(subject, clause, dtype, recipe)()


def _told(measured: Measured) -> str:
    return repr((measured.relation, *(float(value) for value in (
        measured.margin, measured.gap, measured.allowance, measured.seen, measured.expected)),
        tuple(measured.index), measured.entries, measured.claimed, measured.wrong))


def _is_allowance(name: str) -> bool:
    return "allowance" in name or name.startswith("typical")


def _fields(problem: Problem | LayerProblem | RotaryProblem) -> Iterator[tuple[str, object]]:
    """What a problem holds, by the keyword's name; keywords that are not in use are left out."""
    for field in fields(problem):
        value = getattr(problem, field.name)
        if field.name == "params":
            yield from ((f"params {name}", array) for name, array in value.items())
        elif field.name == "dtype":
            yield "dtype", value.value
        elif value is not None and value is not False:
            yield field.name, value


def problem_of(recipe: str, dtype: str) -> Problem:
    """The problem of a recipe, put to no subject."""
    found = _evaluator("numpy/attention", dtype).problem(replace(Recipe.parse(recipe), drawn={}), Kind.ATTENTION)
    assert isinstance(found, Problem)
    return found


def bounds(
    recipe: str, dtype: str, precision: Mapping[str, Any], conventions: Mapping[str, str],
) -> tuple[Named, Named]:
    """Truth and allowances of one recipe under a class of arithmetic and answers to the conventions."""
    found = expect(problem_of(recipe, dtype), declared_precision(precision, DType(dtype)),
                   conventions={**RECOMMENDED, **conventions}, parts=ALL_PARTS | {"typical"})
    named = _arrays(found)
    return ({name: array for name, array in named.items() if not _is_allowance(name)},
            {name: array for name, array in named.items() if _is_allowance(name)})


def _arrays(expected: Expectation) -> dict[str, object]:
    return {field.name: value for field in fields(expected)
            if isinstance(value := getattr(expected, field.name), np.ndarray)}


def commands() -> Mapping[str, list[str]]:
    """By command, its arguments and options: names, how often, whether they take a value, their choices."""
    return {**dict(_commands(attnspec)), **{f"evaluation {name}": found for name, found in _commands(evaluation)}}


def _commands(group: click.Group) -> Iterator[tuple[str, list[str]]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            if command := group.get_command(context, name):
                yield name, [_parameter(each) for each in command.params]


def _parameter(each: click.Parameter) -> str:
    choices = "|".join(map(str, getattr(each.type, "choices", ()) or ()))
    marks = [" ".join((*each.opts, *each.secondary_opts)), each.param_type_name,
             "flag" if getattr(each, "is_flag", False) else "",
             "multiple" if each.multiple or each.nargs == -1 else "", "required" if each.required else "", choices]
    return ", ".join(filter(None, marks))
