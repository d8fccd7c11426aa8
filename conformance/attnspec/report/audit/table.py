"""The table of an audit: a line a subject, a table a library; and the clauses, by how subjects fared under each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from attnspec.core.harm import Harm
from attnspec.core.nouns import FAILURES, DType, Level, Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.explaining import is_choice
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.report.audit.explained import are_chosen, explaining_findings, harm_rank, library_of
from attnspec.report.clause_table import shade_verdict, tally_verdicts
from attnspec.report.figures import SHORT, SIGNS, Sign, overall_verdict
from attnspec.report.joined import JoinedRecords, JudgedSubject

GRADE, ASKED = "precision grade", "precision"  # the reading, and the question of a probe, that tell the grade


@dataclass(frozen=True, slots=True)
class Counts:
    """Clauses by verdict, each as the gravest of its dtypes. `must`, `should`, `may`: those violated, by level.

    known: listed deviations.  odd: deviations not as listed.  undecided: not run, or no claim was made.
    chosen: violated by a documented choice and nothing else.  chosen_must: how many of those are `must` clauses.
    """

    held: int
    must: int
    should: int
    may: int
    known: int
    odd: int
    inapplicable: int
    undecided: int
    chosen: int = 0
    chosen_must: int = 0

    @property
    def applicable(self) -> int:
        """All clauses but those that cannot be put to it, and those that it documents not to keep."""
        return self.held + self.must + self.should + self.may + self.known + self.odd + self.undecided

    @property
    def share(self) -> str:
        """The clauses held, of those that apply: `59 of 62`."""
        return f"{self.held} of {self.applicable}"


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near an outcome came to its allowance, or how far beyond: its margin, the clause and the dtype."""

    margin: float
    clause: str
    dtype: str


