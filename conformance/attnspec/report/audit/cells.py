"""The matrix of an audit: one small square a subject and clause, and what stands behind each as one compact text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from attnspec.core.nouns import FAILURES, Level, Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.report.audit.explained import TOLD, Told, are_chosen
from attnspec.report.figures import SHORT, SIGNS, overall
from attnspec.report.joined import Joined, Judged

_LETTERS: Mapping[Verdict, str] = {  # one letter a verdict: there are thousands of cells
    Verdict.HELD: "h", Verdict.INAPPLICABLE: "", Verdict.NO_CLAIM: "o", Verdict.NOT_RUN: "n", Verdict.EXPECTED: "k",
    Verdict.UNEXPECTED: "u",
}
_VERDICTS = tuple(SIGNS)


@dataclass(frozen=True, slots=True)
class AuditSquare:
    """`css` is one letter (with another where the dtypes disagree); empty: inapplicable, or nobody asked."""

    css: str
    sign: str


@dataclass(frozen=True, slots=True)
class Cells:
    """themes: names with their clauses.  rows: a subject with its squares, in the clauses' order.

    behind: JSON of what a cell tells when it is asked, see `_behind`.
    """

    themes: tuple[tuple[str, tuple[ClauseText, ...]], ...]
    rows: tuple[tuple[Judged, tuple[AuditSquare, ...]], ...]
    behind: str


CHOSEN = AuditSquare("k", "≠")  # a documented choice, and nothing broken


def cells(joined: Joined, findings: Sequence[Told]) -> Cells:
    """All subjects under all clauses."""
    themes = tuple((name, tuple(group)) for name, group in groupby(joined.clauses, key=lambda clause: clause.theme))
    rows = tuple((subject, tuple(_square(subject, joined.of(subject, clause.id)) for clause in joined.clauses))
                 for subject in joined.subjects)
    return Cells(themes, rows, _behind(joined, findings))


def _square(subject: Judged, outcomes: Sequence[Outcome]) -> AuditSquare:
    if not outcomes:
        return AuditSquare("", "")
    if are_chosen(subject, outcomes):
        return CHOSEN
    verdict = overall(outcome.verdict for outcome in outcomes)
    failing = "v" if outcomes[0].level is Level.MUST else "s"
    css = failing if verdict in FAILURES else _LETTERS[verdict]
    asked = {outcome.verdict for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE}
    return AuditSquare(f"{css} m" if len(asked) > 1 else css, SIGNS[verdict].sign)


@dataclass(slots=True)
class _Reasons:
    """Reasons by number: most are said hundreds of times."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, reason: str) -> int:
        """Its number."""
        return self.numbers.setdefault(reason, len(self.numbers))


def _behind(joined: Joined, findings: Sequence[Told]) -> str:
    """What the script of the page reads, as JSON: `cells` by subject and clause, and what their numbers mean.

    A cell is one text: for every dtype of the subject (`dtypes`) a digit, the place of its verdict in `signs`, then its
    margin, then after `~` the number of its reason; dtypes are parted by `|`, and told once where all say the same.
    After `@` stand the numbers of the findings that explain it.
    """
    reasons, meant = _Reasons(), _meant(findings)
    told = [[_cell(subject, joined.of(subject, clause.id), meant.get((subject.number, clause.id), ()), reasons)
             for clause in joined.clauses] for subject in joined.subjects]
    held = {
        "signs": [sign.sign for sign in SIGNS.values()], "words": [sign.word for sign in SIGNS.values()],
        "dtypes": [[SHORT[dtype] for dtype in subject.dtypes] for subject in joined.subjects],
        "reasons": list(reasons.numbers), "cells": told,
        "findings": [[finding.anchor, finding.says] for finding in findings]}
    # "</script>" inside would end the element that it stands in
    return json.dumps(held, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _meant(findings: Sequence[Told]) -> Mapping[tuple[int, str], Sequence[int]]:
    """The numbers of the findings that complain of a subject under a clause."""
    found: dict[tuple[int, str], list[int]] = {}
    for number, finding in enumerate(findings):
        for concern in finding.concerns:
            for subject in concern.subjects:
                for complaint in concern.complaints:
                    found.setdefault((subject.number, complaint.clause.id), []).append(number)
    return found


def _cell(subject: Judged, outcomes: Sequence[Outcome], findings: Sequence[int], reasons: _Reasons) -> str:
    by_dtype = {outcome.dtype: _told(outcome, reasons) for outcome in outcomes}
    each = [by_dtype.get(dtype, "") for dtype in subject.dtypes]
    told = each[0] if len(set(each)) == 1 else "|".join(each)
    return f"{told}@{','.join(map(str, findings))}" if findings else told


def _told(outcome: Outcome, reasons: _Reasons) -> str:
    """Why something failed is told by its finding, so that reasons are few."""
    reason = "" if outcome.verdict in TOLD else outcome.reason
    margin = _short(outcome.worst.margin) if outcome.worst and outcome.cases else ""
    return f"{_VERDICTS.index(outcome.verdict)}{margin}{f'~{reasons.number(reason)}' if reason else ''}"


def _short(margin: float) -> str:
    """Two digits, in as few signs as a script can read: `.31`, `2e-5`, `Infinity`."""
    if math.isnan(margin) or math.isinf(margin):
        return "Infinity"
    return re.sub(r"^0(?=\.)", "", re.sub(r"e([+-])0*", lambda found: f"e{found[1].strip('+')}", f"{margin:.2g}"))
