"""All that the page of an audit, and its text, speak of.

The matrix has one small square a subject and clause, and what stands behind each as one compact
text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from string import ascii_lowercase

from attnspec.core.nouns import FAILURES, Level, Verdict
from attnspec.core.texts import count_noun
from attnspec.record.outcome import ClauseText, Outcome, QuotedSource
from attnspec.report.audit.conventions import ConventionTable, find_habits
from attnspec.report.audit.explained import (
    EXPLAINED_VERDICTS,
    AuditFinding,
    FailureCause,
    are_chosen,
    explain_failures,
    library_of,
)
from attnspec.report.audit.table import (
    AuditStanding,
    ClauseTally,
    Gradients,
    LibraryTable,
    SubjectLine,
    describe_gradients,
    library_tables,
    tally_clauses,
)
from attnspec.report.figures import SHORT_NAMES, SIGNS, overall_verdict, shared_reason
from attnspec.report.joined import JoinedRecords, JudgedSubject

# one letter a verdict at most: there are tens of thousands of cells
_VERDICT_LETTERS: Mapping[Verdict, str] = {
    Verdict.HELD: "", Verdict.INAPPLICABLE: "", Verdict.NO_CLAIM: "o", Verdict.NOT_RUN: "n",
    Verdict.EXPECTED: "k",
    Verdict.UNEXPECTED: "u",
}
_VERDICTS = tuple(SIGNS)
_AS_BEFORE, _NOT_ASKED = "", "-"  # a cell like the one to its left, and one that nobody asked


@dataclass(frozen=True, slots=True)
class AuditSquare:
    """A cell of the audit's matrix.

    css: a letter for the verdict, and another if the dtypes differ; empty if the clause is held or
    inapplicable.  sign: empty if the clause is inapplicable (the style sheet draws a sign) or was
    not asked.  columns: over how many columns it goes; such cells side by side are one.
    """

    css: str
    sign: str
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Cells:
    """The matrix of an audit.

    themes: their names with their clauses.  rows: a subject with its squares, in the order of the
    clauses.  cell_data: JSON of what a cell shows when it is clicked, see `_encode_cell_data`.
    """

    themes: tuple[tuple[str, tuple[ClauseText, ...]], ...]
    rows: tuple[tuple[JudgedSubject, tuple[AuditSquare, ...]], ...]
    cell_data: str


CHOSEN_SQUARE = AuditSquare("k", "≠")  # a documented choice, and nothing broken
SQUARE_NOT_ASKED = AuditSquare("x", "")


def make_cells(joined: JoinedRecords, findings: Sequence[AuditFinding]) -> Cells:
    """Makes the matrix of all subjects and all clauses."""
    themes = tuple((name, tuple(group))
                   for name, group in groupby(joined.clauses, key=lambda clause: clause.theme))
    rows = []
    for subject in joined.subjects:
        squares = (_make_audit_square(subject, joined.outcomes_of(subject, clause.id))
                   for clause in joined.clauses)
        rows.append((subject, tuple(_merge_plain_squares(squares))))
    return Cells(themes, tuple(rows), _encode_cell_data(joined, findings))


def _make_audit_square(subject: JudgedSubject, outcomes: Sequence[Outcome]) -> AuditSquare:
    if not outcomes:
        return SQUARE_NOT_ASKED
    if are_chosen(subject, outcomes):
        return CHOSEN_SQUARE
    verdict = overall_verdict(outcome.verdict for outcome in outcomes)
    if verdict in FAILURES:
        css = "v" if outcomes[0].level is Level.MUST else "s"
    else:
        css = _VERDICT_LETTERS[verdict]
    verdicts = {outcome.verdict for outcome in outcomes} - {Verdict.INAPPLICABLE}
    if len(verdicts) > 1:
        css = f"{css} m".strip()
    return AuditSquare(css, "" if verdict is Verdict.INAPPLICABLE else SIGNS[verdict].sign)


def _merge_plain_squares(squares: Iterable[AuditSquare]) -> Iterator[AuditSquare]:
    """Merges squares without a sign that stand side by side; they are two thirds of all."""
    for square, run in groupby(squares):
        if square.sign:
            yield from run
        else:
            yield replace(square, columns=len(tuple(run)))


@dataclass(slots=True)
class _Reasons:
    """Numbers reasons, most of which are given hundreds of times."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, reason: str) -> int:
        """Numbers a reason; the same reason gets the same number."""
        return self.numbers.setdefault(reason, len(self.numbers))


