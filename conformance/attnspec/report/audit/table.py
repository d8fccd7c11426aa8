"""Makes the tables of an audit: of libraries, of clauses, and of gradients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, groupby

from attnspec.core.declaration import Harm
from attnspec.core.keyword import GRADIENTS_PROFILE
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import FAILURES, DType, Kind, Level, Verdict
from attnspec.record.outcome import ClauseText, Outcome, SubjectCard, is_choice
from attnspec.report.audit.conventions import ConventionAnswer, group_answers
from attnspec.report.audit.explained import are_chosen, explaining_findings, harm_rank, library_of
from attnspec.report.figures import (
    DECIDED,
    FINDINGS,
    SHORT_NAMES,
    SIGNS,
    Sign,
    overall_verdict,
    shared_reason,
)
from attnspec.report.joined import JoinedRecords, JudgedSubject, shade_verdict, tally_verdicts

# the reading, and the question of a probe, that tell the grade
GRADE, ASKED = "precision grade", "precision"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many clauses have which verdict, each counted by the gravest of its dtypes.

    must, should, may: violated, by level.  known: listed deviations.  odd: deviations not as
    listed.  undecided: not run, or no claim was made.  chosen: violated only by a documented
    choice.  chosen_must: how many of those are `must` clauses.
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
        """The number of clauses that apply, documented choices left out."""
        return (self.held + self.must + self.should + self.may + self.known + self.odd
                + self.undecided)

    @property
    def share(self) -> str:
        """The clauses held, of those that apply: `59 of 62`."""
        return f"{self.held} of {self.applicable}"


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near an outcome came to its allowance: its margin, the clause and the dtype."""

    margin: float
    clause: str
    dtype: str


class AuditStanding(Enum):
    """How a subject stands in the audit, the gravest first."""

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
    """A subject in the table of its library.

    closest: what came nearest to its allowance, of what holds.  grades: pairs of a dtype and a
    precision grade.  cases: how many were tried.  harm: the gravest of what makes it break `must`
    clauses, if it is known.  is_explained: whether findings explain all of that.
    """

    subject: JudgedSubject
    counts: Counts
    closest: Nearness | None
    grades: tuple[tuple[str, str], ...]
    cases: int
    harm: Harm | None = None
    is_explained: bool = True

    @property
    def audit_standing(self) -> AuditStanding:
        """How the subject stands. A broken clause counts before what was not judged."""
        if self.breaks:
            return AuditStanding.BREAKS
        if self.subject.broken_reason or self.counts.undecided or not self.counts.held:
            return AuditStanding.UNFINISHED
        if self.counts.chosen_must:
            return AuditStanding.CHOOSES
        return AuditStanding.KEEPS

    @property
    def verdict(self) -> str:
        """How the subject stands, in words, with the gravest of what it does."""
        words = [self.audit_standing.value]
        if not self.is_explained:
            words.append("not yet explained")
        elif self.harm:
            words.append(self.harm.says)
        return ": ".join(words)

    @property
    def weight(self) -> tuple[int, ...]:
        """A key to sort by: what matters most comes first, unexplained failures before it."""
        harm = harm_rank(self.harm) if self.is_explained else -1
        return self.audit_standing.rank, harm, -self.counts.must

    @property
    def breaks(self) -> bool:
        """Whether the subject breaks a `must` clause, or a listed deviation is not as listed."""
        return bool(self.counts.must or self.counts.odd)


@dataclass(frozen=True, slots=True)
class LibraryTable:
    """The subjects of one library at one version. card: the first subject's, which says where the
    library comes from.
    """

    library: str
    card: SubjectCard
    lines: tuple[SubjectLine, ...]


def library_tables(joined: JoinedRecords) -> tuple[LibraryTable, ...]:
    """Makes the tables of all libraries; the gravest table and the gravest line come first."""
    groups: dict[tuple[str, str], list[JudgedSubject]] = {}
    for subject in joined.subjects:
        groups.setdefault((subject.library, library_of(subject)), []).append(subject)
    tables = []
    for (_, name), subjects in groups.items():
        lines = [_make_subject_line(joined, subject) for subject in subjects]
        lines.sort(key=lambda line: line.weight)
        tables.append(LibraryTable(name, subjects[0].card, tuple(lines)))
    return tuple(sorted(tables, key=lambda table: table.lines[0].weight))


