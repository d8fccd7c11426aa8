"""Groups failures by what explains them: a finding has all its subjects, clauses and dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from attnspec.core.declaration import Harm
from attnspec.core.nouns import FAILURES, DType, Level, Verdict
from attnspec.record.outcome import ClauseText, KnownFinding, Outcome, does_explain, is_choice
from attnspec.report.figures import FINDINGS, LEVEL_WEIGHTS, SHORT_NAMES, SIGNS, Sign, ascii_name
from attnspec.report.joined import JoinedRecords, JudgedSubject, shade_verdict
from attnspec.report.pictures import PictureGrid, fit_pictures

EXPLAINED_VERDICTS = FINDINGS | {Verdict.EXPECTED}
PICTURED_CELLS = 750  # cells of pictures that a page draws; it refers to the record for further ones
CELLS_OF_ONE_FINDING = 150  # so that the first finding does not take them all
_UNDOCUMENTED = re.compile(r"(no|contradicted)\b|$")


class FailureCause(Enum):
    """What kind of explanation a failure has."""

    KNOWN = "known"        # a finding of the library's folder
    LISTED = "listed"      # a deviation of the manifest
    UNKNOWN = "not yet explained"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A clause that fails, at these dtypes, with the gravest of its verdicts."""

    clause: ClauseText
    dtypes: str
    sign: Sign
    css: str


