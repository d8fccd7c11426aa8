"""Several records as one: every subject in every environment that it was judged in, every clause, every outcome.

Two views of them lead to one another: every outcome under a clause as rows, and every clause as a line of squares.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from attnspec.core.nouns import FAILURES, DType, Level, Verdict
from attnspec.core.plan import is_fault
from attnspec.record.events import SubjectKnown, SubjectProbed
from attnspec.record.outcome import ClauseText, Outcome, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.figures import DECIDED, FINDINGS, SHORT_NAMES, SIGNS, Sign, format_figure, gravest_verdict

Key = tuple[int, str, DType]  # number of the subject, id of the clause, dtype


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """One record, with the letter that the page calls it by."""

    letter: str
    record: RunRecord

    @property
    def missing(self) -> int:
        """How many items the header announced that came to nothing."""
        return max(0, self.record.header.items - self.record.finished_count)


@dataclass(frozen=True, slots=True)
class JudgedSubject:
    """A subject in one environment. `runs` are letters; `dtypes` are those with an outcome, widest first."""

    number: int
    card: SubjectCard
    broken_reason: str
    runs: tuple[str, ...]
    dtypes: tuple[DType, ...]
    is_ambiguous: bool = False

    @property
    def library(self) -> str:
        """The part of the id before the last slash, the slash included."""
        return self.card.id[: self.card.id.rfind("/") + 1]

    @property
    def name(self) -> str:
        """The part of the id after the last slash."""
        return self.card.id[self.card.id.rfind("/") + 1 :]

    @property
    def is_fault(self) -> bool:
        """Whether this is one of attnspec's own faults, on trial to prove the clauses."""
        return is_fault(self.card.id)

    @property
    def label(self) -> str:
        """The id, with the letters of its runs where the id alone would not tell it from another."""
        if self.is_ambiguous:
            return f"{self.card.id} ({' '.join(self.runs)})"
        return self.card.id


