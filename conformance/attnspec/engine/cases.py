"""A case in a line, with the numbers that one wants to see first."""

from __future__ import annotations

from attnspec.core.keywords import CACHED, COUNTS, VALUED
from attnspec.problems.caches import past_by
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Evidence
from attnspec.subjects.subject import SubjectRaised
from attnspec.trials.judging import Failure, Violated
from attnspec.trials.trial import Trial

UNFINISHED = "(it was interrupted before a smaller case and a cause were looked for)"
"""What is said of the case that failed first."""

MOST_NUMBERS = 8
"""So many lengths are written out."""


def in_a_line(trial: Trial, recipe: Recipe) -> str:
    """Sizes, dtype and keywords of a case, what it drew, and how its entries are made."""
    drawn = "".join(f", {name}={number}" for name, number in trial.scene(recipe).drawn.items())
    used = "".join(f" {name}{_pattern(name, recipe)}" for name in sorted(recipe.features))
    mask = f", mask {recipe.mask}" if "mask" in recipe.features else ""
    return f"{recipe.sizes} {trial.evaluator.dtype.value}{used}{mask}{drawn}, entries {' and '.join(recipe.families)}"


def unfinished(trial: Trial, failure: Failure, recipe: Recipe) -> Evidence:
    """The evidence of a failure as it was found, of which nothing more is known."""
    measured = failure.measured if isinstance(failure, Violated) else None
    sentence = measured.sentence if measured else str(failure)
    return Evidence(f"{sentence} {UNFINISHED}", in_a_line(trial, recipe), recipe.text, measured,
                    traceback=failure.traceback if isinstance(failure, SubjectRaised) else "")


def _pattern(keyword: str, recipe: Recipe) -> str:
    """How what a pattern names is made: `=spread`; lengths `=ragged (3, 1)`, a past `=half (P=2 of S)`."""
    pattern = recipe.value(keyword) if keyword in VALUED else None
    if not isinstance(pattern, str):
        return ""
    if keyword in CACHED:
        return f"={pattern} (P={past_by(pattern, recipe.sizes)} of S)"
    if keyword not in COUNTS:
        return f"={pattern}"
    numbers = [str(number) for number in keyword_array(keyword, pattern, recipe.seed, recipe.sizes)]
    return f"={pattern} ({', '.join(numbers[:MOST_NUMBERS])}{', …' * (len(numbers) > MOST_NUMBERS)})"
