"""Joins several records into one: every subject in every environment, every clause, every outcome.

A page shows the outcomes twice, and links the two: as rows under each clause, and as squares of a
matrix.
"""

from __future__ import annotations

import string
from collections import Counter
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
        """How many of the items that the header announces have no outcome."""
        return max(0, self.record.header.items - self.record.finished_count)


@dataclass(frozen=True, slots=True)
class JudgedSubject:
    """A subject in one environment. runs: the letters of those that judged it.  dtypes: those with
    an outcome, the widest first. is_ambiguous: whether it was judged in several environments.
    """

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
        """Whether this is one of attnspec's own faults, judged to test the clauses."""
        return is_fault(self.card.id)

    @property
    def label(self) -> str:
        """The id, with the letters of its runs if it is ambiguous."""
        if self.is_ambiguous:
            return f"{self.card.id} ({' '.join(self.runs)})"
        return self.card.id


@dataclass(frozen=True, slots=True)
class JoinedRecords:
    """All that a page shows.

    changed_clauses: ids of clauses that the runs word differently.  repeated_outcomes: how many
    outcomes a later run replaced.  probes: what probes found, by the number of the subject.
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
        """Whether recommendations count for the verdict, because one of the runs was strict."""
        return any(run.record.header.strict for run in self.runs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The GPUs on which subjects computed: `cuda:0 (NVIDIA …)`."""
        places = (subject.card.lives_in for subject in self.subjects)
        return tuple(sorted({f"{place['device']} ({place['gpu']})"
                             for place in places if "gpu" in place}))

    def outcomes_of(self, subject: JudgedSubject, clause: str) -> tuple[Outcome, ...]:
        """The outcomes of one subject under one clause, widest dtype first."""
        return self._by_clause.get((subject.number, clause), ())

    def outcomes_of_subject(self, subject: JudgedSubject) -> Mapping[str, tuple[Outcome, ...]]:
        """The outcomes of one subject by clause, in the order of the clauses."""
        every = {clause.id: self.outcomes_of(subject, clause.id) for clause in self.clauses}
        return {clause: outcomes for clause, outcomes in every.items() if outcomes}


def join_records(records: Sequence[RunRecord]) -> JoinedRecords:
    """Joins records. Runs of the same spec in the same environment are parts of one run; others
    stay apart.
    """
    runs = tuple(JoinedRun(_environment_letter(place), record)
                 for place, record in enumerate(records))
    numbers = _SubjectNumbers()
    outcomes: dict[Key, Outcome] = {}
    every = 0
    for run in runs:
        for outcome in run.record.outcomes:
            outcomes[numbers.number(run, outcome.subject), outcome.clause, outcome.dtype] = outcome
            every += 1
        # the subjects of these runs have no verdicts
        if not (run.record.puts or run.record.blocks or run.record.ranks):
            numbers.take_cards(run)
    probes = _probes_of_runs(runs, numbers)
    subjects = numbers.list_subjects(outcomes)
    clauses, changed = _clauses_of_runs(runs, outcomes.values())
    return JoinedRecords(
        runs=runs, clauses=clauses, outcomes=outcomes, changed_clauses=changed,
        repeated_outcomes=every - len(outcomes), probes=probes,
        subjects=tuple(judged for judged in subjects if not judged.is_fault),
        faults=tuple(judged for judged in subjects if judged.is_fault),
        _by_clause=_group_outcomes(outcomes))


def _probes_of_runs(runs: Sequence[JoinedRun],
                    numbers: _SubjectNumbers) -> Mapping[int, tuple[SubjectProbed, ...]]:
    groups: dict[int, list[SubjectProbed]] = {}
    for run in runs:
        for probed in run.record.probes:
            groups.setdefault(numbers.number(run, probed.subject), []).append(probed)
    return {number: tuple(probed) for number, probed in groups.items()}


def _environment_letter(place: int) -> str:
    alphabet = string.ascii_uppercase
    if place < len(alphabet):
        return alphabet[place]
    return f"{alphabet[place % 26]}{place // 26}"