def _make_subject_line(joined: JoinedRecords, subject: JudgedSubject) -> SubjectLine:
    outcomes = joined.outcomes_of_subject(subject)
    flat = [outcome for group in outcomes.values() for outcome in group]
    return SubjectLine(
        subject, counted_by_verdict(subject, outcomes.values()),
        closest_case(outcome for outcome in flat if outcome.verdict is Verdict.HELD),
        _grades(joined, subject, flat),
        sum(outcome.cases for outcome in flat), *_gravest_harm(subject, flat))


def _gravest_harm(subject: JudgedSubject, outcomes: Iterable[Outcome]) -> tuple[Harm | None, bool]:
    """The gravest reason for breaking `must` clauses, and whether all of them are explained."""
    harms, is_explained = list[Harm | None](), True
    for outcome in outcomes:
        if outcome.verdict in FAILURES and outcome.level is Level.MUST:
            findings = tuple(explaining_findings(subject, outcome))
            is_explained = is_explained and bool(findings)
            harms += [finding.harm for finding in findings if not is_choice(finding)]
    return min(harms, key=harm_rank, default=None), is_explained


def counted_by_verdict(subject: JudgedSubject, groups: Iterable[Sequence[Outcome]]) -> Counts:
    """Counts the clauses of a subject by verdict. groups: the outcomes of each clause."""
    by_verdict: Counter[Verdict] = Counter()
    chosen: Counter[Level] = Counter()
    failing: Counter[Level] = Counter()
    for group in groups:
        level = group[0].level
        if are_chosen(subject, group):
            chosen[level] += 1
            continue
        verdict = overall_verdict(outcome.verdict for outcome in group)
        by_verdict[verdict] += 1
        if verdict in FAILURES:
            failing[level] += 1
    return Counts(
        held=by_verdict[Verdict.HELD], must=failing[Level.MUST], should=failing[Level.SHOULD],
        may=failing[Level.MAY], known=by_verdict[Verdict.EXPECTED],
        odd=by_verdict[Verdict.UNEXPECTED], inapplicable=by_verdict[Verdict.INAPPLICABLE],
        undecided=by_verdict[Verdict.NO_CLAIM] + by_verdict[Verdict.NOT_RUN],
        chosen=chosen.total(), chosen_must=chosen[Level.MUST])


def closest_case(outcomes: Iterable[Outcome]) -> Nearness | None:
    """Finds the case that came nearest to its allowance; NaN counts as beyond it."""
    cases = []
    for outcome in outcomes:
        if outcome.worst is not None and outcome.cases:
            margin = outcome.worst.margin
            if math.isnan(margin):
                margin = math.inf
            cases.append(Nearness(margin, outcome.clause, SHORT_NAMES[outcome.dtype]))
    return max(cases, key=lambda case: case.margin, default=None)


def _grades(joined: JoinedRecords, subject: JudgedSubject,
            outcomes: Iterable[Outcome]) -> tuple[tuple[str, str], ...]:
    """Reads the precision grades off the engine's instrument, or else off a probe."""
    asked = {probe.dtype: found.answer
             for probe in joined.probes.get(subject.number, ()) if not probe.variant
             for found in probe.found if found.question == ASKED}
    read = {outcome.dtype: str(reading.value)
            for outcome in outcomes for reading in outcome.readings if reading.quantity == GRADE}
    grades: Mapping[DType, str] = {**asked, **read}
    return tuple((SHORT_NAMES[dtype], grades[dtype]) for dtype in DType if dtype in grades)


@dataclass(frozen=True, slots=True)
class ClauseTally:
    """A clause with the number of subjects by verdict, the gravest verdict first. worst: the
    gravest verdict; None if the clause was asked of nobody.
    """

    number: int
    clause: ClauseText
    tally: tuple[tuple[Sign, int], ...]
    worst: Sign | None
    css: str
    is_changed: bool


def tally_clauses(joined: JoinedRecords) -> tuple[tuple[str, tuple[ClauseTally, ...]], ...]:
    """Counts subjects by verdict under every clause, by theme."""
    entries = [_tally_clause(joined, number) for number in range(len(joined.clauses))]
    return tuple((name, tuple(group))
                 for name, group in groupby(entries, key=lambda entry: entry.clause.theme))


