"""What a run measured beside its verdicts: what was tried of each subject, what the instruments read off it, and
whether the clauses can be trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnspec.core.coverage import (
    AXES,
    IN_PAIRS,
    AxisBucket,
    Spans,
    bucket_label,
    describe_triple,
    joined_spans,
    pairs_in,
    places_of,
    read_pairs,
    triples_in,
)
from attnspec.core.nouns import FAILURES, DType
from attnspec.core.plan import FAULT
from attnspec.record.outcome import ClauseText, Outcome, Reading, SubjectCard
from attnspec.report.figures import FINDINGS, SHORT_NAMES, SIGNS, clause_anchor, format_figure
from attnspec.report.joined import JoinedRecords, JudgedSubject, finding_anchor

MOST_MISSED = 6
"""Buckets that a sentence names which no case met."""


@dataclass(frozen=True, slots=True)
class CoverageCell:
    """One bucket of an axis: how many pairs with it a subject takes, and how many of them were met."""

    label: str
    met_pairs: int
    taken_pairs: int


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One row of the coverage table: an axis with its buckets, or a keyword with a single cell for all of them."""

    name: str
    span: str
    cells: tuple[CoverageCell, ...]


@dataclass(frozen=True, slots=True)
class MeasuredCoverage:
    """What the cases of one subject met.  met_pairs, taken_pairs: sets of pairs (`core.coverage`).  triples,
    triples_taken: sets of triples of features (`core.coverage`).

    spans: by axis, the least and the greatest length.
    """

    met_pairs: int
    taken_pairs: int
    spans: Mapping[str, tuple[int, int]]
    triples: int = 0
    triples_taken: int = 0

    @property
    def share_of_triples(self) -> str:
        """`98 % of 1,140 triples of features tried`; empty where nobody counted."""
        if not self.triples_taken:
            return ""
        met = (self.triples & self.triples_taken).bit_count()
        taken = self.triples_taken.bit_count()
        return f"{100 * met // taken} % of {taken:,} triples of features tried"

    @property
    def missed_triples(self) -> tuple[str, ...]:
        """The triples of features that met in no case."""
        return tuple(map(describe_triple, triples_in(self.triples_taken & ~self.triples)))

    @property
    def share(self) -> float:
        """The part of the pairs that it takes which were met."""
        return (self.met_pairs & self.taken_pairs).bit_count() / max(1,
                                                                     self.taken_pairs.bit_count())

    @property
    def sentence(self) -> str:
        """`T 1–2048; 97 % of 1,220 pairs tried (two sizes, or a size and a keyword); not tried: T 2049–4096`."""
        lengths = ", ".join(f"{axis} {_format_span(self.spans[axis])}"
                            for axis in AXES if axis in self.spans and axis != "G")
        missed = [f"{row.name} {cell.label}" for row in self.rows
                  for cell in row.cells if cell.taken_pairs
                  and not cell.met_pairs]
        # rounded down: what was not met is not said to be
        share = f"{int(100 * self.share)} % of {self.taken_pairs.bit_count():,}"
        pairs = f"{share} pairs tried (two sizes, or a size and a keyword)"
        untried = (", ".join(missed) if len(missed) <= MOST_MISSED
                   else f"{len(missed)} ranges of lengths, see the page")
        triples = [self.share_of_triples] if self.triples_taken else []
        return "; ".join([lengths, pairs, *triples,
                          *([f"not tried: {untried}"] if missed else [])])

    @property
    def rows(self) -> tuple[CoverageRow, ...]:
        """A row an axis, and one a keyword that the subject takes."""
        met, taken = (_count_pairs_by_place(found)
                      for found in (self.met_pairs & self.taken_pairs, self.taken_pairs))
        axes = (CoverageRow(axis, _format_span(self.spans[axis]) if axis in self.spans else "",
                            tuple(CoverageCell(bucket_label(*place), met[place], taken[place])
                                  for place in places_of(axis)))
                for axis in AXES)
        keywords = (CoverageRow(name, "", (CoverageCell("all lengths", met[name], taken[name]),))
                    for name in IN_PAIRS)
        return tuple(row
                     for row in (*axes, *keywords) if any(cell.taken_pairs for cell in row.cells))


def _count_pairs_by_place(found: int) -> Counter[AxisBucket | str]:
    """How many pairs of a set have each bucket of an axis, and each keyword."""
    return Counter(place for pair in pairs_in(found) for place in (pair.place, pair.other))


def _format_span(span: tuple[int, int]) -> str:
    least, most = span
    return str(least) if least == most else f"{least}–{most}"


def measure_coverage(outcomes: Iterable[Outcome], card: SubjectCard) -> MeasuredCoverage | None:
    """Adds up what the cases of these outcomes met; None where nobody counted, as in records from before."""
    met, triples, spans = 0, 0, list[Spans]()
    for outcome in outcomes:
        met |= read_pairs(outcome.met)
        triples |= read_pairs(outcome.triples)
        spans.append(outcome.spans)
    if not met or not card.taken:
        return None
    return MeasuredCoverage(met, read_pairs(card.taken), joined_spans(spans), triples,
                            read_pairs(card.triples))