def _encode_cell_data(joined: JoinedRecords, findings: Sequence[AuditFinding]) -> str:
    """Writes as JSON what the page's script reads: a row of cells for each subject.

    Cells are separated by `;`. An empty cell is like the one before it, and `-` was not asked. Any
    other cell has a text for each dtype of the subject (`dtypes`), separated by `|`: a digit,
    which is the place of the verdict in `signs`, then the margin, then after `~` the number of the
    reason. If all dtypes have the same verdict and reason, there is one text with the largest
    margin. If only one dtype was asked, a letter before the text gives its place. After `@` stand
    the numbers of the findings that explain the failure.
    """
    reasons, findings_of = _Reasons(), _findings_by_cell(findings)
    rows = []
    for subject in joined.subjects:
        cells = [_encode_cell(subject, joined.outcomes_of(subject, clause.id),
                              findings_of.get((subject.number, clause.id), ()), reasons)
                 for clause in joined.clauses]
        rows.append(_encode_row(cells))
    data = {
        "signs": [sign.sign for sign in SIGNS.values()],
        "words": [sign.word for sign in SIGNS.values()],
        "dtypes": [[SHORT_NAMES[dtype] for dtype in subject.dtypes]
                   for subject in joined.subjects],
        "reasons": list(reasons.numbers), "cells": rows,
        "findings": [finding.anchor for finding in findings]}
    # "</script>" inside would end the element that it stands in
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _encode_row(cells: Sequence[str]) -> str:
    before = ("", *cells)
    return ";".join(_AS_BEFORE if cell == left else cell
                    for left, cell in zip(before, cells, strict=False))


def _findings_by_cell(findings: Sequence[AuditFinding]) -> Mapping[tuple[int, str], Sequence[int]]:
    """The numbers of the findings about each pair of a subject and a clause."""
    numbers: dict[tuple[int, str], list[int]] = {}
    for number, finding in enumerate(findings):
        for concern in finding.concerns:
            for subject, complaint in product(concern.subjects, concern.complaints):
                cell = (subject.number, complaint.clause.id)
                numbers.setdefault(cell, []).append(number)
    return numbers


def _encode_cell(subject: JudgedSubject, outcomes: Sequence[Outcome], findings: Sequence[int],
                 reasons: _Reasons) -> str:
    if not outcomes:
        return _NOT_ASKED
    text = _cells_of_all_dtypes(subject, outcomes, reasons)
    if findings:
        return f"{text}@{','.join(map(str, findings))}"
    return text


def _cells_of_all_dtypes(subject: JudgedSubject, outcomes: Sequence[Outcome],
                         reasons: _Reasons) -> str:
    """Writes one text for all dtypes if their verdicts are the same, else one for each."""
    verdicts = {outcome.dtype: (outcome.verdict, _reason_in_cell(subject, outcome))
                for outcome in outcomes}
    margins = {outcome.dtype: _largest_margin(outcome) for outcome in outcomes}
    if len(set(verdicts.values())) == 1 and len(verdicts) == len(subject.dtypes):
        return _format_verdict(*verdicts[outcomes[0].dtype], max(margins.values()), reasons)
    texts = {dtype: _format_verdict(*each, margins[dtype], reasons)
             for dtype, each in verdicts.items()}
    if len(texts) == 1:
        [(dtype, text)] = texts.items()
        return f"{ascii_lowercase[subject.dtypes.index(dtype)]}{text}"
    return "|".join(texts.get(dtype, "") for dtype in subject.dtypes)