def _tally_clause(joined: JoinedRecords, number: int) -> ClauseTally:
    clause = joined.clauses[number]
    verdicts = [overall_verdict(outcome.verdict for outcome in outcomes)
                for subject in joined.subjects
                if (outcomes := joined.outcomes_of(subject, clause.id))]
    sign, css = None, "idle"
    if verdicts:
        worst = overall_verdict(verdicts)
        sign, css = SIGNS[worst], shade_verdict(worst, clause.level)
    return ClauseTally(number, clause, tally_verdicts(verdicts), sign, css,
                       clause.id in joined.changed_clauses)


HIDDEN_ROWS = f"{GRADIENTS_PROFILE}.hidden_rows"
"""The clause about a query for which every key is masked."""

OWN, OTHERS = "its own", "others"
"""Whose gradients are told where one query sees no key."""

ROW_QUESTION, KEY_QUESTION = "gradient.hidden_row", "gradient.hidden_key"
"""The questions of a probe about masked rows and keys."""

_PARTLY_HEADING = "Why some were not judged with respect to everything"
_WHOLLY_HEADING = "Of which no gradients were judged, and why"

_GRADIENT_CLAUSE = f"{GRADIENTS_PROFILE}.of_"
_INPUTS = ("query", "key", "value")
_PARAMETERS = "params"


