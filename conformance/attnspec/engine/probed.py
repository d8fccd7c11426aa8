"""What the outcome of a clause about a convention says of what was probed, so that a baseline can keep it."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.nouns import Verdict
from attnspec.record.outcome import Outcome, ProbedConvention
from attnspec.trials.compile import Check
from attnspec.trials.evaluator import Evaluator

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
