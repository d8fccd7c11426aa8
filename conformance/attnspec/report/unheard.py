"""What did not run or was not decided, and why; identical reasons are told once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.ground.nouns import Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.report.joined import Joined
from attnspec.report.signs import DECIDED, SIGNS, Sign

_NOT_DECIDED = (Verdict.NOT_RUN, Verdict.NO_CLAIM, Verdict.INAPPLICABLE)


@dataclass(frozen=True, slots=True)
class Silence:
    """One reason, and whom it kept from being judged by what: pairs of subjects and clauses."""

    sign: Sign
    reason: str
    items: int
    whom: tuple[tuple[tuple[str, ...], tuple[ClauseText, ...]], ...]


def silences(joined: Joined) -> tuple[Silence, ...]:
    """All reasons, gravest verdict first, then the most frequent."""
    groups: dict[tuple[Verdict, str], list[tuple[str, Outcome]]] = {}
    for subject in joined.subjects:
        for outcomes in joined.of_subject(subject).values():
            for outcome in outcomes:
                if outcome.verdict in _NOT_DECIDED:
                    groups.setdefault((outcome.verdict, _reason(outcome)), []).append((subject.label, outcome))
    texts = {clause.id: clause for clause in joined.clauses}
    found = [_silence(verdict, reason, members, texts) for (verdict, reason), members in groups.items()]
    return tuple(sorted(found, key=lambda silence: (silence.sign.rank, -silence.items)))


def never_decided(joined: Joined) -> tuple[ClauseText, ...]:
    """Clauses that decided nothing about anybody, faults included."""
    decided = {outcome.clause for outcome in joined.outcomes.values() if outcome.verdict in DECIDED}
    return tuple(clause for clause in joined.clauses if clause.id not in decided)


def _reason(outcome: Outcome) -> str:
    return outcome.reason or {
        Verdict.NO_CLAIM: "every case fell outside the domain of the bound",
        Verdict.NOT_RUN: "no reason was recorded",
        Verdict.INAPPLICABLE: "no reason was recorded",
    }[outcome.verdict]


def _silence(
    verdict: Verdict, reason: str, members: list[tuple[str, Outcome]], texts: Mapping[str, ClauseText],
) -> Silence:
    by_subject: dict[str, dict[str, None]] = {}
    for label, outcome in members:
        by_subject.setdefault(label, {})[outcome.clause] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, clauses in by_subject.items():
        alike.setdefault(tuple(clauses), []).append(label)
    whom = tuple((tuple(labels), tuple(texts[clause] for clause in clauses)) for clauses, labels in alike.items())
    return Silence(SIGNS[verdict], reason, len(members), whom)