@dataclass(frozen=True, slots=True)
class Concern:
    """Subjects for which the same clauses fail at the same dtypes."""

    subjects: tuple[JudgedSubject, ...]
    complaints: tuple[Complaint, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding of the audit.

    shown_outcome: the failure that is shown in full; None if no clause fails because of the
    finding.  libraries: name and version of each that it concerns.  level: of the strictest clause
    that fails.  items: how many failures it explains.
    """

    anchor: str
    cause: FailureCause
    says: str
    known_finding: KnownFinding | None
    libraries: tuple[str, ...]
    folders: tuple[str, ...]
    level: Level
    sign: Sign
    css: str
    concerns: tuple[Concern, ...]
    items: int
    shown_outcome: Outcome | None
    pictures: tuple[PictureGrid, ...] = ()
    omitted: int = 0

    @property
    def is_open(self) -> bool:
        """Whether nothing explains it."""
        return self.cause is FailureCause.UNKNOWN

    @property
    def harm(self) -> Harm | None:
        """The harm that the finding does to a user, if it is known."""
        if self.known_finding:
            return self.known_finding.harm
        return None

    @property
    def is_choice(self) -> bool:
        """Whether the finding is a convention that the library documents."""
        return self.known_finding is not None and is_choice(self.known_finding)

    @property
    def documented_words(self) -> str:
        """What the library says of it; empty if it says nothing, or the contrary."""
        documented = self.known_finding.documented if self.known_finding else ""
        return "" if _UNDOCUMENTED.match(documented) else documented

    @property
    def subjects(self) -> tuple[JudgedSubject, ...]:
        """The subjects concerned, each once."""
        by_number = {subject.number: subject
                     for concern in self.concerns for subject in concern.subjects}
        return tuple(by_number.values())

    @property
    def clauses(self) -> tuple[ClauseText, ...]:
        """The clauses that fail because of it, each once."""
        by_id = {complaint.clause.id: complaint.clause
                 for concern in self.concerns for complaint in concern.complaints}
        return tuple(by_id.values())


@dataclass(slots=True)
class _FailurePile:
    """The failures that have one explanation."""

    cause: FailureCause
    says: str
    known_finding: KnownFinding | None = None
    failures: list[tuple[JudgedSubject, Outcome]] = field(default_factory=list)
    holders: dict[int, JudgedSubject] = field(default_factory=dict)  # whose cards name the finding


def explain_failures(joined: JoinedRecords) -> tuple[AuditFinding, ...]:
    """Explains the failures of an audit: unexplained ones first, then the worst findings."""
    texts = {clause.id: clause for clause in joined.clauses}
    findings = [_make_finding(key, pile, texts) for key, pile in _pile_up_all(joined).items()]
    return _add_pictures_to_findings(sorted(findings, key=_finding_gravity))


def library_of(subject: JudgedSubject) -> str:
    """The library of a subject with its version: `PyTorch 2.13.0`."""
    card = subject.card
    name = card.library or card.distribution or subject.library.rstrip("/") or card.id
    return f"{name} {card.version}".strip()


def explaining_findings(subject: JudgedSubject, outcome: Outcome) -> Iterator[KnownFinding]:
    """The findings of a subject's library that explain a failure by its signs."""
    return (finding for finding in subject.card.findings if does_explain(finding, outcome))


def are_chosen(subject: JudgedSubject, outcomes: Iterable[Outcome]) -> bool:
    """Whether there are failures, and the library documents all of them as its choice.

    A run counts such a failure as expected, and names the finding. A failure that is listed for
    another reason has no finding.
    """
    failures = [outcome for outcome in outcomes if outcome.verdict in FAILURES
                or (outcome.verdict is Verdict.EXPECTED and outcome.finding)]
    for failure in failures:
        findings = tuple(explaining_findings(subject, failure))
        if not findings or not all(map(is_choice, findings)):
            return False
    return bool(failures)


def harm_rank(harm: Harm | None) -> int:
    """The rank of a harm: 0 is the gravest; an unknown harm comes last."""
    return harm.rank if harm else len(Harm)


def _pile_up_all(joined: JoinedRecords) -> Mapping[tuple[str, ...], _FailurePile]:
    piles: dict[tuple[str, ...], _FailurePile] = {}
    for subject in joined.subjects:
        for finding in subject.card.findings:
            pile = piles.setdefault(_finding_key(finding),
                                    _FailurePile(FailureCause.KNOWN, finding.says, finding))
            pile.holders[subject.number] = subject
        for outcomes in joined.outcomes_of_subject(subject).values():
            for outcome in outcomes:
                if outcome.verdict in EXPLAINED_VERDICTS:
                    _pile_up(piles, subject, outcome)
    return piles


def _pile_up(piles: dict[tuple[str, ...], _FailurePile], subject: JudgedSubject,
             outcome: Outcome) -> None:
    found = [piles[_finding_key(finding)] for finding in explaining_findings(subject, outcome)]
    for pile in found or [piles.setdefault(*_pile_without_finding(subject, outcome))]:
        pile.failures.append((subject, outcome))


def _finding_key(finding: KnownFinding) -> tuple[str, ...]:
    return FailureCause.KNOWN.value, finding.id


def _pile_without_finding(
    subject: JudgedSubject, outcome: Outcome,
) -> tuple[tuple[str, ...], _FailurePile]:
    """The pile of a failure without a finding, and its key: a listed reason, or the clause."""
    if outcome.verdict is Verdict.EXPECTED:
        key = (FailureCause.LISTED.value, subject.library, outcome.reason)
        return key, _FailurePile(FailureCause.LISTED, outcome.reason)
    key = (FailureCause.UNKNOWN.value, subject.library, outcome.clause)
    return key, _FailurePile(FailureCause.UNKNOWN, "")


def _make_finding(key: tuple[str, ...], pile: _FailurePile,
                  texts: Mapping[str, ClauseText]) -> AuditFinding:
    failures = pile.failures
    shown = min((outcome for _, outcome in failures), key=_clarity, default=None)
    subjects = [subject for subject, _ in failures] or list(pile.holders.values())
    worst, level = Verdict.HELD, Level.MAY
    if shown:
        worst, level = shown.verdict, shown.level
    is_documented = pile.known_finding is not None and is_choice(pile.known_finding)
    concerns = _concerns(failures, texts)
    if subjects and not concerns:
        concerns = (Concern(tuple(subjects), ()),)
    return AuditFinding(
        anchor=f"finding-{ascii_name('-'.join(key[1:]))}", cause=pile.cause,
        known_finding=pile.known_finding,
        says=pile.says or texts[failures[0][1].clause].says, level=level, sign=SIGNS[worst],
        css=shade_verdict(Verdict.EXPECTED if is_documented else worst, level),
        libraries=tuple(dict.fromkeys(map(library_of, subjects))),
        folders=tuple(dict.fromkeys(subject.library for subject in subjects)),
        concerns=concerns, items=len(failures), shown_outcome=shown)


def _clarity(outcome: Outcome) -> tuple[float, ...]:
    """Sorts by level, then by verdict, then diagnosed cases first, then by size."""
    evidence = outcome.evidence
    size = evidence.measured.entries if evidence and evidence.measured else 0
    # some failures are diagnosed at one dtype only
    is_undiagnosed = not (evidence and evidence.like)
    return (LEVEL_WEIGHTS[outcome.level], SIGNS[outcome.verdict].rank, is_undiagnosed, size,
            outcome.dtype is not DType.FLOAT32)


def _concerns(failures: Sequence[tuple[JudgedSubject, Outcome]],
              texts: Mapping[str, ClauseText]) -> tuple[Concern, ...]:
    """Groups subjects with the same complaints; the largest group comes first."""
    by_subject: dict[int, tuple[JudgedSubject, list[Outcome]]] = {}
    for subject, outcome in failures:
        by_subject.setdefault(subject.number, (subject, []))[1].append(outcome)
    by_complaints: dict[tuple[Complaint, ...], list[JudgedSubject]] = {}
    for subject, outcomes in by_subject.values():
        by_complaints.setdefault(_complaints_of_clauses(outcomes, texts), []).append(subject)
    ordered = sorted(by_complaints.items(), key=lambda item: -len(item[1]))
    return tuple(Concern(tuple(subjects), complaints) for complaints, subjects in ordered)


def _complaints_of_clauses(outcomes: Sequence[Outcome],
                           texts: Mapping[str, ClauseText]) -> tuple[Complaint, ...]:
    clauses: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        clauses.setdefault(outcome.clause, []).append(outcome)
    return tuple(_complaint_of_clause(texts[clause], group) for clause, group in clauses.items())


def _complaint_of_clause(clause: ClauseText, group: Sequence[Outcome]) -> Complaint:
    worst = min(group, key=lambda outcome: SIGNS[outcome.verdict].rank)
    dtypes = " ".join(SHORT_NAMES[outcome.dtype] for outcome in group)
    return Complaint(clause, dtypes, SIGNS[worst.verdict],
                     shade_verdict(worst.verdict, worst.level))


def _finding_gravity(finding: AuditFinding) -> tuple[object, ...]:
    return (finding.cause is not FailureCause.UNKNOWN, finding.shown_outcome is None,
            harm_rank(finding.harm), LEVEL_WEIGHTS[finding.level], finding.sign.rank,
            bool(finding.documented_words), -len(finding.subjects), -finding.items,
            finding.anchor)


def _add_pictures_to_findings(findings: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Adds the pictures of the case that is shown while the page has room for them."""
    outcomes = [finding.shown_outcome for finding in findings]
    cases = [each.evidence.pictures if each and each.evidence else () for each in outcomes]
    drawn = fit_pictures(cases, PICTURED_CELLS, CELLS_OF_ONE_FINDING)
    with_pictures = []
    for finding, pictures, grids in zip(findings, cases, drawn, strict=True):
        omitted = len(pictures) if grids is None else 0
        with_pictures.append(replace(finding, pictures=grids or (), omitted=omitted))
    return tuple(with_pictures)
