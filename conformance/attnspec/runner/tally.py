"""What a run comes to: counts, and the exit code with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attnspec.ground.exits import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.ground.nouns import FAILURES, Verdict, gates
from attnspec.record.outcome import Outcome

# The verdicts of items in which the subject was called and judged.
EXECUTED = FAILURES | {Verdict.HELD, Verdict.EXPECTED, Verdict.UNEXPECTED}


def counts(outcomes: Iterable[Outcome]) -> Mapping[str, int]:
    """How often each verdict was given, in the order of the enumeration."""
    found = Counter(outcome.verdict for outcome in outcomes)
    return {verdict.value: found[verdict] for verdict in Verdict if found[verdict]}


def exit_code(outcomes: Sequence[Outcome], *, strict: bool, interrupted: bool) -> int:
    """0 conforms, 1 a clause that gates is violated, 2 cannot say: interrupted, not run, or nothing executed."""
    if interrupted:
        return CANNOT_RUN
    if any(gates(outcome.verdict, outcome.level, strict=strict) for outcome in outcomes):
        return VIOLATED
    if idle(outcomes) or any(outcome.verdict is Verdict.NOT_RUN for outcome in outcomes):
        return CANNOT_RUN
    return CONFORMS


def idle(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing at all was executed. An empty run says nothing about anybody's attention."""
    return not any(outcome.verdict in EXECUTED for outcome in outcomes)
