"""What stands in a record for what failed."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.nouns import Effort, Level
from attnspec.core.sizes import spelled
from attnspec.diagnosis.whereabouts import FailurePlace
from attnspec.engine.cases import in_a_line
from attnspec.engine.pictures import drawn_of, drawn_with_room
from attnspec.problems.demand import work
from attnspec.problems.recipe import Recipe
from attnspec.problems.size_plan import MOST
from attnspec.record.outcome import Evidence
from attnspec.subjects.subject import SubjectDied
from attnspec.trials.judging import Failure, Violated
from attnspec.trials.trial import Trial
from attnspec.vocabulary.scene import NoClaim


def evidence_of(trial: Trial, failure: Failure, last: Recipe | None) -> Evidence:
    """The failing case, with its pictures, or how the call ended. last: the case that it was, if there was one."""
    if isinstance(failure, Violated):
        drawn = drawn_of(trial, failure.recipe)
        return Evidence(failure.measured.sentence, in_a_line(trial, failure.recipe), failure.recipe.text,
                        failure.measured, drawn.pictures, caption=drawn.caption,
                        calls=calls_at_other_sizes(trial, failure.recipe))
    told = (in_a_line(trial, last), last.text) if last else ("", "")
    stderr = failure.stderr if isinstance(failure, SubjectDied) else ""
    return Evidence(str(failure), *told, traceback=failure.traceback, stderr=stderr,
                    calls=calls_at_other_sizes(trial, last) if last else ())


def calls_at_other_sizes(trial: Trial, recipe: Recipe) -> tuple[str, ...]:
    """The sizes of the calls that the clause makes of a case, each once; none where all have the sizes of the case."""
    try:
        scene, own = trial.scene(recipe), trial.evaluator.problem(recipe, trial.check.domain.poses)
    except NoClaim:  # a case that is drawn too small for what the clause makes of it
        return ()
    sizes = {problem.sizes: None for run in scene.runs.values() for problem in (*run.before, *run.parts)}
    return tuple(spelled(each.by_axis) for each in sizes) if sizes.keys() - {own.sizes} else ()


def placed(trial: Trial, evidence: Evidence, place: FailurePlace) -> Evidence:
    """The evidence with where it fails, drawn where there is room."""
    located = replace(evidence, begins=place.begins, wrong=place.wrong)
    try:
        drawn = drawn_with_room(trial, place.case, Recipe.parse(evidence.recipe))
    except Exception:  # a help, as the diagnosis is
        return located
    return replace(located, pictures=drawn.pictures, caption=drawn.caption) if drawn.pictures else located


def is_worth_explaining(trial: Trial, evidence: Evidence, *, is_further: bool) -> bool:
    """Whether faults are looked for that are like a failure. is_further: at a dtype at which most clauses are sampled.

    What may be is no fault, a recommendation is explained at the main dtype, and of a large case each fault would cost
    as much as the case.
    """
    level = trial.check.clause.level
    is_minor = level is Level.MAY or (level is Level.SHOULD and is_further)
    return not is_minor and work(Recipe.parse(evidence.recipe).sizes) <= MOST[Effort.THOROUGH]
