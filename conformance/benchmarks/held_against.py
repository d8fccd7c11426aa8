"""Which parts of a first line the cases of its own run contradict: conditions on sizes, keywords, magnitudes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from attnspec.core.nouns import DType
from attnspec.diagnosis.locate import MAGNITUDES, Magnitude
from attnspec.diagnosis.whereabouts import shows_as_much
from attnspec.problems.make import RotaryProblem, make_problem
from attnspec.problems.problem import Problem, Recipe, join_past
from attnspec.record.boundaries import keywords_in, lengths_in, meets_condition, parts_of
from attnspec.spec.load import load_spec
from attnspec.vocabulary.scene import AnyProblem, Scene

HOLD_OUTPUT = {clause.id for clause in load_spec().clauses if clause.holds_output}
"""The clauses that hold the output of their very case against the definition."""

_WHERE = re.compile(r"[Ff]ails (?:only )?where |, where (?=.*`)")
_BUT = ", though not at every "
_LEFT_OUT = re.compile(r"right once (?P<keywords>[^(]+?) is left out")
_WITH = re.compile(r", with (?P<keywords>\w+(?: and \w+)*)")
_MAGNITUDE = re.compile(r"wrong where the largest (?P<what>\w+) is (?P<most>[\d.e+]+) or more")


@dataclass(frozen=True, slots=True)
class Posed:
    """One of the calls that a clause makes of a case: the lengths of its axes, and the keywords that are in use."""

    lengths: Mapping[str, int]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a run: its recipe, the dtype, the calls that were made of it as far as they are known, the clause.

    begins: of a failing case, where its own clause is seen to fail.
    """

    recipe: str
    dtype: DType
    calls: tuple[Posed, ...] = ()
    clause: str = ""
    begins: str = ""

    @property
    def every(self) -> tuple[Posed, ...]:
        """The calls; one as the recipe says where they are not known."""
        return self.calls or (Posed(lengths_in(self.recipe), tuple(keywords_in(self.recipe))),)

    def speaks_against(self, condition: str) -> bool:
        """Whether no call of it meets a condition on sizes."""
        return all(meets_condition(condition, each.lengths) is False for each in self.every)


def posed_calls(scene: Scene) -> tuple[Posed, ...]:
    """The calls of a scene, each once."""
    problems = [problem for run in scene.runs.values() for problem in (*run.before, *run.parts)]
    every = [Posed(whole(each).sizes.by_axis, tuple(sorted(each.keywords))) for each in problems]
    return tuple(each for at, each in enumerate(every) if each not in every[:at])


def whole(problem: AnyProblem) -> AnyProblem:
    """A problem with its past among its keys: lengths are told so."""
    return problem if isinstance(problem, RotaryProblem) or problem.past_key is None else problem.but(
        past_key=None, past_value=None, key=join_past(problem).key, value=join_past(problem).value)


def contradictions(words: str, failing: Sequence[Case], passing: Sequence[Case]) -> Iterator[str]:
    """What a first line says that a case of the run speaks against: `S ≥ 65, and S = 64 fails`."""
    found = _WHERE.search(words)
    begins = words[found.start():].partition(" (explains")[0] if found else ""
    if begins.startswith(", where "):  # of a fault with a name; what it needs
        begins = f"fails only where {begins.removeprefix(', where ').partition(' (`')[0]}"
    parts = parts_of(begins)
    for part in parts:
        if against := next((each for each in failing if each.speaks_against(part)), None):
            yield f"{part}, and {against.recipe} fails"
    is_needed_alone = begins.startswith(("fails only", "Fails only")) or _BUT in begins
    if parts and not is_needed_alone:
        yield from _that_hold(parts, failing, passing)
    yield from _without_condition(words, failing)
    yield from _smaller(words, failing)


def _that_hold(parts: Sequence[str], failing: Sequence[Case], passing: Sequence[Case]) -> Iterator[str]:
    """A case that meets all of it and holds, given as much as one that fails, of such entries, and as large: of one
    clause that says the same, or of two that hold the output of their cases against the definition. Another may
    ask less: a sum of values is passed on as a sum by heads that are mixed up, too.
    """
    for each in passing:
        held = Recipe.parse(each.recipe)
        is_there = all(meets_condition(part, held.sizes.by_axis) for part in parts)
        shown = [Recipe.parse(other.recipe) for other in failing if {other.clause, each.clause} <= HOLD_OUTPUT or (
            other.clause == each.clause and parts_of(other.begins) == tuple(parts))]
        if is_there and any(shows_as_much(held, other) for other in shown):
            yield f"{' and '.join(parts)}, and {each.recipe} holds"
            return


def _without_condition(words: str, failing: Sequence[Case]) -> Iterator[str]:
    """A case that fails without a keyword that is said to be needed."""
    named = [name for form in (_LEFT_OUT, _WITH) if (found := form.search(words))
             for name in re.split(r" (?:and|or) ", found["keywords"])]
    for name in named:
        against = [each for each in failing if not any(name in call.keywords for call in each.every)]
        if against and name.isidentifier():
            yield f"with {name}, and {against[0].recipe} fails"


def _smaller(words: str, failing: Sequence[Case]) -> Iterator[str]:
    """A case that fails though its numbers are smaller than those from which on it is said to fail."""
    found = _MAGNITUDE.search(words)
    knob = next((each for each in MAGNITUDES if found and each.name == found["what"]), None)
    if found and knob:
        for each in failing:
            if (size := _magnitude(knob, each)) is not None and size < 0.95 * float(found["most"]):  # told to 3 %
                yield f"{knob.name} {found['most']} or more, and {each.recipe} fails with {size:.3g}"
                return


def _magnitude(knob: Magnitude, case: Case) -> float | None:
    problem = make_problem(Recipe.parse(case.recipe), case.dtype)
    if not isinstance(problem, Problem):
        return None
    with np.errstate(all="ignore"):
        return knob.read_magnitude(problem)