def measure_subjects(joined: JoinedRecords) -> tuple[tuple[JudgedSubject, MeasuredCoverage], ...]:
    """Every subject that was counted, with what its cases met."""
    found = ((subject,
              measure_coverage((outcome for each in joined.outcomes_of_subject(subject).values()
                                for outcome in each),
                               subject.card)) for subject in joined.subjects)
    return tuple((subject, each) for subject, each in found if each is not None)


@dataclass(frozen=True, slots=True)
class AtSizes:
    """What was tried at the sizes that a user names. clauses: those that were tried there.

    lacking: by the reason why nothing was tried, the clauses.
    """

    sizes: tuple[str, ...]
    clauses: frozenset[str]
    lacking: Mapping[str, frozenset[str]]

    @property
    def sentence(self) -> str:
        """`B1 H1 … D16 and B1 H1 …: 6 clauses; not causal.alignment: the clause speaks of other sizes`."""
        count = f"{len(self.clauses)} clause{'s' * (len(self.clauses) != 1)}"
        tried = f"{count} at {' and '.join(self.sizes)}" if self.sizes else "nothing was tried"
        return "; ".join([tried, *(f"not {', '.join(sorted(clauses))}: {reason}"
                                   for reason, clauses in self.lacking.items())])


def coverage_at_sizes(outcomes: Iterable[Outcome]) -> AtSizes | None:
    """Finds what was tried at the sizes that a user names; None where none were."""
    tried, clauses, lacking = dict[str, None](), set[str](), dict[str, set[str]]()
    for outcome in outcomes:
        for sizes, why_not in outcome.asked.items():
            if why_not:
                lacking.setdefault(why_not, set()).add(outcome.clause)
            else:
                tried[sizes] = None
                clauses.add(outcome.clause)
    left = {reason: frozenset(names) for reason, names in lacking.items()}
    if tried or lacking:
        return AtSizes(tuple(tried), frozenset(clauses), left)
    return None


def coverage_at_named_sizes(joined: JoinedRecords) -> tuple[tuple[JudgedSubject, AtSizes], ...]:
    """Every subject that was tried at sizes which a user names."""
    found = ((subject,
              coverage_at_sizes(outcome for each in joined.outcomes_of_subject(subject).values()
                                for outcome in each))
             for subject in joined.subjects)
    return tuple((subject, each) for subject, each in found if each is not None)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A clause and a fault. `css` says how it went.

    `kept`: promised and refuted; `missed`: promised, not refuted; `untried`: promised, not on trial;
    `extra`: refuted without a promise; ``: nothing of the kind.
    """

    css: str = ""
    sign: str = ""
    story: str = ""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A clause that refuted a fault, at which dtypes, and what it had to say at the first of them."""

    clause: ClauseText
    dtypes: str
    said: str


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault, how it met every clause, and the clauses that refuted it, those that promised to first."""

    fault: JudgedSubject
    name: str
    meetings: tuple[Meeting, ...]
    refutations: tuple[Refutation, ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust matrix. `missed` are clauses with the faults they promised to refute and did not, and how that went.

    `absent` are faults that clauses name and that were not on trial at all.
    """

    clauses: tuple[ClauseText, ...]
    rows: tuple[FaultRow, ...]
    undetected_faults: tuple[FaultRow, ...]
    missed_promises: tuple[tuple[ClauseText, tuple[tuple[str, str], ...]], ...]
    promises: int
    broken_promises: int
    untried: int
    absent: tuple[str, ...]
    idle: tuple[ClauseText, ...]


def measure_trust(joined: JoinedRecords) -> Trust | None:
    """The matrix of the faults in the record, or None without any."""
    if not joined.faults:
        return None
    tried = {clause for fault in joined.faults for clause in joined.outcomes_of_subject(fault)}
    clauses = tuple(clause for clause in joined.clauses if clause.id in tried)
    rows = tuple(_fault_row(joined, fault, clauses) for fault in joined.faults)
    counts = Counter(meeting.css for row in rows for meeting in row.meetings)
    refuting = {refutation.clause.id for row in rows for refutation in row.refutations}
    return Trust(
        clauses=clauses, rows=rows,
        undetected_faults=tuple(row for row in rows if not row.refutations),
        missed_promises=_missed_refutations(clauses, rows),
        promises=counts["kept"] + counts["missed"], broken_promises=counts["missed"],
        untried=counts["untried"],
        absent=_absent_faults(clauses, rows),
        idle=tuple(clause for clause in clauses if clause.id not in refuting))


def _fault_row(joined: JoinedRecords, fault: JudgedSubject,
               clauses: tuple[ClauseText, ...]) -> FaultRow:
    name = fault.card.id.removeprefix(FAULT)
    met = [(clause, joined.outcomes_of(fault, clause.id)) for clause in clauses]
    by = [_refutation(clause, refuting)
          for clause, outcomes in met if (refuting := _refuting_outcomes(outcomes))]
    return FaultRow(
        fault=fault, name=name,
        meetings=tuple(_meeting(name, clause, outcomes) for clause, outcomes in met),
        refutations=tuple(sorted(by,
                                 key=lambda refutation: name not in refutation.clause.refuted_by)))