@dataclass(frozen=True, slots=True)
class GradientLine:
    """A subject whose gradients were judged.

    held_share: of the clauses that apply to it.  broken_clauses: those that it fails.  rounds:
    pairs of a dtype and where the backward pass rounds there, as declared.  closest: at each
    dtype, the case that came nearest to its bound, of what holds.  row, key: the gradients of a
    query that sees no key, and of a masked key.  given_arrays: the inputs whose gradients were
    judged.  ungiven: other inputs, by the reason why their gradients were not.
    """

    subject: JudgedSubject
    held_share: str
    broken_clauses: tuple[ClauseText, ...]
    rounds: tuple[tuple[str, str], ...]
    closest: tuple[Nearness, ...]
    row: tuple[ConventionAnswer, ...]
    key: tuple[ConventionAnswer, ...]
    given_arrays: tuple[str, ...]
    ungiven: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class UnjudgedGradients:
    """Why gradients were not judged, and whose."""

    reason: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The table of gradients. partly_judged: why some inputs of judged subjects were not.
    never_judged: why other subjects were not judged at all.
    """

    lines: tuple[GradientLine, ...]
    partly_judged: tuple[UnjudgedGradients, ...]
    never_judged: tuple[UnjudgedGradients, ...]

    @property
    def unjudged_by_heading(self) -> tuple[tuple[str, tuple[UnjudgedGradients, ...]], ...]:
        """Both lists of reasons under their headings; an empty list is left out."""
        return tuple(each for each in ((_PARTLY_HEADING, self.partly_judged),
                                       (_WHOLLY_HEADING, self.never_judged)) if each[1])


ByClause = Mapping[ClauseText, Sequence[Outcome]]


def describe_gradients(joined: JoinedRecords) -> Gradients | None:
    """Makes the table of gradients; None if no gradients were judged."""
    clauses = [clause for clause in joined.clauses if clause.profile == GRADIENTS_PROFILE]
    lines, others = [], list[tuple[str, str]]()
    for subject in joined.subjects:
        outcomes = {clause: joined.outcomes_of(subject, clause.id) for clause in clauses}
        outcomes = {clause: each for clause, each in outcomes.items() if each}
        every = [*chain.from_iterable(outcomes.values())]
        if _decides_gradients(every):
            lines.append(_gradient_line(joined, subject, outcomes))
        elif every:
            others.append((_unjudged_reason(subject.card, every), subject.label))
    if not lines:
        return None
    partly = ((reason, line.subject.label) for line in lines for reason in line.ungiven)
    return Gradients(tuple(lines), _group_reasons(partly), _group_reasons(others))


def _decides_gradients(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.verdict in DECIDED for outcome in outcomes)


def _gradient_line(joined: JoinedRecords, subject: JudgedSubject,
                   outcomes: ByClause) -> GradientLine:
    given, ungiven = [], []
    for name, each in _group_by_input(outcomes).items():
        if _decides_gradients(each):
            given.append(name)
        elif _takes_input(subject.card, name):
            ungiven.append((_unjudged_reason(subject.card, each), name))
    return GradientLine(
        subject, counted_by_verdict(subject, outcomes.values()).share,
        tuple(_broken_clauses(subject, outcomes)),
        _rounding_of_backward(subject.card), tuple(_closest_gradients(subject, outcomes)),
        (*_own_answers(joined.outcomes_of(subject, HIDDEN_ROWS)),
         *_answers_of_others(group_answers(joined, subject, ROW_QUESTION))),
        group_answers(joined, subject, KEY_QUESTION), tuple(given), _group_by_first(ungiven))


def _group_by_input(outcomes: ByClause) -> Mapping[str, Sequence[Outcome]]:
    """Groups the outcomes of clauses about one gradient by its input."""
    named = {_differentiated_input(clause): each for clause, each in outcomes.items()}
    order = (*(name for name in _INPUTS if name in named), *named)
    return {name: named[name] for name in order if name}


def _differentiated_input(clause: ClauseText) -> str:
    """The input whose gradient a clause is about: `query` of `gradients.of_query`."""
    if not clause.id.startswith(_GRADIENT_CLAUSE):
        return ""
    name = clause.id.removeprefix(_GRADIENT_CLAUSE).replace("_", " ")
    is_array = name in _INPUTS or (name in KEYWORDS and KEYWORDS[name].axes)
    return name if is_array or _PARAMETERS in clause.needs else ""


def _takes_input(card: SubjectCard, name: str) -> bool:
    """Whether a subject takes that input; parameters are taken by layers."""
    if name in KEYWORDS:
        return KEYWORDS[name].profile in card.claims
    return name in _INPUTS or card.kind == Kind.LAYER.value


def _unjudged_reason(card: SubjectCard, outcomes: Sequence[Outcome]) -> str:
    """Why gradients were not judged, in words that several subjects may share."""
    reason = next((outcome.reason for outcome in outcomes if outcome.reason), "no claim was made")
    return shared_reason(card.id, reason)


def _broken_clauses(subject: JudgedSubject, outcomes: ByClause) -> Iterator[ClauseText]:
    for clause, each in outcomes.items():
        if any(outcome.verdict in FINDINGS for outcome in each) and not are_chosen(subject, each):
            yield clause


def _rounding_of_backward(card: SubjectCard) -> tuple[tuple[str, str], ...]:
    return tuple((SHORT_NAMES[dtype], card.backward[dtype.value])
                 for dtype in DType if dtype.value in card.backward)


def _closest_gradients(subject: JudgedSubject, outcomes: ByClause) -> Iterator[Nearness]:
    held = [outcome for outcome in chain.from_iterable(outcomes.values())
            if outcome.verdict is Verdict.HELD]
    for dtype in subject.dtypes:
        closest = closest_case(outcome for outcome in held if outcome.dtype is dtype)
        if closest:
            yield closest


def _own_answers(outcomes: Sequence[Outcome]) -> Iterator[ConventionAnswer]:
    """What the clause found of the gradient of a query that sees no key. The clause claims nothing
    of it but zeros. So it was zeros if all entries were claimed and held.
    """
    asks = "What is the gradient of a query for which every key is masked?"
    worst = [outcome.worst
             for outcome in outcomes if outcome.verdict is Verdict.HELD and outcome.worst]
    if any(outcome.verdict in FINDINGS for outcome in outcomes):
        yield ConventionAnswer((OWN,), asks, "wrong", f"It does not keep {HIDDEN_ROWS}.")
    elif worst and all(each.claimed == each.entries for each in worst):
        yield ConventionAnswer((OWN,), asks, "zeros", worst[0].sentence)
    elif worst or any(outcome.verdict is Verdict.NO_CLAIM for outcome in outcomes):
        yield ConventionAnswer((OWN,), asks, "no claim",
                               "Nothing is claimed of it where its output is not zeros.")


def _answers_of_others(answers: Iterable[ConventionAnswer]) -> Iterator[ConventionAnswer]:
    for each in answers:
        yield replace(each, forms=(": ".join(filter(None, (OTHERS, ", ".join(each.forms)))),))


def _group_reasons(pairs: Iterable[tuple[str, str]]) -> tuple[UnjudgedGradients, ...]:
    return tuple(UnjudgedGradients(reason, labels)
                 for reason, labels in _group_by_first(pairs).items())


def _group_by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}