@dataclass(slots=True)
class _SubjectNumbers:
    """Gives every subject of every environment a number, and remembers which runs it is in."""

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

    def take_cards(self, run: JoinedRun) -> None:
        """Takes the cards of the subjects of a run."""
        for known in run.record.subjects:
            self.cards[self.number(run, known.card.id)] = known

    def list_subjects(self, outcomes: Iterable[Key]) -> tuple[JudgedSubject, ...]:
        """Lists all subjects, sorted by id; one that was never loaded gets a blank card."""
        dtypes: dict[int, set[DType]] = {number: set() for number in self.ids}
        for number, _, dtype in outcomes:
            dtypes[number].add(dtype)
        ids = list(self.ids.values())
        subjects = []
        for number, of_subject in dtypes.items():
            known = self.cards.get(number) or SubjectKnown(_blank_card(self.ids[number]))
            ordered = tuple(dtype for dtype in DType if dtype in of_subject)
            subjects.append(JudgedSubject(
                number, known.card, known.broken, tuple(self.letters[number]), ordered,
                is_ambiguous=ids.count(self.ids[number]) > 1))
        return tuple(sorted(subjects, key=lambda judged: (judged.card.id, judged.number)))


def _blank_card(subject: str) -> SubjectCard:
    return SubjectCard(subject, "", "", "", "", "", {}, {}, {}, ())


def _clauses_of_runs(
    runs: Sequence[JoinedRun], outcomes: Iterable[Outcome],
) -> tuple[tuple[ClauseText, ...], frozenset[str]]:
    """The clauses of all runs, sorted by theme, and the ids of those with several wordings. A
    clause that only an outcome names has no text but its id.
    """
    texts: dict[str, ClauseText] = {}
    changed: set[str] = set()
    for run in runs:
        for clause in run.record.header.clauses:
            text = replace(clause, theme=clause.theme or _theme_of(clause.id))
            if texts.setdefault(text.id, text) != text:
                changed.add(text.id)
    for outcome in outcomes:
        text = ClauseText(outcome.clause, _theme_of(outcome.clause), outcome.level)
        texts.setdefault(outcome.clause, text)
    themes = list(dict.fromkeys(text.theme for text in texts.values()))
    ordered = sorted(texts.values(), key=lambda text: themes.index(text.theme))
    return tuple(ordered), frozenset(changed)


def _theme_of(clause: str) -> str:
    return clause.partition(".")[0]


def _group_outcomes(
    outcomes: Mapping[Key, Outcome],
) -> Mapping[tuple[int, str], tuple[Outcome, ...]]:
    """Groups outcomes by subject and clause, the widest dtype first."""
    order = list(DType)
    groups: dict[tuple[int, str], list[Outcome]] = {}
    for (number, clause, _), outcome in outcomes.items():
        groups.setdefault((number, clause), []).append(outcome)
    return {key: tuple(sorted(group, key=lambda outcome: order.index(outcome.dtype)))
            for key, group in groups.items()}


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """A subject under a clause, at all dtypes with the same verdict and nothing measured."""

    anchor: str
    subject: JudgedSubject
    dtypes: str
    sign: Sign
    css: str
    outcome: Outcome
    finding: str


@dataclass(frozen=True, slots=True)
class Square:
    """A cell of the matrix: a subject, a clause and a dtype.

    sign: empty if nothing was tried.  title: the subject and the verdict; empty if the page has
    one subject only. target: the anchor to which the cell leads.
    """

    is_first: bool
    sign: str = ""
    css: str = ""
    title: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class ClauseEntry:
    """A clause with all that is shown of it. squares: one for each subject and dtype."""

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
    """The entries of one file of the spec. idle: how many of its clauses have no entry, because
    they apply to nobody.
    """

    name: str
    entries: tuple[ClauseEntry, ...]
    idle: int = 0


def group_by_theme(joined: JoinedRecords) -> tuple[Theme, ...]:
    """Groups by theme the clauses that apply to a subject, with their outcomes."""
    idle = {clause.id for clause in applying_to_nobody(joined)}
    themes = []
    for name, group in groupby(enumerate(joined.clauses), key=lambda numbered: numbered[1].theme):
        clauses = tuple(group)
        entries = tuple(_clause_entry(joined, number, clause)
                        for number, clause in clauses if clause.id not in idle)
        themes.append(Theme(name, entries, len(clauses) - len(entries)))
    return tuple(themes)


