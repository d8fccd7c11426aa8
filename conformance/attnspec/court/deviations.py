"""Known deviations: a listed one that fails as listed is EXPECTED; one that passes or fails otherwise is UNEXPECTED."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from attnspec.ground.declaration import Deviation
from attnspec.ground.nouns import FAILURES, Verdict
from attnspec.record.outcome import Outcome

_SILENT = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM, Verdict.NOT_RUN})


def listed(deviations: Iterable[Deviation], outcome: Outcome) -> Deviation | None:
    """The deviation that speaks of this clause at this dtype, if one is listed."""
    for deviation in deviations:
        if deviation.clause == outcome.clause and outcome.dtype in (deviation.dtypes or (outcome.dtype,)):
            return deviation
    return None


def with_deviations(outcome: Outcome, deviations: Iterable[Deviation]) -> Outcome:
    """The outcome in the light of what is known of the subject."""
    deviation = listed(deviations, outcome)
    if deviation is None:
        return outcome
    if outcome.verdict.value == deviation.verdict:
        return replace(outcome, verdict=Verdict.EXPECTED, reason=f"{deviation.reason} ({deviation.issue}, until {deviation.until})")
    how = "passes now" if outcome.verdict not in FAILURES else f"is {outcome.verdict.value} now"
    if outcome.verdict in _SILENT:
        how = f"was not judged ({outcome.verdict.value})"
    return replace(outcome, verdict=Verdict.UNEXPECTED,
                   reason=f"listed as {deviation.verdict} ({deviation.issue}), but it {how}: mend the manifest. {outcome.reason}".strip())
