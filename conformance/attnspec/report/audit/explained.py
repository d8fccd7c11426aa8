"""Failures by what explains them: one finding for all subjects, clauses and dtypes that complain of the same thing."""

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
# how many picture cells the page draws before it refers to the record instead
PICTURED_CELLS = 750
# and how many the pictures of one finding may have, so that the first does not take them all
CELLS_OF_ONE_FINDING = 150
_UNDOCUMENTED = re.compile(r"(no|contradicted)\b|$")


class FailureCause(Enum):
    """What is behind failures."""

    KNOWN = "known"        # a finding of the library's folder
    LISTED = "listed"      # a deviation of the manifest
    UNKNOWN = "not yet explained"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A clause that complains, at these dtypes, in the gravest of its verdicts."""

    clause: ClauseText
    dtypes: str
    sign: Sign
    css: str


@dataclass(frozen=True, slots=True)
class Concern:
    """Subjects about which the same clauses complain at the same dtypes."""

    subjects: tuple[JudgedSubject, ...]
    complaints: tuple[Complaint, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One finding of the audit. `shown`: the failure that is shown in full, None where no clause complains of it.

    libraries: name and version of those concerned.  level: of the strictest clause that complains.
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
        """What the finding does to a user, if anybody has said."""
        if self.known_finding:
            return self.known_finding.harm
        return None

    @property
    def is_choice(self) -> bool:
        """Whether the finding is a convention that the library documents."""
        return self.known_finding is not None and is_choice(self.known_finding)

    @property
    def documented_words(self) -> str:
        """What the library says of it; empty if nothing, or the contrary."""
        documented = self.known_finding.documented if self.known_finding else ""
        return "" if _UNDOCUMENTED.match(documented) else documented

    @property
    def subjects(self) -> tuple[JudgedSubject, ...]:
        """Everybody concerned, each once."""
        told = (subject for concern in self.concerns for subject in concern.subjects)
        return tuple({subject.number: subject for subject in told}.values())

    @property
    def clauses(self) -> tuple[ClauseText, ...]:
        """The clauses that complain, each once."""
        told = (complaint.clause for concern in self.concerns for complaint in concern.complaints)
        return tuple({clause.id: clause for clause in told}.values())


@dataclass(slots=True)
class _FailurePile:
    """The failures with one cause, as they are gathered."""

    cause: FailureCause
    says: str
    known_finding: KnownFinding | None = None
    failures: list[tuple[JudgedSubject, Outcome]] = field(default_factory=list)
    holders: dict[int, JudgedSubject] = field(default_factory=dict)  # whose cards name the finding


def explain_failures(joined: JoinedRecords) -> tuple[AuditFinding, ...]:
    """Explains the failures of an audit: all findings, the most important first, those without any explanation before
    all.
    """
    texts = {clause.id: clause for clause in joined.clauses}
    made = [_make_finding(key, pile, texts) for key, pile in _pile_up_all(joined).items()]
    return _add_pictures_to_findings(sorted(made, key=_finding_gravity))


def library_of(subject: JudgedSubject) -> str:
    """The library of a subject with its version: `PyTorch 2.13.0`."""
    card = subject.card
    return f"{card.library or card.distribution or subject.library.rstrip('/') or card.id} {card.version}".strip()


def explaining_findings(subject: JudgedSubject, outcome: Outcome) -> Iterator[KnownFinding]:
    """The findings of the subject's library that explain a failure, by what was seen of it."""
    return (finding for finding in subject.card.findings if does_explain(finding, outcome))


def are_chosen(subject: JudgedSubject, outcomes: Iterable[Outcome]) -> bool:
    """Whether there are failures, and all are what the library documents that it does: conventions, nothing broken.

    A run tells such a failure as expected, by the finding; one that is listed for another reason names no finding.
    """
    found = [tuple(explaining_findings(subject, outcome)) for outcome in outcomes
             if outcome.verdict in FAILURES
             or (outcome.verdict is Verdict.EXPECTED and outcome.finding)]
    return bool(found) and all(each and all(map(is_choice, each)) for each in found)


def harm_rank(harm: Harm | None) -> int:
    """The rank of a harm: 0 is the gravest; what nobody has judged comes after all else."""
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


