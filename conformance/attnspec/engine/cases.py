"""What an outcome says of a case, in a line, and of the conventions that a clause has probed."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.keywords import CACHED, COUNTS, VALUED
from attnspec.core.nouns import Verdict
from attnspec.problems.keyword_arrays import keyword_array, past_by
from attnspec.problems.problem import Recipe
from attnspec.record.outcome import Evidence, Outcome, ProbedConvention
from attnspec.subjects.subject import SubjectRaised
from attnspec.trials.compile import Check
from attnspec.trials.evaluator import Evaluator
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


def unfinished_evidence(trial: Trial, failure: Failure, recipe: Recipe) -> Evidence:
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


CONVENTION = "convention_is"
"""The relation that says which convention was found: no fault is likely, for the finding says all there is."""

_PROBED = frozenset({Verdict.HELD, Verdict.VIOLATED, Verdict.NO_CLAIM})  # the others may have ended the probe


def conventions_of(check: Check) -> list[str]:
    """The conventions whose answers the clause recommends."""
    return [str(word.args["convention"]) for word in check.clause.then if word.name == CONVENTION]


def with_probed(outcome: Outcome, check: Check, evaluator: Evaluator) -> Outcome:
    """The outcome with what was found of the clause's conventions, where the subject declares none; of a form of one
    only what is not as of the whole.
    """
    asked = conventions_of(check) if outcome.verdict in _PROBED else []
    found, declared = evaluator.conventions if asked else {}, evaluator.subject.declaration.conventions
    probed = [ProbedConvention(name, answer) for whole in asked if whole in found and whole not in declared
              for name, answer in found.items()
              if name == whole or (name.startswith(f"{whole}.") and answer != found[whole])]
    return replace(outcome, probed=tuple(probed))
