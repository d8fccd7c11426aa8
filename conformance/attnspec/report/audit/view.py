"""All that the page of an audit, and its text, speak of.

The matrix has one small square a subject and clause, and what stands behind each as one compact text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
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
    """`css` is one letter (with another where the dtypes disagree), or none where the clause is held or inapplicable.

    `sign` is empty where the clause is inapplicable, for which the style sheet draws one, or where nobody asked. Such
    squares side by side are one, over several `columns`.
    """

    css: str
    sign: str
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Cells:
    """themes: names with their clauses.  rows: a subject with its squares, in the clauses' order, blank ones merged.

    cell_data: JSON of what a cell tells when it is asked, see `_behind`.
    """

    themes: tuple[tuple[str, tuple[ClauseText, ...]], ...]
    rows: tuple[tuple[JudgedSubject, tuple[AuditSquare, ...]], ...]
    cell_data: str


CHOSEN_SQUARE = AuditSquare("k", "≠")  # a documented choice, and nothing broken
SQUARE_NOT_ASKED = AuditSquare("x", "")


def make_cells(joined: JoinedRecords, findings: Sequence[AuditFinding]) -> Cells:
    """Makes the matrix: all subjects under all clauses."""
    themes = tuple((name, tuple(group))
                   for name, group in groupby(joined.clauses, key=lambda clause: clause.theme))
    rows = tuple((subject,
                  tuple(_merge_plain_squares(_make_audit_square(subject, joined.outcomes_of(subject, clause.id))
                                             for clause in joined.clauses)))
                 for subject in joined.subjects)
    return Cells(themes, rows, _encode_cell_data(joined, findings))


def _make_audit_square(subject: JudgedSubject, outcomes: Sequence[Outcome]) -> AuditSquare:
    if not outcomes:
        return SQUARE_NOT_ASKED
    if are_chosen(subject, outcomes):
        return CHOSEN_SQUARE
    verdict = overall_verdict(outcome.verdict for outcome in outcomes)
    failing = "v" if outcomes[0].level is Level.MUST else "s"
    css = failing if verdict in FAILURES else _VERDICT_LETTERS[verdict]
    asked = {outcome.verdict
             for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE}
    sign = "" if verdict is Verdict.INAPPLICABLE else SIGNS[verdict].sign
    return AuditSquare(f"{css} m".strip() if len(asked) > 1 else css, sign)


def _merge_plain_squares(squares: Iterable[AuditSquare]) -> Iterator[AuditSquare]:
    """Squares without a sign that stand side by side are one: they are two thirds of all."""
    for square, run in groupby(squares):
        columns = len(tuple(run))
        yield from [replace(square, columns=columns)] if not square.sign else [square] * columns


@dataclass(slots=True)
class _Reasons:
    """Reasons by number: most are said hundreds of times."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, reason: str) -> int:
        """Numbers a reason; the same reason gets the same number."""
        return self.numbers.setdefault(reason, len(self.numbers))