def _pile_without_finding(subject: JudgedSubject, outcome: Outcome) -> tuple[tuple[str, ...],
                                                                             _FailurePile]:
    """Where a failure belongs that no finding explains: a listed deviation by its reason, else by its clause."""
    if outcome.verdict is Verdict.EXPECTED:
        return (FailureCause.LISTED.value, subject.library,
                outcome.reason), _FailurePile(FailureCause.LISTED,
                                              outcome.reason)
    return (FailureCause.UNKNOWN.value, subject.library,
            outcome.clause), _FailurePile(FailureCause.UNKNOWN, "")


def _make_finding(key: tuple[str, ...], pile: _FailurePile,
                  texts: Mapping[str, ClauseText]) -> AuditFinding:
    failures = pile.failures
    shown = min((outcome for _, outcome in failures), key=_clarity, default=None)
    people = [subject for subject, _ in failures] or list(pile.holders.values())
    worst = shown.verdict if shown else Verdict.HELD
    level = shown.level if shown else Level.MAY
    return AuditFinding(
        anchor=f"finding-{ascii_name('-'.join(key[1:]))}", cause=pile.cause,
        known_finding=pile.known_finding,
        says=pile.says or texts[failures[0][1].clause].says, level=level, sign=SIGNS[worst],
        css=_finding_css(pile, worst, level),
        libraries=tuple(dict.fromkeys(map(library_of, people))),
        folders=tuple(dict.fromkeys(subject.library for subject in people)),
        concerns=_concerns(failures, texts) or ((Concern(tuple(people), ()),) if people else ()),
        items=len(failures), shown_outcome=shown)


def _finding_css(pile: _FailurePile, worst: Verdict, level: Level) -> str:
    return shade_verdict(Verdict.EXPECTED if pile.known_finding and is_choice(pile.known_finding)
                         else worst, level)


def _clarity(outcome: Outcome) -> tuple[float, ...]:
    """The strictest clause first, then the gravest verdict, then a case that was diagnosed, then the smallest."""
    measured = outcome.evidence.measured if outcome.evidence else None
    size = measured.entries if measured else 0
    # some are diagnosed at one dtype alone
    is_bare = not (outcome.evidence and outcome.evidence.like)
    return (LEVEL_WEIGHTS[outcome.level], SIGNS[outcome.verdict].rank, is_bare, size,
            outcome.dtype is not DType.FLOAT32)


def _concerns(failures: Sequence[tuple[JudgedSubject, Outcome]],
              texts: Mapping[str, ClauseText]) -> tuple[Concern, ...]:
    """Subjects with the same complaints stand together; the most spoken of come first."""
    alike: dict[tuple[Complaint, ...], list[JudgedSubject]] = {}
    for subject, outcomes in _group_by_subject(failures):
        alike.setdefault(_complaints_of_clauses(outcomes, texts), []).append(subject)
    ordered = sorted(alike.items(), key=lambda item: -len(item[1]))
    return tuple(Concern(tuple(subjects), complaints) for complaints, subjects in ordered)


def _group_by_subject(failures: Iterable[tuple[JudgedSubject,
                                               Outcome]]) -> Iterable[tuple[JudgedSubject,
                                                                            list[Outcome]]]:
    found: dict[int, tuple[JudgedSubject, list[Outcome]]] = {}
    for subject, outcome in failures:
        found.setdefault(subject.number, (subject, []))[1].append(outcome)
    return found.values()


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


def _finding_gravity(told: AuditFinding) -> tuple[object, ...]:
    return (told.cause is not FailureCause.UNKNOWN, told.shown_outcome is None,
            harm_rank(told.harm),
            LEVEL_WEIGHTS[told.level], told.sign.rank, bool(told.documented_words),
            -len(told.subjects), -told.items,
            told.anchor)


def _add_pictures_to_findings(found: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The findings with the pictures of the case that is shown, as long as the page has room for them."""
    evidence = [told.shown_outcome.evidence if told.shown_outcome else None for told in found]
    cases = [each.pictures if each else () for each in evidence]
    drawn = fit_pictures(cases, PICTURED_CELLS, CELLS_OF_ONE_FINDING)
    return tuple(replace(told, omitted=len(pictures)) if grids is None else replace(told,
                                                                                    pictures=grids)
                 for told, pictures, grids in zip(found, cases, drawn, strict=True))