@dataclass(frozen=True, slots=True)
class JoinedRecords:
    """All that a page shows. `changed` are ids of clauses that the runs word differently.

    `probes`: what was found out of a subject, by its number.
    """

    runs: tuple[JoinedRun, ...]
    subjects: tuple[JudgedSubject, ...]
    faults: tuple[JudgedSubject, ...]
    clauses: tuple[ClauseText, ...]
    outcomes: Mapping[Key, Outcome]
    changed_clauses: frozenset[str] = frozenset()
    repeated_outcomes: int = 0
    probes: Mapping[int, tuple[SubjectProbed, ...]] = field(default_factory=dict)
    _by_clause: Mapping[tuple[int, str], tuple[Outcome, ...]] = field(default_factory=dict,
                                                                      repr=False)

    @property
    def is_strict(self) -> bool:
        """Whether one of the runs was, so that recommendations count."""
        return any(run.record.header.strict for run in self.runs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that subjects computed on, each with its name; a CPU is not among them."""
        told = (subject.card.lives_in for subject in self.subjects)
        return tuple(sorted({f"{lives['device']} ({lives['gpu']})"
                             for lives in told if "gpu" in lives}))

    def outcomes_of(self, subject: JudgedSubject, clause: str) -> tuple[Outcome, ...]:
        """The outcomes of one subject under one clause, widest dtype first."""
        return self._by_clause.get((subject.number, clause), ())

    def outcomes_of_subject(self, subject: JudgedSubject) -> Mapping[str, tuple[Outcome, ...]]:
        """The outcomes of one subject by clause, in the clauses' order, clauses without any left out."""
        found = {clause.id: self.outcomes_of(subject, clause.id) for clause in self.clauses}
        return {clause: outcomes for clause, outcomes in found.items() if outcomes}


def join_records(records: Sequence[RunRecord]) -> JoinedRecords:
    """Join records. Runs of the same spec in the same environment are shards of one run; others stand side by side."""
    runs = tuple(JoinedRun(_environment_letter(place), record)
                 for place, record in enumerate(records))
    cast = _SubjectNumbers()
    outcomes: dict[Key, Outcome] = {}
    seen = 0
    for run in runs:
        for outcome in run.record.outcomes:
            outcomes[(cast.number(run, outcome.subject), outcome.clause, outcome.dtype)] = outcome
            seen += 1
        # whom these met has no verdicts
        if not (run.record.puts or run.record.blocks or run.record.ranks):
            cast.meet(run)
    probes = _probes_of_runs(runs, cast)
    people = cast.people(outcomes)
    clauses, changed = _clauses_of_runs(runs, outcomes.values())
    return JoinedRecords(
        runs=runs, clauses=clauses, outcomes=outcomes, changed_clauses=changed,
        repeated_outcomes=seen - len(outcomes),
        probes=probes, subjects=tuple(judged for judged in people if not judged.is_fault),
        faults=tuple(judged for judged in people if judged.is_fault),
        _by_clause=_group_outcomes(outcomes))


def _probes_of_runs(runs: Sequence[JoinedRun],
                    cast: _SubjectNumbers) -> Mapping[int, tuple[SubjectProbed, ...]]:
    found: dict[int, list[SubjectProbed]] = {}
    for run in runs:
        for probed in run.record.probes:
            found.setdefault(cast.number(run, probed.subject), []).append(probed)
    return {number: tuple(probed) for number, probed in found.items()}


def _environment_letter(place: int) -> str:
    alphabet = string.ascii_uppercase
    if place < len(alphabet):
        return alphabet[place]
    return f"{alphabet[place % 26]}{place // 26}"


@dataclass(slots=True)
class _SubjectNumbers:
    """Gives every subject of every environment a number, and remembers which runs it was met in."""

    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    cards: dict[int, SubjectKnown] = field(default_factory=dict)
    letters: dict[int, list[str]] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)

    def number(self, run: JoinedRun, subject: str) -> int:
        """The number of this subject in the environment of this run."""
        header = run.record.header
        key = (subject, header.spec_digest, tuple(sorted(header.environment.items())))
        number = self.numbers.setdefault(key, len(self.numbers))
        self.ids[number] = subject
        letters = self.letters.setdefault(number, [])
        if run.letter not in letters:
            letters.append(run.letter)
        return number

    def meet(self, run: JoinedRun) -> None:
        """Take the cards of a run."""
        for known in run.record.subjects:
            self.cards[self.number(run, known.card.id)] = known

    def people(self, outcomes: Iterable[Key]) -> tuple[JudgedSubject, ...]:
        """Lists all subjects, sorted by id; one that was never loaded gets a blank card."""
        met: dict[int, set[DType]] = {number: set() for number in self.ids}
        for number, _, dtype in outcomes:
            met[number].add(dtype)
        ids = list(self.ids.values())
        everybody = (self._make_judged_subject(number, dtypes, ids.count(self.ids[number]) > 1)
                     for number,
                     dtypes in met.items())
        return tuple(sorted(everybody, key=lambda judged: (judged.card.id, judged.number)))

    def _make_judged_subject(self, number: int, dtypes: set[DType],
                             is_ambiguous: bool) -> JudgedSubject:
        known = self.cards.get(number) or SubjectKnown(_blank_card(self.ids[number]))
        ordered = tuple(dtype for dtype in DType if dtype in dtypes)
        return JudgedSubject(number, known.card, known.broken, tuple(self.letters[number]),
                             ordered, is_ambiguous)


def _blank_card(subject: str) -> SubjectCard:
    return SubjectCard(subject, "", "", "", "", "", {}, {}, {}, ())


