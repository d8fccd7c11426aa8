"""The findings of a page: one card for all that one bug makes an implementation fail, worst first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnspec.core.nouns import FAILURES, Verdict
from attnspec.record.outcome import ClauseText, KnownFinding, Outcome
from attnspec.report.audit.explained import explaining_findings
from attnspec.report.bugs import explain_bugs, is_endless, rank_clarity
from attnspec.report.figures import ADVICE, FINDINGS, OTHER_CONVENTION, SHORT, SIGNS, WEIGHT, Sign, count_noun
from attnspec.report.joined import JoinedRecords, JudgedSubject, finding_anchor, shade_verdict
from attnspec.report.likely_cause import ExplainedFailures, LikelyCause, is_other_convention
from attnspec.report.pictures import PictureGrid, fit_pictures

PICTURED_CELLS = 1_100   # how many picture cells a page draws before it refers to the record instead
OPEN = 24                # how many findings that gate stand open; the rest can be opened one by one


@dataclass(frozen=True, slots=True)
class PageFinding:
    """`outcomes` are those of the failing dtypes, gravest first; `pictures` belong to the first of them.

    cause: what is likely behind it, None if nobody knows.  alike: the findings under further clauses that this cause
    explains, too.  known: what the library's folder says of it.  failures: how many the cause explains, by which the
    console names the first.
    """

    anchor: str
    clause: ClauseText
    subject: JudgedSubject
    sign: Sign
    css: str
    dtypes: str
    outcomes: tuple[Outcome, ...]
    does_gate: bool
    is_open: bool = True
    pictures: tuple[PictureGrid, ...] = ()
    omitted: int = 0
    alike: tuple[PageFinding, ...] = ()
    known: tuple[KnownFinding, ...] = ()
    cause: LikelyCause | None = None
    failures: int = 0

    @property
    def clauses(self) -> int:
        """How many clauses fail by it."""
        return 1 + len(self.alike)

    @property
    def explains(self) -> str:
        """`16 clauses and 1 recommendation`: what the console counts, and what does not gate."""
        gating = sum(each.does_gate for each in (self, *self.alike))
        told = {"clause": gating, "recommendation": self.clauses - gating}
        return " and ".join(count_noun(number, noun) for noun, number in told.items() if number)


def make_findings(joined: JoinedRecords, *, strict: bool) -> tuple[PageFinding, ...]:
    """All findings about implementations (those about faults are the trust matrix), worst first."""
    cards = [card for subject in joined.subjects for card in _of_one(joined, subject, strict=strict)]
    return _add_pictures(sorted(cards, key=_gravity))


def _of_one(joined: JoinedRecords, subject: JudgedSubject, *, strict: bool) -> Iterator[PageFinding]:
    """One card a cause, and one a clause of which nobody knows the cause, or that is not as listed."""
    every = [_finding(number, clause, subject, joined.outcomes_of(subject, clause.id), strict=strict)
             for number, clause in enumerate(joined.clauses)]
    left = {finding.clause.id: finding for finding in every if finding}
    failures = [outcome for finding in left.values() for outcome in finding.outcomes if outcome.verdict in FAILURES]
    for group in _grouped(failures, strict=strict):
        alike = [left.pop(failure.clause) for failure in group.failures if failure.clause in left]
        if group.cause is None:
            yield from alike
        elif alike:
            yield replace(_led_by(alike[0], group), alike=tuple(alike[1:]), cause=group.cause,
                          failures=len(group.failures))
    yield from left.values()


def _grouped(failures: Sequence[Outcome], *, strict: bool) -> Sequence[ExplainedFailures]:
    """What gates by its causes, as the head of the page and the console count them; advice that fails for one of these
    joins it.
    """
    gating = [failure for failure in failures if failure.does_gate(strict=strict)]
    groups = list(explain_bugs(gating))
    for beside in explain_bugs(failures) if len(gating) < len(failures) else ():
        advice = tuple(failure for failure in beside.failures if not failure.does_gate(strict=strict))
        host = max(groups, key=lambda group: _count_shared_failures(group, beside), default=None)
        if advice and host and host.cause and beside.cause and _count_shared_failures(host, beside):
            groups[groups.index(host)] = replace(host, failures=(*host.failures, *advice))
        elif advice:
            groups.append(replace(beside, failures=advice))
    return groups


def _count_shared_failures(group: ExplainedFailures, beside: ExplainedFailures) -> int:
    """How many failures two groups have in common."""
    return sum(failure in beside.failures for failure in group.failures)


def _led_by(finding: PageFinding, group: ExplainedFailures) -> PageFinding:
    """The same with what the cause explains in front: the title and the case that is shown are of one dtype."""
    mine = {failure.dtype for failure in group.failures if failure.clause == finding.clause.id}
    return replace(finding, outcomes=tuple(sorted(finding.outcomes, key=lambda each: each.dtype not in mine)))


def _of_advice(outcome: Outcome) -> Sign:
    return OTHER_CONVENTION if is_other_convention(outcome) else ADVICE


def _finding(
    number: int, clause: ClauseText, subject: JudgedSubject, outcomes: tuple[Outcome, ...], *, strict: bool,
) -> PageFinding | None:
    failed = sorted((outcome for outcome in outcomes if outcome.verdict in FINDINGS), key=_outcome_gravity)
    if not failed:
        return None
    worst, does_gate = failed[0], any(o.does_gate(strict=strict) for o in failed)
    is_advice = worst.verdict is Verdict.VIOLATED and not does_gate and not worst.is_excused
    return PageFinding(
        anchor=finding_anchor(number, subject), clause=clause, subject=subject, outcomes=tuple(failed),
        sign=_of_advice(worst) if is_advice else SIGNS[worst.verdict], css=shade_verdict(worst.verdict, worst.level),
        dtypes=" ".join(SHORT[o.dtype] for o in outcomes if o in failed),
        does_gate=does_gate,
        known=tuple({known.id: known for outcome in failed
                     for known in explaining_findings(subject, outcome)}.values()))


def measured_margin(outcome: Outcome) -> float:
    """The margin of the counterexample; 0 where none was measured."""
    measured = outcome.evidence.measured if outcome.evidence else None
    if measured is None:
        return 0.0
    return math.inf if math.isnan(measured.margin) else measured.margin


def _outcome_gravity(outcome: Outcome) -> tuple[float, ...]:
    return SIGNS[outcome.verdict].rank, is_endless(outcome), -measured_margin(outcome)


def _gravity(finding: PageFinding) -> tuple[float, ...]:
    first = finding.outcomes[0]
    return (not finding.does_gate, WEIGHT[first.level], SIGNS[first.verdict].rank, -finding.failures, -finding.clauses,
            *rank_clarity(first), *_outcome_gravity(first))


def _add_pictures(found: list[PageFinding]) -> tuple[PageFinding, ...]:
    """The findings with their pictures, as long as the page has room for them; the first few stand open."""
    opened = [replace(finding, is_open=finding.does_gate and place < OPEN) for place, finding in enumerate(found)]
    evidence = [finding.outcomes[0].evidence for finding in found]
    cases = [each.pictures if each else () for each in evidence]
    drawn = fit_pictures(cases, PICTURED_CELLS, PICTURED_CELLS)
    return tuple(replace(finding, omitted=len(pictures)) if grids is None else replace(finding, pictures=grids)
                 for finding, pictures, grids in zip(opened, cases, drawn, strict=True))
