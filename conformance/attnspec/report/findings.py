"""What went wrong, worst first: one finding a subject and clause, with the gravest of its dtypes in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnspec.ground.nouns import Verdict, gates
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import KnownFinding, Outcome
from attnspec.report.audit.explained import causes
from attnspec.report.joined import Joined, Judged
from attnspec.report.ledger import finding_anchor, shade
from attnspec.report.pictures import Grid, drawn_cells, grids
from attnspec.report.signs import FINDINGS, SHORT, SIGNS, WEIGHT, Sign

PICTURED_CELLS = 8_000   # how many picture cells a page draws before it refers to the record instead
_OF_THE_CLAUSE = frozenset({Verdict.VIOLATED, Verdict.UNEXPECTED})  # these speak of the clause, not of a defect
OPEN = 24                # how many findings stand open; the rest can be opened one by one


@dataclass(frozen=True, slots=True)
class Finding:
    """`outcomes` are those of the failing dtypes, gravest first; `pictures` belong to the first of them.

    `alike` are findings under further clauses in which the subject failed with the very same words; `known`: what the
    library's folder says of it.
    """

    anchor: str
    clause: ClauseText
    subject: Judged
    sign: Sign
    css: str
    dtypes: str
    outcomes: tuple[Outcome, ...]
    does_gate: bool
    is_open: bool = True
    pictures: tuple[Grid, ...] = ()
    omitted: int = 0
    alike: tuple[Finding, ...] = ()
    known: tuple[KnownFinding, ...] = ()


def findings(joined: Joined, *, strict: bool) -> tuple[Finding, ...]:
    """All findings about implementations (those about faults are the trust matrix), worst first."""
    found = [
        finding
        for number, clause in enumerate(joined.clauses) for subject in joined.subjects
        if (finding := _finding(number, clause, subject, joined.of(subject, clause.id), strict=strict))
    ]
    return _pictured(_gathered(sorted(found, key=_gravity)))


def _gathered(found: Sequence[Finding]) -> list[Finding]:
    """One finding for all clauses under which a subject raised or died in the same words: one defect is told once."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in found:
        groups.setdefault(_cause(finding), []).append(finding)
    return [replace(group[0], alike=tuple(group[1:])) for group in groups.values()]


def _cause(finding: Finding) -> tuple[object, ...]:
    first = finding.outcomes[0]
    said = first.evidence.sentence if first.evidence else first.reason
    is_own = first.verdict in _OF_THE_CLAUSE or not said
    return finding.subject.number, first.verdict, said, finding.anchor if is_own else ""


def _finding(
    number: int, clause: ClauseText, subject: Judged, outcomes: tuple[Outcome, ...], *, strict: bool,
) -> Finding | None:
    failed = sorted((outcome for outcome in outcomes if outcome.verdict in FINDINGS), key=_outcome_gravity)
    if not failed:
        return None
    worst = failed[0]
    return Finding(
        anchor=finding_anchor(number, subject), clause=clause, subject=subject, outcomes=tuple(failed),
        sign=SIGNS[worst.verdict], css=shade(worst.verdict, worst.level),
        dtypes=" ".join(SHORT[o.dtype] for o in outcomes if o in failed),
        does_gate=any(gates(o.verdict, o.level, strict=strict) for o in failed),
        known=tuple({known.id: known for outcome in failed for known in causes(subject, outcome)}.values()))


def measured_margin(outcome: Outcome) -> float:
    """The margin of the counterexample; 0 where none was measured."""
    measured = outcome.evidence.measured if outcome.evidence else None
    if measured is None:
        return 0.0
    return math.inf if math.isnan(measured.margin) else measured.margin


def _outcome_gravity(outcome: Outcome) -> tuple[float, ...]:
    return SIGNS[outcome.verdict].rank, -measured_margin(outcome)


def _gravity(finding: Finding) -> tuple[float, ...]:
    first = finding.outcomes[0]
    return (not finding.does_gate, WEIGHT[first.level], *_outcome_gravity(first))


def _pictured(found: list[Finding]) -> tuple[Finding, ...]:
    """The findings with their pictures, as long as the page has room for them; the first few stand open."""
    room = PICTURED_CELLS
    pictured = []
    for place, finding in enumerate(found):
        evidence = finding.outcomes[0].evidence
        pictures = evidence.pictures if evidence else ()
        cells = sum(map(drawn_cells, pictures))
        opened = replace(finding, is_open=place < OPEN)
        fits = cells <= room
        room -= cells if fits else 0
        pictured.append(replace(opened, pictures=grids(pictures)) if fits else replace(opened, omitted=len(pictures)))
    return tuple(pictured)
