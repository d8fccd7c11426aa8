"""The tables of an audit: a line a subject, a table a library; the clauses, by how subjects fared under each; and the
backward pass of each implementation: where it rounds, how near it came to its bound, what it gives where practice is
divided.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby

from attnspec.core.declaration import Harm
from attnspec.core.keyword import GRADIENTS_PROFILE
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import FAILURES, DType, Kind, Level, Verdict
from attnspec.record.outcome import ClauseText, Outcome, SubjectCard, is_choice
from attnspec.report.audit.conventions import ConventionAnswer, group_answers
from attnspec.report.audit.explained import are_chosen, explaining_findings, harm_rank, library_of
from attnspec.report.figures import DECIDED, FINDINGS, SHORT_NAMES, SIGNS, Sign, overall_verdict, shared_reason
from attnspec.report.joined import JoinedRecords, JudgedSubject, shade_verdict, tally_verdicts

# the reading, and the question of a probe, that tell the grade
GRADE, ASKED = "precision grade", "precision"


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
        return (self.held + self.must + self.should + self.may + self.known + self.odd
                + self.undecided)

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
    def audit_standing(self) -> AuditStanding:
        """How the subject stands: what breaks a clause breaks it, however much else was not judged."""
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
        cause = self.harm.says if self.harm else ""
        return ": ".join(filter(None, (self.audit_standing.value, cause if self.is_explained else "not yet explained")))

    @property
    def weight(self) -> tuple[int, ...]:
        """What matters most comes first, and what nobody has explained before it: it may be anything."""
        return (self.audit_standing.rank, harm_rank(self.harm) if self.is_explained else -1,
                -self.counts.must)

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
    made = [LibraryTable(name, people[0].card,
                         tuple(sorted((_make_subject_line(joined, each) for each in people),
                                      key=_gravity_of_line)))
            for (_, name), people in groups.items()]
    return tuple(sorted(made, key=lambda shelf: shelf.lines[0].weight))


def _gravity_of_line(line: SubjectLine) -> tuple[int, ...]:
    return line.weight


def _make_subject_line(joined: JoinedRecords, subject: JudgedSubject) -> SubjectLine:
    outcomes = joined.outcomes_of_subject(subject)
    flat = [outcome for group in outcomes.values() for outcome in group]
    return SubjectLine(
        subject, counted_by_verdict(subject, outcomes.values()),
        closest_case(outcome for outcome in flat if outcome.verdict is Verdict.HELD),
        _grades(joined, subject, flat),
        sum(outcome.cases for outcome in flat), *_gravest_harm(subject, flat))


def _gravest_harm(subject: JudgedSubject, outcomes: Iterable[Outcome]) -> tuple[Harm | None, bool]:
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
        may=by_level[Level.MAY], known=by_verdict[Verdict.EXPECTED],
        odd=by_verdict[Verdict.UNEXPECTED],
        inapplicable=by_verdict[Verdict.INAPPLICABLE],
        undecided=by_verdict[Verdict.NO_CLAIM] + by_verdict[Verdict.NOT_RUN],
        chosen=len(chosen), chosen_must=chosen.count(Level.MUST))


def closest_case(outcomes: Iterable[Outcome]) -> Nearness | None:
    """Finds the case that came nearest to its allowance."""
    calls = [Nearness(math.inf if math.isnan(worst.margin) else worst.margin, outcome.clause,
                      SHORT_NAMES[outcome.dtype])
             for outcome in outcomes if (worst := outcome.worst) is not None and outcome.cases]
    return max(calls, key=lambda call: call.margin, default=None)


def _grades(joined: JoinedRecords, subject: JudgedSubject,
            outcomes: Iterable[Outcome]) -> tuple[tuple[str, str], ...]:
    """Reads the precision grades from the engine's instrument, else from the answers to a probe."""
    asked = {probe.dtype: found.answer
             for probe in joined.probes.get(subject.number, ()) if not probe.variant
             for found in probe.found if found.question == ASKED}
    read = {outcome.dtype: str(reading.value)
            for outcome in outcomes for reading in outcome.readings if reading.quantity == GRADE}
    told: Mapping[DType, str] = {**asked, **read}
    return tuple((SHORT_NAMES[dtype], told[dtype]) for dtype in DType if dtype in told)


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
    entries = [_tally_clause(joined, number) for number in range(len(joined.clauses))]
    return tuple((name, tuple(group))
                 for name, group in groupby(entries, key=lambda entry: entry.clause.theme))


