"""Several records as one: every subject in every environment that it was judged in, every clause, every outcome."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import DType
from attnspec.core.plan import is_fault
from attnspec.record.clause_text import ClauseText
from attnspec.record.events import SubjectKnown
from attnspec.record.measurements import SubjectProbed
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.record.read import RunRecord

Key = tuple[int, str, DType]  # number of the subject, id of the clause, dtype


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """One record, with the letter that the page calls it by."""

    letter: str
    record: RunRecord

    @property
    def missing(self) -> int:
        """How many items the header announced that came to nothing."""
        return max(0, self.record.header.items - self.record.done)


@dataclass(frozen=True, slots=True)
class JudgedSubject:
    """A subject in one environment. `runs` are letters; `dtypes` are those with an outcome, widest first."""

    number: int
    card: SubjectCard
    broken: str
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
        return f"{self.card.id} ({' '.join(self.runs)})" if self.is_ambiguous else self.card.id


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
    changed: frozenset[str] = frozenset()
    repeated: int = 0
    probes: Mapping[int, tuple[SubjectProbed, ...]] = field(default_factory=dict)
    _by_clause: Mapping[tuple[int, str], tuple[Outcome, ...]] = field(default_factory=dict, repr=False)

    @property
    def is_strict(self) -> bool:
        """Whether one of the runs was, so that recommendations count."""
        return any(run.record.header.strict for run in self.runs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that subjects computed on, each with its name; a CPU is not among them."""
        told = (subject.card.lives_in for subject in self.subjects)
        return tuple(sorted({f"{lives['device']} ({lives['gpu']})" for lives in told if "gpu" in lives}))

    def outcomes_of(self, subject: JudgedSubject, clause: str) -> tuple[Outcome, ...]:
        """The outcomes of one subject under one clause, widest dtype first."""
        return self._by_clause.get((subject.number, clause), ())

    def of_subject(self, subject: JudgedSubject) -> Mapping[str, tuple[Outcome, ...]]:
        """The outcomes of one subject by clause, in the clauses' order, clauses without any left out."""
        found = {clause.id: self.outcomes_of(subject, clause.id) for clause in self.clauses}
        return {clause: outcomes for clause, outcomes in found.items() if outcomes}


def join_records(records: Sequence[RunRecord]) -> JoinedRecords:
    """Join records. Runs of the same spec in the same environment are shards of one run; others stand side by side."""
    runs = tuple(JoinedRun(_letters(place), record) for place, record in enumerate(records))
    cast = _SubjectNumbers()
    outcomes: dict[Key, Outcome] = {}
    seen = 0
    for run in runs:
        for outcome in run.record.outcomes:
            outcomes[(cast.number(run, outcome.subject), outcome.clause, outcome.dtype)] = outcome
            seen += 1
        if not (run.record.puts or run.record.blocks or run.record.ranks):  # whom these met has no verdicts
            cast.meet(run)
    probes = _probes(runs, cast)
    people = cast.people(outcomes)
    clauses, changed = _clauses(runs, outcomes.values())
    return JoinedRecords(
        runs=runs, clauses=clauses, outcomes=outcomes, changed=changed, repeated=seen - len(outcomes), probes=probes,
        subjects=tuple(judged for judged in people if not judged.is_fault),
        faults=tuple(judged for judged in people if judged.is_fault), _by_clause=_grouped(outcomes))


def _probes(runs: Sequence[JoinedRun], cast: _SubjectNumbers) -> Mapping[int, tuple[SubjectProbed, ...]]:
    found: dict[int, list[SubjectProbed]] = {}
    for run in runs:
        for probed in run.record.probes:
            found.setdefault(cast.number(run, probed.subject), []).append(probed)
    return {number: tuple(probed) for number, probed in found.items()}


def _letters(place: int) -> str:
    alphabet = string.ascii_uppercase
    return alphabet[place] if place < len(alphabet) else f"{alphabet[place % 26]}{place // 26}"


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
        """Everybody, sorted by id; a subject that was never loaded gets a blank card."""
        met: dict[int, set[DType]] = {number: set() for number in self.ids}
        for number, _, dtype in outcomes:
            met[number].add(dtype)
        ids = list(self.ids.values())
        everybody = (self._make_judged_subject(number, dtypes, ids.count(self.ids[number]) > 1) for number,
                     dtypes in met.items())
        return tuple(sorted(everybody, key=lambda judged: (judged.card.id, judged.number)))

    def _make_judged_subject(self, number: int, dtypes: set[DType], is_ambiguous: bool) -> JudgedSubject:
        known = self.cards.get(number) or SubjectKnown(_blank(self.ids[number]))
        ordered = tuple(dtype for dtype in DType if dtype in dtypes)
        return JudgedSubject(number, known.card, known.broken, tuple(self.letters[number]), ordered, is_ambiguous)


def _blank(subject: str) -> SubjectCard:
    return SubjectCard(subject, "", "", "", "", "", {}, {}, {}, ())


def _clauses(runs: Sequence[JoinedRun], outcomes: Iterable[Outcome]) -> tuple[tuple[ClauseText, ...], frozenset[str]]:
    """The clauses of all runs, themes together; one that only an outcome names gets its id for a text."""
    found: dict[str, ClauseText] = {}
    changed: set[str] = set()
    for run in runs:
        for clause in run.record.header.clauses:
            text = replace(clause, theme=clause.theme or _theme(clause.id))
            if found.setdefault(text.id, text) != text:
                changed.add(text.id)
    for outcome in outcomes:
        found.setdefault(outcome.clause, ClauseText(outcome.clause, _theme(outcome.clause), outcome.level))
    themes = list(dict.fromkeys(text.theme for text in found.values()))
    return tuple(sorted(found.values(), key=lambda text: themes.index(text.theme))), frozenset(changed)


def _theme(clause: str) -> str:
    return clause.partition(".")[0]


def _grouped(outcomes: Mapping[Key, Outcome]) -> Mapping[tuple[int, str], tuple[Outcome, ...]]:
    """Outcomes by subject and clause, widest dtype first."""
    order = list(DType)
    groups: dict[tuple[int, str], list[Outcome]] = {}
    for (number, clause, _), outcome in outcomes.items():
        groups.setdefault((number, clause), []).append(outcome)
    return {key: tuple(sorted(group, key=lambda outcome: order.index(outcome.dtype))) for key, group in groups.items()}