class AuditStanding(Enum):
    """How a subject fares in the audit, gravest first."""

    BREAKS = "breaks a must clause"
    UNFINISHED = "not judged to the end"
    CHOOSES = "keeps every must clause, apart from a documented choice"
    KEEPS = "keeps every must clause"

    @property
    def rank(self) -> int:
        """The rank of a standing: 0 is the gravest."""
        return tuple(AuditStanding).index(self)


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A subject. closest: of what it holds, what came nearest to its allowance.  grades: pairs of dtype and grade.

    cases: how many were tried.
    harm: the gravest of what makes it break `must` clauses, if anybody has said.  is_explained: whether all of it is.
    """

    subject: JudgedSubject
    counts: Counts
    closest: Nearness | None
    grades: tuple[tuple[str, str], ...]
    cases: int
    harm: Harm | None = None
    is_explained: bool = True

    @property
    def standing(self) -> AuditStanding:
        """How the subject stands: what breaks a clause breaks it, however much else was not judged."""
        if self.breaks:
            return AuditStanding.BREAKS
        if self.subject.broken or self.counts.undecided or not self.counts.held:
            return AuditStanding.UNFINISHED
        return AuditStanding.CHOOSES if self.counts.chosen_must else AuditStanding.KEEPS

    @property
    def verdict(self) -> str:
        """How the subject stands, in words, with the gravest of what it does."""
        cause = self.harm.says if self.harm else ""
        return ": ".join(filter(None, (self.standing.value, cause if self.is_explained else "not yet explained")))

    @property
    def weight(self) -> tuple[int, ...]:
        """What matters most comes first, and what nobody has explained before it: it may be anything."""
        return self.standing.rank, harm_rank(self.harm) if self.is_explained else -1, -self.counts.must

    @property
    def breaks(self) -> bool:
        """Whether the subject breaks a `must` clause, or a listed deviation is not as listed."""
        return bool(self.counts.must or self.counts.odd)


@dataclass(frozen=True, slots=True)
class LibraryTable:
    """The subjects of one library at one version. `card`: that of the first, for where the library comes from."""

    library: str
    card: SubjectCard
    lines: tuple[SubjectLine, ...]


def library_tables(joined: JoinedRecords) -> tuple[LibraryTable, ...]:
    """Every library, that with the gravest line first, and its gravest line first."""
    groups: dict[tuple[str, str], list[JudgedSubject]] = {}
    for subject in joined.subjects:
        groups.setdefault((subject.library, library_of(subject)), []).append(subject)
    made = [LibraryTable(name, people[0].card, tuple(sorted((_line(joined, each) for each in people), key=_weight)))
            for (_, name), people in groups.items()]
    return tuple(sorted(made, key=lambda shelf: shelf.lines[0].weight))


def _weight(line: SubjectLine) -> tuple[int, ...]:
    return line.weight


def _line(joined: JoinedRecords, subject: JudgedSubject) -> SubjectLine:
    outcomes = joined.of_subject(subject)
    flat = [outcome for group in outcomes.values() for outcome in group]
    return SubjectLine(
        subject, counted_by_verdict(subject, outcomes.values()),
        closest_case(outcome for outcome in flat if outcome.verdict is Verdict.HELD), _grades(joined, subject, flat),
        sum(outcome.cases for outcome in flat), *_harm(subject, flat))


def _harm(subject: JudgedSubject, outcomes: Iterable[Outcome]) -> tuple[Harm | None, bool]:
    """The gravest of what makes it break `must` clauses, and whether all of that is explained."""
    found = [tuple(explaining_findings(subject, outcome)) for outcome in outcomes
             if outcome.verdict in FAILURES and outcome.level is Level.MUST]
    harms = [cause.harm for each in found for cause in each if not is_choice(cause)]
    return min(harms, key=harm_rank, default=None), all(found)


def counted_by_verdict(subject: JudgedSubject, groups: Iterable[Sequence[Outcome]]) -> Counts:
    """The clauses of a subject by verdict; groups: the outcomes of each."""
    chosen: list[Level] = []
    found: Counter[tuple[Verdict, Level]] = Counter()
    for group in groups:
        if are_chosen(subject, group):
            chosen.append(group[0].level)
        else:
            found[overall_verdict(outcome.verdict for outcome in group), group[0].level] += 1
    by_verdict: Counter[Verdict] = Counter()
    by_level: Counter[Level] = Counter()
    for (verdict, level), number in found.items():
        by_verdict[verdict] += number
        by_level[level] += number if verdict in FAILURES else 0
    return Counts(
        held=by_verdict[Verdict.HELD], must=by_level[Level.MUST], should=by_level[Level.SHOULD],
        may=by_level[Level.MAY], known=by_verdict[Verdict.EXPECTED], odd=by_verdict[Verdict.UNEXPECTED],
        inapplicable=by_verdict[Verdict.INAPPLICABLE],
        undecided=by_verdict[Verdict.NO_CLAIM] + by_verdict[Verdict.NOT_RUN],
        chosen=len(chosen), chosen_must=chosen.count(Level.MUST))


def closest_case(outcomes: Iterable[Outcome]) -> Nearness | None:
    """What came nearest to its allowance, of what was tried."""
    calls = [Nearness(math.inf if math.isnan(worst.margin) else worst.margin, outcome.clause, SHORT[outcome.dtype])
             for outcome in outcomes if (worst := outcome.worst) is not None and outcome.cases]
    return max(calls, key=lambda call: call.margin, default=None)


def _grades(joined: JoinedRecords, subject: JudgedSubject, outcomes: Iterable[Outcome]) -> tuple[tuple[str, str], ...]:
    """What the engine's instrument read, else what a probe was answered."""
    asked = {probe.dtype: found.answer for probe in joined.probes.get(subject.number, ()) if not probe.variant
             for found in probe.found if found.question == ASKED}
    read = {outcome.dtype: str(reading.value)
            for outcome in outcomes for reading in outcome.readings if reading.quantity == GRADE}
    told: Mapping[DType, str] = {**asked, **read}
    return tuple((SHORT[dtype], told[dtype]) for dtype in DType if dtype in told)


@dataclass(frozen=True, slots=True)
class ClauseTally:
    """A clause. `tally`: subjects by verdict, gravest first; `worst` of them: None where nobody was asked."""

    number: int
    clause: ClauseText
    tally: tuple[tuple[Sign, int], ...]
    worst: Sign | None
    css: str
    is_changed: bool


def tally_clauses(joined: JoinedRecords) -> tuple[tuple[str, tuple[ClauseTally, ...]], ...]:
    """Tallies the clauses of all subjects, by theme."""
    entries = [_entry(joined, number) for number in range(len(joined.clauses))]
    return tuple((name, tuple(group)) for name, group in groupby(entries, key=lambda entry: entry.clause.theme))


def _entry(joined: JoinedRecords, number: int) -> ClauseTally:
    clause = joined.clauses[number]
    asked = [outcomes for subject in joined.subjects if (outcomes := joined.outcomes_of(subject, clause.id))]
    verdicts = [overall_verdict(outcome.verdict for outcome in outcomes) for outcomes in asked]
    worst: Verdict | None = overall_verdict(verdicts) if verdicts else None
    return ClauseTally(number, clause, tally_verdicts(verdicts), SIGNS[worst] if worst else None,
                 shade_verdict(worst, clause.level) if worst else "idle", clause.id in joined.changed)
