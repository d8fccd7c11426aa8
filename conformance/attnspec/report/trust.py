"""Can the clauses be trusted? Every fault against every clause, beside what the clauses promise to refute."""

from __future__ import annotations

from dataclasses import dataclass

from attnspec.ground.nouns import FAILURES
from attnspec.record.outcome import Outcome
from attnspec.report.joined import FAULT, Joined, Judged
from attnspec.report.signs import SHORT, SIGNS
from attnspec.report.texts import ClauseText


@dataclass(frozen=True, slots=True)
class Meeting:
    """A clause and a fault. `css`: `kept` (named and refuted), `missed` (named, not refuted), `extra`, `held` or ``."""

    css: str
    sign: str
    story: str


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault. `by` are the clauses that refuted it, with what the first dtype had to say."""

    fault: Judged
    name: str
    meetings: tuple[Meeting, ...]
    by: tuple[tuple[ClauseText, str, str], ...]
    missed: tuple[tuple[ClauseText, str], ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust matrix. `absent` are faults that clauses name and that were not on trial, with those clauses."""

    clauses: tuple[ClauseText, ...]
    rows: tuple[FaultRow, ...]
    escaped: tuple[FaultRow, ...]
    promises: int
    broken: int
    absent: tuple[tuple[str, tuple[ClauseText, ...]], ...]
    idle: tuple[ClauseText, ...]


def trust(joined: Joined) -> Trust | None:
    """The matrix of the faults in the record, or None without any."""
    if not joined.faults:
        return None
    tried = {clause for fault in joined.faults for clause in joined.of_subject(fault)}
    clauses = tuple(clause for clause in joined.clauses if clause.id in tried or clause.refuted_by)
    rows = tuple(_row(joined, fault, clauses) for fault in joined.faults)
    return Trust(
        clauses=clauses, rows=rows, escaped=tuple(row for row in rows if not row.by),
        promises=sum(meeting.css in {"kept", "missed"} for row in rows for meeting in row.meetings),
        broken=sum(len(row.missed) for row in rows), absent=_absent(clauses, rows),
        idle=tuple(clause for clause in clauses if not any(clause == by[0] for row in rows for by in row.by)))


def _row(joined: Joined, fault: Judged, clauses: tuple[ClauseText, ...]) -> FaultRow:
    name = fault.card.id.removeprefix(FAULT)
    met = [(clause, joined.of(fault, clause.id)) for clause in clauses]
    meetings = tuple(_meeting(name, clause, outcomes) for clause, outcomes in met)
    return FaultRow(
        fault=fault, name=name, meetings=meetings,
        by=tuple(_refutation(clause, outcomes) for clause, outcomes in met if _refuting(outcomes)),
        missed=tuple(
            (clause, meeting.story)
            for clause, meeting in zip(clauses, meetings, strict=True) if meeting.css == "missed"))


def _refuting(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return tuple(outcome for outcome in outcomes if outcome.verdict in FAILURES)


def _refutation(clause: ClauseText, outcomes: tuple[Outcome, ...]) -> tuple[ClauseText, str, str]:
    refuting = _refuting(outcomes)
    first = refuting[0]
    said = first.evidence.sentence if first.evidence else first.reason
    return clause, " ".join(SHORT[outcome.dtype] for outcome in refuting), said


def _meeting(name: str, clause: ClauseText, outcomes: tuple[Outcome, ...]) -> Meeting:
    refuting = _refuting(outcomes)
    is_promised = name in clause.refuted_by
    story = _story(outcomes, refuting)
    if is_promised and len(refuting) == len(outcomes) and outcomes:
        return Meeting("kept", "●", story)
    if is_promised:
        return Meeting("missed", "◐" if refuting else "✗", story)
    if refuting:
        return Meeting("extra", "○", story)
    return Meeting("held" if outcomes else "", "", "")


def _story(outcomes: tuple[Outcome, ...], refuting: tuple[Outcome, ...]) -> str:
    if not outcomes:
        return "not tried"
    if refuting and len(refuting) == len(outcomes):
        return f"refuted at {_dtypes(refuting)}"
    others = ", ".join(
        f"{SIGNS[outcome.verdict].word} at {SHORT[outcome.dtype]}" + (f" ({outcome.reason})" if outcome.reason else "")
        for outcome in outcomes if outcome not in refuting)
    return f"refuted at {_dtypes(refuting)}, {others}" if refuting else others


def _dtypes(outcomes: tuple[Outcome, ...]) -> str:
    return " ".join(SHORT[outcome.dtype] for outcome in outcomes)


def _absent(
    clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...],
) -> tuple[tuple[str, tuple[ClauseText, ...]], ...]:
    present = {row.name for row in rows}
    naming: dict[str, list[ClauseText]] = {}
    for clause in clauses:
        for name in clause.refuted_by:
            if name not in present:
                naming.setdefault(name, []).append(clause)
    return tuple((name, tuple(named)) for name, named in sorted(naming.items()))