def _clauses_of_runs(runs: Sequence[JoinedRun],
                     outcomes: Iterable[Outcome]) -> tuple[tuple[ClauseText, ...],
                                                           frozenset[str]]:
    """The clauses of all runs, themes together; one that only an outcome names gets its id for a text."""
    found: dict[str, ClauseText] = {}
    changed: set[str] = set()
    for run in runs:
        for clause in run.record.header.clauses:
            text = replace(clause, theme=clause.theme or _theme_of(clause.id))
            if found.setdefault(text.id, text) != text:
                changed.add(text.id)
    for outcome in outcomes:
        found.setdefault(outcome.clause,
                         ClauseText(outcome.clause, _theme_of(outcome.clause), outcome.level))
    themes = list(dict.fromkeys(text.theme for text in found.values()))
    return tuple(sorted(found.values(),
                        key=lambda text: themes.index(text.theme))), frozenset(changed)


def _theme_of(clause: str) -> str:
    return clause.partition(".")[0]


def _group_outcomes(outcomes: Mapping[Key, Outcome]) -> Mapping[tuple[int, str],
                                                                tuple[Outcome, ...]]:
    """Outcomes by subject and clause, widest dtype first."""
    order = list(DType)
    groups: dict[tuple[int, str], list[Outcome]] = {}
    for (number, clause, _), outcome in outcomes.items():
        groups.setdefault((number, clause), []).append(outcome)
    return {key: tuple(sorted(group, key=lambda outcome: order.index(outcome.dtype)))
            for key, group in groups.items()}


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """One subject under one clause, at one dtype or at several that fared alike without anything measured."""

    anchor: str
    subject: JudgedSubject
    dtypes: str
    sign: Sign
    css: str
    outcome: Outcome
    finding: str


@dataclass(frozen=True, slots=True)
class Square:
    """A cell of the matrix. `target` is the anchor that it leads to; without a sign nothing was tried.

    title: whose it is, and how it fared; empty where there is but one subject, whose margins stand with the clause.
    """

    is_first: bool
    sign: str = ""
    css: str = ""
    title: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class ClauseEntry:
    """A clause with all that is shown of it. `squares` has one place a subject and dtype."""

    number: int
    clause: ClauseText
    rows: tuple[ClauseRow, ...]
    squares: tuple[Square, ...]
    tally: tuple[tuple[Sign, int], ...]
    worst: Sign | None
    css: str
    is_changed: bool
    instruments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Theme:
    """The entries of one file of the spec. idle: how many of its clauses apply to nobody, and have no entry."""

    name: str
    entries: tuple[ClauseEntry, ...]
    idle: int = 0


def group_by_theme(joined: JoinedRecords) -> tuple[Theme, ...]:
    """Groups all clauses that apply to somebody, with their outcomes, by theme; a theme of which none does has no
    entry.
    """
    idle, found = {clause.id for clause in applying_to_nobody(joined)}, list[Theme]()
    for name, group in groupby(enumerate(joined.clauses), key=lambda numbered: numbered[1].theme):
        clauses = tuple(group)
        entries = tuple(_clause_entry(joined, number, clause)
                        for number, clause in clauses if clause.id not in idle)
        found.append(Theme(name, entries, len(clauses) - len(entries)))
    return tuple(found)


def applying_to_nobody(joined: JoinedRecords) -> tuple[ClauseText, ...]:
    """Clauses that were found to apply to none of these implementations."""
    tried = {outcome.clause for outcome in joined.outcomes.values()}
    applying = {outcome.clause for outcome in joined.outcomes.values() if outcome.verdict is not Verdict.INAPPLICABLE}
    return tuple(clause for clause in joined.clauses if clause.id in tried - applying)


def finding_anchor(clause: int, subject: JudgedSubject) -> str:
    """Names the place on the page of a subject's finding under a clause (by its number)."""
    return f"f{clause}.{subject.number}"


def shade_verdict(verdict: Verdict, level: Level) -> str:
    """The colour class of an outcome: a failure of what is merely advised is drawn lighter."""
    css = SIGNS[verdict].css
    if verdict in FAILURES and level is not Level.MUST:
        return f"{css} soft"
    return css