def _refuting_outcomes(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return tuple(outcome for outcome in outcomes if outcome.verdict in FAILURES)


def _refutation(clause: ClauseText, refuting: tuple[Outcome, ...]) -> Refutation:
    first = refuting[0]
    return Refutation(clause, _join_dtypes(refuting),
                      first.evidence.sentence if first.evidence else first.reason)


def _meeting(name: str, clause: ClauseText, outcomes: tuple[Outcome, ...]) -> Meeting:
    refuting = _refuting_outcomes(outcomes)
    if name not in clause.refuted_by:
        return Meeting("extra", "○") if refuting else Meeting()
    if not outcomes:
        return Meeting("untried", "·", "not tried")
    if len(refuting) == len(outcomes):
        return Meeting("kept", "●", f"detected at {_join_dtypes(refuting)}")
    return Meeting("missed", "◐" if refuting else "✗", _tell_meeting(outcomes, refuting))


def _tell_meeting(outcomes: tuple[Outcome, ...], refuting: tuple[Outcome, ...]) -> str:
    """`detected at f32, held at bf16`."""
    told = [f"detected at {_join_dtypes(refuting)}"] if refuting else []
    for outcome in outcomes:
        if outcome not in refuting:
            why = f" ({outcome.reason})" if outcome.reason else ""
            told.append(f"{SIGNS[outcome.verdict].word} at {SHORT_NAMES[outcome.dtype]}{why}")
    return ", ".join(told)


def _join_dtypes(outcomes: tuple[Outcome, ...]) -> str:
    return " ".join(SHORT_NAMES[outcome.dtype] for outcome in outcomes)


def _missed_refutations(
    clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...],
) -> tuple[tuple[ClauseText, tuple[tuple[str, str], ...]], ...]:
    met = [
        (clause, tuple((row.name, row.meetings[place].story) for row in rows if row.meetings[place].css == "missed"))
        for place, clause in enumerate(clauses)
    ]
    return tuple((clause, missed) for clause, missed in met if missed)


def _absent_faults(clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...]) -> tuple[str, ...]:
    named = {name for clause in clauses for name in clause.refuted_by}
    return tuple(sorted(named - {row.name for row in rows}))


@dataclass(frozen=True, slots=True)
class DTypeReading:
    """One reading at one dtype. `value` carries its spread; `css` is `beyond` where the clause was broken by it."""

    dtype: DType
    value: str
    sentence: str
    css: str
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """What was read, under which clause, at every dtype. `target`: where that clause's evidence or text stands."""

    name: str
    clause: str
    instrument: str
    target: str
    reads: tuple[DTypeReading, ...]

    @property
    def is_worded(self) -> bool:
        """Whether words were read, not numbers."""
        return all(read.is_word for read in self.reads)


@dataclass(frozen=True, slots=True)
class SubjectReadings:
    """All that was read off one subject. What is told in words (its precision grade) stands first."""

    subject: JudgedSubject
    quantities: tuple[Quantity, ...]

    @property
    def worded_quantities(self) -> tuple[Quantity, ...]:
        """The quantities that are words."""
        return tuple(quantity for quantity in self.quantities if quantity.is_worded)


def collect_readings(joined: JoinedRecords) -> tuple[SubjectReadings, ...]:
    """A panel for every subject that anything was read off."""
    every = (SubjectReadings(subject, _sort_worded_first(_quantities_of_subject(joined, subject)))
             for subject in joined.subjects)
    return tuple(each for each in every if each.quantities)


def _sort_worded_first(quantities: Iterable[Quantity]) -> tuple[Quantity, ...]:
    return tuple(sorted(quantities, key=lambda quantity: not quantity.is_worded))


def format_reading(reading: Reading) -> str:
    """`−1.2×10⁻⁶ ± 3×10⁻⁷`, or the word."""
    if isinstance(reading.value, str):
        return reading.value
    spread = f" ± {format_figure(reading.spread, 2)}" if reading.spread else ""
    return f"{format_figure(reading.value, 2)}{spread}"


def _quantities_of_subject(joined: JoinedRecords, subject: JudgedSubject) -> Iterable[Quantity]:
    for number, clause in enumerate(joined.clauses):
        outcomes = joined.outcomes_of(subject, clause.id)
        is_finding = any(outcome.verdict in FINDINGS for outcome in outcomes)
        for name, reads in _readings_by_name(outcomes).items():
            yield Quantity(name, clause.id, outcomes[0].instrument,
                           finding_anchor(number, subject) if is_finding
                           else clause_anchor(clause), tuple(reads))


def _readings_by_name(outcomes: Iterable[Outcome]) -> Mapping[str, list[DTypeReading]]:
    """Groups what was read at each dtype by the name of the quantity."""
    found: dict[str, list[DTypeReading]] = {}
    for outcome in outcomes:
        for reading in outcome.readings:
            css = "beyond" if outcome.verdict in FINDINGS else ""
            read = DTypeReading(outcome.dtype, format_reading(reading), reading.sentence, css,
                                isinstance(reading.value, str))
            found.setdefault(reading.quantity, []).append(read)
    return found
