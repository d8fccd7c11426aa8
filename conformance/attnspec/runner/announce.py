"""A verdict in pytest's words: passed, skipped with the reason, or failed with what a reader needs and no stack."""

from __future__ import annotations

import pytest

from attnspec.ground.nouns import Verdict, gates
from attnspec.law.clause import Clause
from attnspec.record.outcome import Outcome
from attnspec.runner.texts import in_short, violation

_PASSING = frozenset({Verdict.HELD, Verdict.EXPECTED})
_WITHOUT_VERDICT = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM})


def announce(outcome: Outcome, clause: Clause, *, strict: bool) -> None:
    """Pass, skip or fail. What was not run fails: nothing that did not run counts as passed.

    A violated clause that does not gate (`should`, `may`) is skipped with its sentence, so that it is seen and not
    counted as passed.
    """
    if outcome.verdict in _PASSING:
        return
    if outcome.verdict in _WITHOUT_VERDICT:
        pytest.skip(in_short(outcome))
    if outcome.verdict is Verdict.NOT_RUN or gates(outcome.verdict, outcome.level, strict=strict):
        pytest.fail(violation(outcome, says=clause.says, where=str(clause.where)), pytrace=False)
    pytest.skip(f"{clause.level.value} clause {in_short(outcome)}")
