"""Can the clauses be trusted? Every fault against every clause, beside what the clauses promise to refute."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from attnspec.core.nouns import FAILURES
from attnspec.core.plan import FAULT
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.report.figures import SHORT, SIGNS
from attnspec.report.joined import JoinedRecords, JudgedSubject


@dataclass(frozen=True, slots=True)
class Meeting:
    """A clause and a fault. `css` says how it went.

    `kept`: promised and refuted; `missed`: promised, not refuted; `untried`: promised, not on trial;
    `extra`: refuted without a promise; ``: nothing of the kind.
    """

    css: str = ""
    sign: str = ""
    story: str = ""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A clause that refuted a fault, at which dtypes, and what it had to say at the first of them."""

    clause: ClauseText
    dtypes: str
    said: str


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault, how it met every clause, and the clauses that refuted it, those that promised to first."""

    fault: JudgedSubject
    name: str
    meetings: tuple[Meeting, ...]
    by: tuple[Refutation, ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust matrix. `missed` are clauses with the faults they promised to refute and did not, and how that went.

    `absent` are faults that clauses name and that were not on trial at all.
    """

    clauses: tuple[ClauseText, ...]
    rows: tuple[FaultRow, ...]
    escaped: tuple[FaultRow, ...]
    missed: tuple[tuple[ClauseText, tuple[tuple[str, str], ...]], ...]
    promises: int
    broken: int
    untried: int
    absent: tuple[str, ...]
    idle: tuple[ClauseText, ...]


def measure_trust(joined: JoinedRecords) -> Trust | None:
    """The matrix of the faults in the record, or None without any."""
    if not joined.faults:
        return None
    tried = {clause for fault in joined.faults for clause in joined.of_subject(fault)}
    clauses = tuple(clause for clause in joined.clauses if clause.id in tried)
    rows = tuple(_row(joined, fault, clauses) for fault in joined.faults)
    counts = Counter(meeting.css for row in rows for meeting in row.meetings)
    refuting = {refutation.clause.id for row in rows for refutation in row.by}
    return Trust(
        clauses=clauses, rows=rows, escaped=tuple(row for row in rows if not row.by),
        missed=_missed_refutations(clauses, rows),
        promises=counts["kept"] + counts["missed"], broken=counts["missed"], untried=counts["untried"],
        absent=_absent(clauses, rows), idle=tuple(clause for clause in clauses if clause.id not in refuting))


def _row(joined: JoinedRecords, fault: JudgedSubject, clauses: tuple[ClauseText, ...]) -> FaultRow:
    name = fault.card.id.removeprefix(FAULT)
    met = [(clause, joined.outcomes_of(fault, clause.id)) for clause in clauses]
    by = [_refutation(clause, refuting) for clause, outcomes in met if (refuting := _refuting(outcomes))]
    return FaultRow(
        fault=fault, name=name, meetings=tuple(_meeting(name, clause, outcomes) for clause, outcomes in met),
        by=tuple(sorted(by, key=lambda refutation: name not in refutation.clause.refuted_by)))


def _refuting(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return tuple(outcome for outcome in outcomes if outcome.verdict in FAILURES)


def _refutation(clause: ClauseText, refuting: tuple[Outcome, ...]) -> Refutation:
    first = refuting[0]
    return Refutation(clause, _dtypes(refuting), first.evidence.sentence if first.evidence else first.reason)


def _meeting(name: str, clause: ClauseText, outcomes: tuple[Outcome, ...]) -> Meeting:
    refuting = _refuting(outcomes)
    if name not in clause.refuted_by:
        return Meeting("extra", "○") if refuting else Meeting()
    if not outcomes:
        return Meeting("untried", "·", "not tried")
    if len(refuting) == len(outcomes):
        return Meeting("kept", "●", f"detected at {_dtypes(refuting)}")
    return Meeting("missed", "◐" if refuting else "✗", _story(outcomes, refuting))


def _story(outcomes: tuple[Outcome, ...], refuting: tuple[Outcome, ...]) -> str:
    """`detected at f32, held at bf16`."""
    told = [f"detected at {_dtypes(refuting)}"] if refuting else []
    for outcome in outcomes:
        if outcome not in refuting:
            why = f" ({outcome.reason})" if outcome.reason else ""
            told.append(f"{SIGNS[outcome.verdict].word} at {SHORT[outcome.dtype]}{why}")
    return ", ".join(told)


def _dtypes(outcomes: tuple[Outcome, ...]) -> str:
    return " ".join(SHORT[outcome.dtype] for outcome in outcomes)


def _missed_refutations(
    clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...],
) -> tuple[tuple[ClauseText, tuple[tuple[str, str], ...]], ...]:
    met = [
        (clause, tuple((row.name, row.meetings[place].story) for row in rows if row.meetings[place].css == "missed"))
        for place, clause in enumerate(clauses)
    ]
    return tuple((clause, missed) for clause, missed in met if missed)


def _absent(clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...]) -> tuple[str, ...]:
    named = {name for clause in clauses for name in clause.refuted_by}
    return tuple(sorted(named - {row.name for row in rows}))