def applying_to_nobody(joined: JoinedRecords) -> tuple[ClauseText, ...]:
    """The clauses that were asked and apply to none of the subjects."""
    asked, applying = set[str](), set[str]()
    for outcome in joined.outcomes.values():
        asked.add(outcome.clause)
        if outcome.verdict is not Verdict.INAPPLICABLE:
            applying.add(outcome.clause)
    return tuple(clause for clause in joined.clauses if clause.id in asked - applying)


def finding_anchor(clause: int, subject: JudgedSubject) -> str:
    """The anchor on the page of a subject's finding under a clause. clause: its number."""
    return f"f{clause}.{subject.number}"


def shade_verdict(verdict: Verdict, level: Level) -> str:
    """The class of an outcome's colour. A failure under a clause that only advises is lighter."""
    css = SIGNS[verdict].css
    if verdict in FAILURES and level is not Level.MUST:
        return f"{css} soft"
    return css


def _clause_entry(joined: JoinedRecords, number: int, clause: ClauseText) -> ClauseEntry:
    rows = tuple(row for subject in joined.subjects
                 for row in _clause_rows(joined, number, subject))
    verdicts = [outcome.verdict for subject in joined.subjects
                for outcome in joined.outcomes_of(subject, clause.id)]
    # the sign of a clause is that of the subjects to which it applies, if there are any
    applicable = [verdict for verdict in verdicts if verdict is not Verdict.INAPPLICABLE]
    worst = gravest_verdict(applicable or verdicts) if verdicts else None
    instruments = dict.fromkeys(row.outcome.instrument for row in rows)
    return ClauseEntry(
        number=number, clause=clause, rows=rows, tally=tally_verdicts(verdicts),
        squares=tuple(square for subject in joined.subjects
                      for square in _make_squares(joined, number, subject)),
        worst=SIGNS[worst] if worst else None,
        css=shade_verdict(worst, clause.level) if worst else "idle",
        is_changed=clause.id in joined.changed_clauses,
        instruments=tuple(filter(None, instruments)))


def tally_verdicts(verdicts: Iterable[Verdict]) -> tuple[tuple[Sign, int], ...]:
    """Counts each verdict, the gravest first."""
    counts = Counter(verdicts)
    return tuple((SIGNS[verdict], counts[verdict]) for verdict in SIGNS if verdict in counts)


def _group_same_outcomes(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Groups neighbours with the same verdict and reason and nothing measured."""
    return [list(group) for _, group in groupby(outcomes, key=_outcome_sameness)]


def _outcome_sameness(outcome: Outcome) -> tuple[object, ...]:
    is_measured = outcome.verdict in DECIDED or outcome.cases > 0
    return outcome.verdict, outcome.reason, outcome.dtype if is_measured else None


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
    if not subject.dtypes:
        return [Square(is_first=True)]
    groups = _group_same_outcomes(joined.outcomes_of(subject, joined.clauses[number].id))
    is_alone = len(joined.subjects) == 1
    squares = {dtype: Square(is_first=dtype is subject.dtypes[0]) for dtype in subject.dtypes}
    for group in groups:
        for outcome in group:
            squares[outcome.dtype] = _make_square(number, subject, outcome, group[0].dtype,
                                                  is_alone=is_alone)
    return [squares[dtype] for dtype in subject.dtypes]


def _make_square(number: int, subject: JudgedSubject, outcome: Outcome, row: DType, *,
                 is_alone: bool) -> Square:
    """row: the first dtype of the row that the outcome shares with others like it."""
    sign = SIGNS[outcome.verdict]
    is_finding = outcome.verdict in FINDINGS
    title = ""
    if not is_alone:
        title = f"{subject.label} {SHORT_NAMES[outcome.dtype]}: {sign.word}"
        if outcome.worst and not is_finding:
            title += f", margin {format_figure(outcome.worst.margin)}"
    target = finding_anchor(number, subject) if is_finding else _row_anchor(number, subject, row)
    return Square(is_first=outcome.dtype is subject.dtypes[0], sign=sign.sign,
                  css=shade_verdict(outcome.verdict, outcome.level), title=title, target=target)
