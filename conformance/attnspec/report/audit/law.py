"""The clauses of an audit: how many subjects fared how under each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from attnspec.ground.nouns import Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.report.joined import Joined
from attnspec.report.ledger import shade, tally
from attnspec.report.signs import SIGNS, Sign, overall


@dataclass(frozen=True, slots=True)
class Entry:
    """A clause. `tally`: subjects by verdict, gravest first; `worst` of them: None where nobody was asked."""

    number: int
    clause: ClauseText
    tally: tuple[tuple[Sign, int], ...]
    worst: Sign | None
    css: str
    is_changed: bool


def law(joined: Joined) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
    """The clauses by theme."""
    entries = [_entry(joined, number) for number in range(len(joined.clauses))]
    return tuple((name, tuple(group)) for name, group in groupby(entries, key=lambda entry: entry.clause.theme))


def _entry(joined: Joined, number: int) -> Entry:
    clause = joined.clauses[number]
    asked = [outcomes for subject in joined.subjects if (outcomes := joined.of(subject, clause.id))]
    verdicts = [overall(outcome.verdict for outcome in outcomes) for outcomes in asked]
    worst: Verdict | None = overall(verdicts) if verdicts else None
    return Entry(number, clause, tally(verdicts), SIGNS[worst] if worst else None,
                 shade(worst, clause.level) if worst else "idle", clause.id in joined.changed)