def _encode_cell_data(joined: JoinedRecords, findings: Sequence[AuditFinding]) -> str:
    """Writes what the page's script reads, as JSON: a row of `cells` for each subject, and their legend.

    Cells are parted by `;`. An empty one is like the one before it, and `-` was asked by nobody. In the others there
    is, for every dtype of the subject (`dtypes`), a digit, the place of its verdict in `signs`, then its margin, then
    after `~` the number of its reason. Dtypes are parted by `|`; where all have the same verdict and reason there is
    one text with the largest margin, and where one dtype alone was asked, a letter tells its place. After `@` stand the
    numbers of the findings that explain it.
    """
    reasons, meant = _Reasons(), _findings_by_cell(findings)
    told = [_encode_row([_encode_cell(subject, joined.outcomes_of(subject, clause.id),
                                      meant.get((subject.number, clause.id), ()),
                                      reasons)
                         for clause in joined.clauses]) for subject in joined.subjects]
    held = {
        "signs": [sign.sign for sign in SIGNS.values()],
        "words": [sign.word for sign in SIGNS.values()],
        "dtypes": [[SHORT_NAMES[dtype] for dtype in subject.dtypes]
                   for subject in joined.subjects],
        "reasons": list(reasons.numbers), "cells": told,
        "findings": [finding.anchor for finding in findings]}
    # "</script>" inside would end the element that it stands in
    return json.dumps(held, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _encode_row(cells: Sequence[str]) -> str:
    before = ("", *cells)
    return ";".join(_AS_BEFORE if cell == left else cell
                    for left, cell in zip(before, cells, strict=False))


def _findings_by_cell(findings: Sequence[AuditFinding]) -> Mapping[tuple[int, str], Sequence[int]]:
    """The numbers of the findings that complain of a subject under a clause."""
    found: dict[tuple[int, str], list[int]] = {}
    for number, finding in enumerate(findings):
        for concern in finding.concerns:
            for subject in concern.subjects:
                for complaint in concern.complaints:
                    found.setdefault((subject.number, complaint.clause.id), []).append(number)
    return found


def _encode_cell(subject: JudgedSubject, outcomes: Sequence[Outcome], findings: Sequence[int],
                 reasons: _Reasons) -> str:
    if not outcomes:
        return _NOT_ASKED
    told = _cells_of_all_dtypes(subject, outcomes, reasons)
    if findings:
        return f"{told}@{','.join(map(str, findings))}"
    return told


def _cells_of_all_dtypes(subject: JudgedSubject, outcomes: Sequence[Outcome],
                         reasons: _Reasons) -> str:
    """Writes one text for all dtypes where they say the same but for the margin, else a text each."""
    said = {outcome.dtype: (outcome.verdict, _reason_in_cell(subject, outcome))
            for outcome in outcomes}
    margins = {outcome.dtype: _largest_margin(outcome) for outcome in outcomes}
    if len(set(said.values())) == 1 and len(said) == len(subject.dtypes):
        return _format_verdict(*said[outcomes[0].dtype], max(margins.values()), reasons)
    told = {dtype: _format_verdict(*each, margins[dtype], reasons) for dtype, each in said.items()}
    if len(told) == 1:
        (dtype, alone), = told.items()
        return f"{ascii_lowercase[subject.dtypes.index(dtype)]}{alone}"
    return "|".join(told.get(dtype, "") for dtype in subject.dtypes)


def _format_verdict(verdict: Verdict, reason: str, margin: float, reasons: _Reasons) -> str:
    number = f"~{reasons.number(reason)}" if reason else ""
    return f"{_VERDICTS.index(verdict)}{_shorten_margin(margin) if margin > _UNMEASURED else ''}{number}"


_UNMEASURED = -1.0


def _largest_margin(outcome: Outcome) -> float:
    """The largest share of its allowance that a case used."""
    if outcome.worst is None or not outcome.cases:
        return _UNMEASURED
    if math.isnan(outcome.worst.margin):
        return math.inf
    return outcome.worst.margin


def _reason_in_cell(subject: JudgedSubject, outcome: Outcome) -> str:
    """Why something failed is told by its finding, so that reasons are few."""
    if outcome.verdict in EXPLAINED_VERDICTS:
        return ""
    return shared_reason(subject.card.id, outcome.reason)


def _shorten_margin(margin: float) -> str:
    """Two digits, in as few signs as a script can read: `.31`, `2e-5`, `Infinity`."""
    if math.isinf(margin):
        return "Infinity"
    return re.sub(r"^0(?=\.)", "",
                  re.sub(r"e([+-])0*", lambda found: f"e{found[1].strip('+')}", f"{margin:.2g}"))


@dataclass(frozen=True, slots=True)
class CitedWork:
    """A work that a clause cites. `url` is a foreign text."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Works:
    """The works in the order in which they are first cited."""

    all: tuple[CitedWork, ...]

    def anchor(self, quoted: QuotedSource) -> str:
        """The place on the page that tells of a cited work."""
        return f"work-{self.all.index(_cited_work(quoted))}"


def cited_works(clauses: Iterable[ClauseText]) -> Works:
    """The works that clauses cite, each once."""
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
    """Implementations that fared alike: a row of squares in the picture at the head of the page."""

    css: str
    says: str
    lines: tuple[SubjectLine, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit. `findings`: those that anything explains; `unexplained` and `listed` (deviations) stand apart.

    gradients: None where none were judged.
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
        """The findings that explain a failure of this record; the others came of probing or reading."""
        return tuple(told for told in self.findings if told.shown_outcome is not None)

    @property
    def open_failures(self) -> int:
        """How many failures no finding explains."""
        return sum(told.items for told in self.unexplained)

    @property
    def headline(self) -> str:
        """What was judged, in one line."""
        libraries = len({shelf.card.id.partition("/")[0] for shelf in self.shelves})
        many = "libraries" if libraries != 1 else "library"
        return f"{count_noun(len(self.lines), 'implementation')} of attention from {libraries} {many} tested"

    @property
    def alike_subjects(self) -> tuple[AlikeSubjects, ...]:
        """The subjects by how they stand, the gravest first in each row."""
        rows = ((*words,
                 tuple(sorted((line for line in self.lines if line.audit_standing is standing),
                              key=lambda line: line.weight)))
                for standing, words in _STANDING_HEADINGS.items())
        return tuple(AlikeSubjects(css, one if len(lines) == 1 else many, lines)
                     for css, many, one, lines in rows
                     if lines)

    @property
    def sentence(self) -> str:
        """How they fared, and how much of it is explained. What was not judged to the end keeps nothing."""
        return (f"{', '.join(f'{len(row.lines)} {row.says}' for row in self.alike_subjects)}. "
                f"{self.explained_text}")

    @property
    def explained_text(self) -> str:
        """How much of what failed is explained."""
        known, rest = len(self.explaining_findings), self.open_failures
        if not known:
            if rest:
                return f"None of the {count_noun(rest, 'failure')} is explained yet."
            return "Nothing failed."
        explain = f"{count_noun(known, 'finding')} {'explains' if known == 1 else 'explain'}"
        whole = f"all but {rest} of the failures" if rest else "every failure"
        choices = sum(told.is_choice for told in self.explaining_findings)
        marked = (f"; {choices} of them "
                  f"{'is a documented choice' if choices == 1 else 'are documented choices'}")
        return (f"{explain} {whole}, each with a case and a script that shows it without attnspec"
                f"{marked if choices else ''}.")

    @property
    def all_findings(self) -> tuple[AuditFinding, ...]:
        """Everything, in the order in which the page tells it."""
        return (*self.unexplained, *self.findings, *self.listed_findings)


def make_audit(joined: JoinedRecords) -> Audit:
    """Puts together all that the page of an audit speaks of."""
    told = explain_failures(joined)
    of = {cause: tuple(each for each in told if each.cause is cause) for cause in FailureCause}
    ordered: Sequence[AuditFinding] = (*of[FailureCause.UNKNOWN], *of[FailureCause.KNOWN],
                                       *of[FailureCause.LISTED])
    return Audit(
        shelves=library_tables(joined), findings=of[FailureCause.KNOWN],
        unexplained=of[FailureCause.UNKNOWN],
        listed_findings=of[FailureCause.LISTED], habits=find_habits(joined),
        cells=make_cells(joined, ordered),
        law=tally_clauses(joined), absent=_missing_subjects(joined),
        works=cited_works(joined.clauses),
        gradients=describe_gradients(joined))


def _missing_subjects(joined: JoinedRecords) -> tuple[MissingSubject, ...]:
    """Who was judged in none of the runs, and adapters that broke in one of them."""
    judged = {subject.card.id for subject in joined.subjects}
    told = {each.get("subject", ""): each for run in joined.runs
            for each in run.record.header.absent}
    absent = [MissingSubject(name, each.get("library", ""), each.get("title", ""),
                             each.get("reason", ""))
              for name, each in told.items() if name not in judged]
    broken = [MissingSubject(subject.label, library_of(subject), subject.card.title,
                             subject.broken_reason)
              for subject in joined.subjects if subject.broken_reason]
    return (*absent, *broken)


def is_audit(joined: JoinedRecords) -> bool:
    """Whether there are so many subjects that a page with everything about each would be of no use."""
    return len(joined.subjects) > AUDIT_SUBJECTS