def _tally_clause(joined: JoinedRecords, number: int) -> ClauseTally:
    clause = joined.clauses[number]
    asked = [outcomes for subject in joined.subjects if (outcomes := joined.outcomes_of(subject, clause.id))]
    verdicts = [overall_verdict(outcome.verdict for outcome in outcomes) for outcomes in asked]
    worst: Verdict | None = overall_verdict(verdicts) if verdicts else None
    return ClauseTally(number, clause, tally_verdicts(verdicts), SIGNS[worst] if worst else None,
                 shade_verdict(worst, clause.level) if worst else "idle",
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
    """A subject whose gradients were judged.  held_share: of the clauses that apply to it, as `SubjectLine.counts` has
    them.

    broken_clauses: the clauses that it does not keep.  rounds: pairs of a dtype and where its backward pass rounds
    there, as declared.  closest: at each dtype, of the clauses that it holds, which came nearest to its bound.  row,
    key: what there is for a query that sees no key, and for a masked key.  given_arrays: with respect to what gradients
    were judged.  ungiven: with respect to what else there might be some, by the reason why they were not.
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
    """The table.  partly_judged: why some were judged with respect to some things alone.  never_judged: why others not
    at all.
    """

    lines: tuple[GradientLine, ...]
    partly_judged: tuple[UnjudgedGradients, ...]
    never_judged: tuple[UnjudgedGradients, ...]

    @property
    def unjudged_by_heading(self) -> tuple[tuple[str, tuple[UnjudgedGradients, ...]], ...]:
        """Both lists under their headings; an empty one is left out."""
        return tuple(each for each in ((_PARTLY_HEADING, self.partly_judged),
                                       (_WHOLLY_HEADING, self.never_judged)) if each[1])


ByClause = Mapping[ClauseText, Sequence[Outcome]]


def describe_gradients(joined: JoinedRecords) -> Gradients | None:
    """Look at what was judged of gradients; None if none was."""
    clauses = [clause for clause in joined.clauses if clause.profile == GRADIENTS_PROFILE]
    asked = [(subject, _gradient_outcomes(joined, subject, clauses))
             for subject in joined.subjects]
    judged = [(subject, outcomes) for subject, outcomes in asked if _is_judged(outcomes)]
    lines = tuple(_gradient_line(joined, subject, outcomes) for subject, outcomes in judged)
    others = [(subject, outcomes)
              for subject, outcomes in asked if outcomes and not _is_judged(outcomes)]
    if lines:
        return Gradients(lines, _partly_unjudged(lines), _wholly_unjudged(others))
    return None


def _gradient_outcomes(joined: JoinedRecords, subject: JudgedSubject,
                       clauses: Iterable[ClauseText]) -> ByClause:
    found = {clause: joined.outcomes_of(subject, clause.id) for clause in clauses}
    return {clause: outcomes for clause, outcomes in found.items() if outcomes}


def _is_judged(outcomes: ByClause) -> bool:
    return any(_decides_gradients(each) for each in outcomes.values())


def _decides_gradients(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.verdict in DECIDED for outcome in outcomes)


def _gradient_line(joined: JoinedRecords, subject: JudgedSubject,
                   outcomes: ByClause) -> GradientLine:
    named = _group_by_input(outcomes)
    return GradientLine(
        subject, counted_by_verdict(subject, outcomes.values()).share,
        tuple(_broken_clauses(subject, outcomes)),
        _rounding_of_backward(subject.card), tuple(_closest_gradients(subject, outcomes)),
        (*_own_answers(joined.outcomes_of(subject, HIDDEN_ROWS)),
         *_answers_of_others(group_answers(joined, subject, ROW_QUESTION))),
        group_answers(joined, subject, KEY_QUESTION),
        tuple(name for name, each in named.items() if _decides_gradients(each)),
        _group_by_first((_unjudged_reason(subject.card, each), name)
                        for name, each in named.items()
                        if not _decides_gradients(each) and _takes_input(subject.card, name)))


def _group_by_input(outcomes: ByClause) -> Mapping[str, Sequence[Outcome]]:
    """The outcomes by what the gradient is with respect to, as far as a clause is about one thing: inputs first."""
    named = {_differentiated_input(clause): each for clause, each in outcomes.items()}
    order = (*(name for name in _INPUTS if name in named), *named)
    return {name: named[name] for name in order if name}


def _differentiated_input(clause: ClauseText) -> str:
    """Names the input whose gradient a clause is about: `query` of `gradients.of_query`; else empty."""
    name = (clause.id.removeprefix(_GRADIENT_CLAUSE).replace("_", " ")
            if clause.id.startswith(_GRADIENT_CLAUSE) else "")
    is_array = name in _INPUTS or (name in KEYWORDS and KEYWORDS[name].axes)
    return name if is_array or _PARAMETERS in clause.needs else ""


def _takes_input(card: SubjectCard, name: str) -> bool:
    """Whether a subject takes that input; of a layer, whether it takes parameters."""
    if name in KEYWORDS:
        return KEYWORDS[name].profile in card.claims
    return name in _INPUTS or card.kind == Kind.LAYER.value


def _unjudged_reason(card: SubjectCard, outcomes: Sequence[Outcome]) -> str:
    """Why it was not decided, in words that several subjects may share."""
    told = next((outcome.reason for outcome in outcomes if outcome.reason), "no claim was made")
    return shared_reason(card.id, told)


def _broken_clauses(subject: JudgedSubject, outcomes: ByClause) -> Iterator[ClauseText]:
    for clause, each in outcomes.items():
        if any(outcome.verdict in FINDINGS for outcome in each) and not are_chosen(subject, each):
            yield clause


def _rounding_of_backward(card: SubjectCard) -> tuple[tuple[str, str], ...]:
    return tuple((SHORT_NAMES[dtype], card.backward[dtype.value])
                 for dtype in DType if dtype.value in card.backward)


def _closest_gradients(subject: JudgedSubject, outcomes: ByClause) -> Iterator[Nearness]:
    held = [outcome for each in outcomes.values()
            for outcome in each if outcome.verdict is Verdict.HELD]
    found = (closest_case(outcome for outcome in held if outcome.dtype is dtype)
             for dtype in subject.dtypes)
    yield from filter(None, found)


def _own_answers(outcomes: Sequence[Outcome]) -> Iterator[ConventionAnswer]:
    """What the clause found of the row's own gradient. Nothing but zeros is ever claimed of it, so that it was zeros
    where all entries were claimed.
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


def _partly_unjudged(lines: Iterable[GradientLine]) -> tuple[UnjudgedGradients, ...]:
    return _group_reasons((reason, line.subject.label) for line in lines
                          for reason in line.ungiven)


def _wholly_unjudged(subjects: Iterable[tuple[JudgedSubject,
                                              ByClause]]) -> tuple[UnjudgedGradients, ...]:
    flat = ((subject, [one for each in outcomes.values() for one in each])
            for subject, outcomes in subjects)
    return _group_reasons((_unjudged_reason(subject.card, told), subject.label)
                          for subject, told in flat)


def _group_reasons(pairs: Iterable[tuple[str, str]]) -> tuple[UnjudgedGradients, ...]:
    return tuple(UnjudgedGradients(reason, labels)
                 for reason, labels in _group_by_first(pairs).items())


def _group_by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}