def _clause_entry(joined: JoinedRecords, number: int, clause: ClauseText) -> ClauseEntry:
    rows = tuple(row for subject in joined.subjects
                 for row in _clause_rows(joined, number, subject))
    verdicts = [outcome.verdict for subject in joined.subjects
                for outcome in joined.outcomes_of(subject, clause.id)]
    # a clause that somebody cannot be asked is still marked by how the others fared
    telling = [verdict for verdict in verdicts if verdict is not Verdict.INAPPLICABLE] or verdicts
    worst = gravest_verdict(telling) if telling else None
    return ClauseEntry(
        number=number, clause=clause, rows=rows, tally=tally_verdicts(verdicts),
        squares=tuple(square for subject in joined.subjects
                      for square in _make_squares(joined, number, subject)),
        worst=SIGNS[worst] if worst else None,
        css=shade_verdict(worst, clause.level) if worst else "idle",
        is_changed=clause.id in joined.changed_clauses,
        instruments=tuple(dict.fromkeys(row.outcome.instrument
                                        for row in rows if row.outcome.instrument)))


def tally_verdicts(verdicts: Iterable[Verdict]) -> tuple[tuple[Sign, int], ...]:
    """How often each verdict occurs, gravest first."""
    listed = list(verdicts)
    return tuple((SIGNS[verdict], listed.count(verdict)) for verdict in SIGNS if verdict in listed)


def _group_same_outcomes(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Outcomes side by side that say the same: same verdict, same reason, nothing measured."""
    return [list(group) for _, group in groupby(outcomes, key=_outcome_sameness)]


def _outcome_sameness(outcome: Outcome) -> tuple[object, ...]:
    own = outcome.dtype if outcome.verdict in DECIDED or outcome.cases else None
    return outcome.verdict, outcome.reason, own


def _clause_rows(joined: JoinedRecords, number: int, subject: JudgedSubject) -> list[ClauseRow]:
    groups = _group_same_outcomes(joined.outcomes_of(subject, joined.clauses[number].id))
    return [_clause_row(number, subject, group) for group in groups]


def _clause_row(number: int, subject: JudgedSubject, group: list[Outcome]) -> ClauseRow:
    first = group[0]
    return ClauseRow(
        anchor=_row_anchor(number, subject, first.dtype), subject=subject,
        dtypes=" ".join(SHORT_NAMES[outcome.dtype] for outcome in group),
        sign=SIGNS[first.verdict],
        css=shade_verdict(first.verdict, first.level), outcome=first,
        finding=finding_anchor(number, subject) if first.verdict in FINDINGS else "")


def _row_anchor(number: int, subject: JudgedSubject, dtype: DType) -> str:
    return f"r{number}.{subject.number}.{SHORT_NAMES[dtype]}"


def _make_squares(joined: JoinedRecords, number: int, subject: JudgedSubject) -> list[Square]:
    groups = _group_same_outcomes(joined.outcomes_of(subject, joined.clauses[number].id))
    is_alone = len(joined.subjects) == 1
    made: Mapping[DType, Square] = {
        outcome.dtype: _make_square(number, subject, outcome, group[0].dtype, is_alone=is_alone)
        for group in groups for outcome in group
    }
    first = subject.dtypes[:1]
    return ([made.get(dtype) or Square(is_first=dtype in first)
             for dtype in subject.dtypes] or [Square(is_first=True)])


def _make_square(number: int, subject: JudgedSubject, outcome: Outcome, row: DType, *,
                 is_alone: bool) -> Square:
    sign = SIGNS[outcome.verdict]
    is_finding = outcome.verdict in FINDINGS
    said = (f", margin {format_figure(outcome.worst.margin)}" if outcome.worst and not is_finding
            else "")
    return Square(
        is_first=outcome.dtype is subject.dtypes[0], sign=sign.sign,
        css=shade_verdict(outcome.verdict, outcome.level),
        title="" if is_alone
        else f"{subject.label} {SHORT_NAMES[outcome.dtype]}: {sign.word}{said}",
        target=finding_anchor(number, subject) if is_finding else _row_anchor(number, subject,
                                                                              row))