def _format_verdict(verdict: Verdict, reason: str, margin: float, reasons: _Reasons) -> str:
    text = str(_VERDICTS.index(verdict))
    if margin > _UNMEASURED:
        text += _shorten_margin(margin)
    if reason:
        text += f"~{reasons.number(reason)}"
    return text


_UNMEASURED = -1.0


def _largest_margin(outcome: Outcome) -> float:
    """The largest share of its allowance that a case used."""
    if outcome.worst is None or not outcome.cases:
        return _UNMEASURED
    if math.isnan(outcome.worst.margin):
        return math.inf
    return outcome.worst.margin


def _reason_in_cell(subject: JudgedSubject, outcome: Outcome) -> str:
    """The reason of a verdict; empty for failures, which have findings instead."""
    if outcome.verdict in EXPLAINED_VERDICTS:
        return ""
    return shared_reason(subject.card.id, outcome.reason)


def _shorten_margin(margin: float) -> str:
    """Writes a margin in two digits, as short as a script can read: `.31`, `2e-5`, `Infinity`."""
    if math.isinf(margin):
        return "Infinity"
    digits, exponent, power = f"{margin:.2g}".partition("e")
    if exponent:
        return f"{digits}e{int(power)}"
    return digits.removeprefix("0") if digits.startswith("0.") else digits


@dataclass(frozen=True, slots=True)
class CitedWork:
    """A work that a clause cites. url: a foreign text."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Works:
    """All cited works, in the order in which clauses cite them."""

    all: tuple[CitedWork, ...]

    def anchor(self, quoted: QuotedSource) -> str:
        """The anchor of a cited work on the page."""
        return f"work-{self.all.index(_cited_work(quoted))}"


def cited_works(clauses: Iterable[ClauseText]) -> Works:
    """Collects the works that clauses cite, each once."""
    return Works(tuple(dict.fromkeys(_cited_work(quoted) for clause in clauses
                                     for quoted in clause.because)))


def _cited_work(quoted: QuotedSource) -> CitedWork:
    return CitedWork(quoted.title or quoted.cite, quoted.url)


LEADING_FINDINGS = 3  # how many findings the head of the page names
# more subjects than these make an audit: one finding for all, not one for each
AUDIT_SUBJECTS = 12


@dataclass(frozen=True, slots=True)
class MissingSubject:
    """A subject that could not be judged, and why."""

    subject: str
    library: str
    title: str
    reason: str


_STANDING_HEADINGS: Mapping[AuditStanding, tuple[str, str, str]] = {
    AuditStanding.BREAKS: ("bad", "break at least one `must` clause",
                           "breaks at least one `must` clause"),
    AuditStanding.KEEPS: ("good", "keep every `must` clause", "keeps every `must` clause"),
    AuditStanding.CHOOSES: ("good", "keep every `must` clause apart from documented choices",
                            "keeps every `must` clause apart from documented choices"),
    AuditStanding.UNFINISHED: ("idle", "were not judged to the end", "was not judged to the end")}
"""How they stand: the style of their squares, and what is said of many and of one."""


@dataclass(frozen=True, slots=True)
class AlikeSubjects:
    """Implementations with the same standing: a row of squares at the head of the page."""

    css: str
    says: str
    lines: tuple[SubjectLine, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """All that the page of an audit shows.

    findings: those that explain failures.  unexplained: failures without a finding.
    listed_findings: deviations that manifests list.  gradients: None if none were judged.
    """

    shelves: tuple[LibraryTable, ...]
    findings: tuple[AuditFinding, ...]
    unexplained: tuple[AuditFinding, ...]
    listed_findings: tuple[AuditFinding, ...]
    habits: ConventionTable
    cells: Cells
    law: tuple[tuple[str, tuple[ClauseTally, ...]], ...]
    absent: tuple[MissingSubject, ...]
    works: Works
    gradients: Gradients | None = None

    @property
    def lines(self) -> tuple[SubjectLine, ...]:
        """The lines of all subjects of all libraries."""
        return tuple(line for shelf in self.shelves for line in shelf.lines)

    @property
    def leading(self) -> tuple[AuditFinding, ...]:
        """The most important findings."""
        return self.explaining_findings[:LEADING_FINDINGS]

    @property
    def explaining_findings(self) -> tuple[AuditFinding, ...]:
        """The findings that explain a failure of this record, not only a probe's answer."""
        return tuple(told for told in self.findings if told.shown_outcome is not None)

    @property
    def open_failures(self) -> int:
        """How many failures have no finding."""
        return sum(told.items for told in self.unexplained)

    @property
    def headline(self) -> str:
        """How many implementations and libraries were judged."""
        libraries = len({shelf.card.id.partition("/")[0] for shelf in self.shelves})
        implementations = count_noun(len(self.lines), "implementation")
        return f"{implementations} of attention from {count_noun(libraries, 'library')} tested"

    @property
    def alike_subjects(self) -> tuple[AlikeSubjects, ...]:
        """The subjects by standing, the gravest first in each row."""
        rows = []
        for standing, (css, says_of_many, says_of_one) in _STANDING_HEADINGS.items():
            lines = [line for line in self.lines if line.audit_standing is standing]
            lines.sort(key=lambda line: line.weight)
            if lines:
                says = says_of_one if len(lines) == 1 else says_of_many
                rows.append(AlikeSubjects(css, says, tuple(lines)))
        return tuple(rows)

    @property
    def sentence(self) -> str:
        """How the subjects stand, and how many failures are explained."""
        counts = ", ".join(f"{len(row.lines)} {row.says}" for row in self.alike_subjects)
        return f"{counts}. {self.explained_text}"

    @property
    def explained_text(self) -> str:
        """How many failures are explained, and by how many findings."""
        known, rest = len(self.explaining_findings), self.open_failures
        if not known and not rest:
            return "Nothing failed."
        if not known:
            return f"None of the {count_noun(rest, 'failure')} is explained yet."
        explain = "explains" if known == 1 else "explain"
        failures = f"all but {rest} of the failures" if rest else "every failure"
        text = (f"{count_noun(known, 'finding')} {explain} {failures}, each with a case and a "
                "script that shows it without attnspec")
        choices = sum(finding.is_choice for finding in self.explaining_findings)
        if choices:
            are = "is a documented choice" if choices == 1 else "are documented choices"
            text += f"; {choices} of them {are}"
        return f"{text}."

    @property
    def all_findings(self) -> tuple[AuditFinding, ...]:
        """All findings, in the order of the page."""
        return (*self.unexplained, *self.findings, *self.listed_findings)


