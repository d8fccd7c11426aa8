"""Every outcome under a clause as rows, and every clause as a line of squares: two views that lead to one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from attnspec.core.nouns import FAILURES, DType, Level, Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.report.figures import DECIDED, FINDINGS, SHORT, SIGNS, Sign, format_figure, gravest_verdict
from attnspec.report.joined import JoinedRecords, JudgedSubject


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """One subject under one clause, at one dtype or at several that fared alike without anything measured."""

    anchor: str
    subject: JudgedSubject
    dtypes: str
    sign: Sign
    css: str
    outcome: Outcome
    finding: str


@dataclass(frozen=True, slots=True)
class Square:
    """A cell of the matrix. `target` is the anchor that it leads to; without a sign nothing was tried.

    title: whose it is, and how it fared; empty where there is but one subject, whose margins stand with the clause.
    """

    is_first: bool
    sign: str = ""
    css: str = ""
    title: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class ClauseEntry:
    """A clause with all that is shown of it. `squares` has one place a subject and dtype."""

    number: int
    clause: ClauseText
    rows: tuple[ClauseRow, ...]
    squares: tuple[Square, ...]
    tally: tuple[tuple[Sign, int], ...]
    worst: Sign | None
    css: str
    is_changed: bool
    instruments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Theme:
    """The entries of one file of the spec. idle: how many of its clauses apply to nobody, and have no entry."""

    name: str
    entries: tuple[ClauseEntry, ...]
    idle: int = 0


def group_by_theme(joined: JoinedRecords) -> tuple[Theme, ...]:
    """Groups all clauses that apply to somebody, with their outcomes, by theme; a theme of which none does has no
    entry.
    """
    idle, found = {clause.id for clause in applying_to_nobody(joined)}, list[Theme]()
    for name, group in groupby(enumerate(joined.clauses), key=lambda numbered: numbered[1].theme):
        clauses = tuple(group)
        entries = tuple(_entry(joined, number, clause) for number, clause in clauses if clause.id not in idle)
        found.append(Theme(name, entries, len(clauses) - len(entries)))
    return tuple(found)


def applying_to_nobody(joined: JoinedRecords) -> tuple[ClauseText, ...]:
    """Clauses that were found to apply to none of these implementations."""
    tried = {outcome.clause for outcome in joined.outcomes.values()}
    applying = {outcome.clause for outcome in joined.outcomes.values() if outcome.verdict is not Verdict.INAPPLICABLE}
    return tuple(clause for clause in joined.clauses if clause.id in tried - applying)


def finding_anchor(clause: int, subject: JudgedSubject) -> str:
    """Where the finding of a subject under a clause (by its number) stands."""
    return f"f{clause}.{subject.number}"


def shade_verdict(verdict: Verdict, level: Level) -> str:
    """The colour class of an outcome: a failure of what is merely advised is drawn lighter."""
    css = SIGNS[verdict].css
    return f"{css} soft" if verdict in FAILURES and level is not Level.MUST else css


def _entry(joined: JoinedRecords, number: int, clause: ClauseText) -> ClauseEntry:
    rows = tuple(row for subject in joined.subjects for row in _rows(joined, number, subject))
    verdicts = [outcome.verdict for subject in joined.subjects for outcome in joined.outcomes_of(subject, clause.id)]
    # a clause that somebody cannot be asked is still marked by how the others fared
    telling = [verdict for verdict in verdicts if verdict is not Verdict.INAPPLICABLE] or verdicts
    worst = gravest_verdict(telling) if telling else None
    return ClauseEntry(
        number=number, clause=clause, rows=rows, tally=tally_verdicts(verdicts),
        squares=tuple(square for subject in joined.subjects for square in _squares(joined, number, subject)),
        worst=SIGNS[worst] if worst else None, css=shade_verdict(worst, clause.level) if worst else "idle",
        is_changed=clause.id in joined.changed,
        instruments=tuple(dict.fromkeys(row.outcome.instrument for row in rows if row.outcome.instrument)))


def tally_verdicts(verdicts: Iterable[Verdict]) -> tuple[tuple[Sign, int], ...]:
    """How often each verdict occurs, gravest first."""
    listed = list(verdicts)
    return tuple((SIGNS[verdict], listed.count(verdict)) for verdict in SIGNS if verdict in listed)


def _groups(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Outcomes side by side that say the same: same verdict, same reason, nothing measured."""
    return [list(group) for _, group in groupby(outcomes, key=_sameness)]


def _sameness(outcome: Outcome) -> tuple[object, ...]:
    own = outcome.dtype if outcome.verdict in DECIDED or outcome.cases else None
    return outcome.verdict, outcome.reason, own


def _rows(joined: JoinedRecords, number: int, subject: JudgedSubject) -> list[ClauseRow]:
    groups = _groups(joined.outcomes_of(subject, joined.clauses[number].id))
    return [_row(number, subject, group) for group in groups]


def _row(number: int, subject: JudgedSubject, group: list[Outcome]) -> ClauseRow:
    first = group[0]
    return ClauseRow(
        anchor=_anchor(number, subject, first.dtype), subject=subject,
        dtypes=" ".join(SHORT[outcome.dtype] for outcome in group), sign=SIGNS[first.verdict],
        css=shade_verdict(first.verdict, first.level), outcome=first,
        finding=finding_anchor(number, subject) if first.verdict in FINDINGS else "")


def _anchor(number: int, subject: JudgedSubject, dtype: DType) -> str:
    return f"r{number}.{subject.number}.{SHORT[dtype]}"


def _squares(joined: JoinedRecords, number: int, subject: JudgedSubject) -> list[Square]:
    groups = _groups(joined.outcomes_of(subject, joined.clauses[number].id))
    is_alone = len(joined.subjects) == 1
    made: Mapping[DType, Square] = {
        outcome.dtype: _square(number, subject, outcome, group[0].dtype, is_alone=is_alone)
        for group in groups for outcome in group
    }
    first = subject.dtypes[:1]
    return [made.get(dtype) or Square(is_first=dtype in first) for dtype in subject.dtypes] or [Square(is_first=True)]


def _square(number: int, subject: JudgedSubject, outcome: Outcome, row: DType, *, is_alone: bool) -> Square:
    sign = SIGNS[outcome.verdict]
    is_finding = outcome.verdict in FINDINGS
    said = f", margin {format_figure(outcome.worst.margin)}" if outcome.worst and not is_finding else ""
    return Square(
        is_first=outcome.dtype is subject.dtypes[0], sign=sign.sign, css=shade_verdict(outcome.verdict, outcome.level),
        title="" if is_alone else f"{subject.label} {SHORT[outcome.dtype]}: {sign.word}{said}",
        target=finding_anchor(number, subject) if is_finding else _anchor(number, subject, row))