def make_audit(joined: JoinedRecords) -> Audit:
    """Makes the audit of all records."""
    findings = explain_failures(joined)
    known, listed, unknown = (tuple(each for each in findings if each.cause is cause) for cause in (
        FailureCause.KNOWN, FailureCause.LISTED, FailureCause.UNKNOWN))
    return Audit(
        shelves=library_tables(joined), findings=known, unexplained=unknown,
        listed_findings=listed, habits=find_habits(joined),
        cells=make_cells(joined, (*unknown, *known, *listed)),
        law=tally_clauses(joined), absent=_missing_subjects(joined),
        works=cited_works(joined.clauses), gradients=describe_gradients(joined))


def _missing_subjects(joined: JoinedRecords) -> tuple[MissingSubject, ...]:
    """The subjects that no run judged, and those whose adapter broke."""
    judged = {subject.card.id for subject in joined.subjects}
    by_name = {each.get("subject", ""): each
               for run in joined.runs for each in run.record.header.absent}
    absent = [MissingSubject(name, each.get("library", ""), each.get("title", ""),
                             each.get("reason", ""))
              for name, each in by_name.items() if name not in judged]
    broken = [MissingSubject(subject.label, library_of(subject), subject.card.title,
                             subject.broken_reason)
              for subject in joined.subjects if subject.broken_reason]
    return (*absent, *broken)


def is_audit(joined: JoinedRecords) -> bool:
    """Whether there are too many subjects for a page that shows everything about each."""
    return len(joined.subjects) > AUDIT_SUBJECTS
