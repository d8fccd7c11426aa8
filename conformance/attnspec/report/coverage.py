"""Collects what a run measured besides its verdicts.

That is what was tried of each subject, what the instruments read, and whether the clauses detect
known faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

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
"""How many untried buckets a sentence names; more are counted."""


@dataclass(frozen=True, slots=True)
class CoverageCell:
    """A bucket of an axis: how many pairs with it the subject takes, and how many were tried."""

    label: str
    met_pairs: int
    taken_pairs: int


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """A row of the coverage table: an axis with its buckets, or a keyword with one cell."""

    name: str
    span: str
    cells: tuple[CoverageCell, ...]


@dataclass(frozen=True, slots=True)
class MeasuredCoverage:
    """What the cases of one subject tried, and what there was to try.

    met_pairs, taken_pairs: sets of pairs as bits (`core.coverage`): those that were tried, and
    those that the subject takes.  triples, triples_taken: the same of triples of features.  spans:
    by axis, the least and the greatest length.
    """

    met_pairs: int
    taken_pairs: int
    spans: Mapping[str, tuple[int, int]]
    triples: int = 0
    triples_taken: int = 0

    @property
    def share_of_triples(self) -> str:
        """`98 % of 1,140 triples of features tried`; empty if triples were not counted."""
        if not self.triples_taken:
            return ""
        met = (self.triples & self.triples_taken).bit_count()
        taken = self.triples_taken.bit_count()
        return f"{100 * met // taken} % of {taken:,} triples of features tried"

    @property
    def missed_triples(self) -> tuple[str, ...]:
        """The triples of features that no case had."""
        return tuple(map(describe_triple, triples_in(self.triples_taken & ~self.triples)))

    @property
    def share(self) -> float:
        """The share of the pairs that the subject takes which were tried, from 0 to 1."""
        met = (self.met_pairs & self.taken_pairs).bit_count()
        return met / max(1, self.taken_pairs.bit_count())

    @property
    def sentence(self) -> str:
        """`T 1–2048; 97 % of 1,220 pairs tried (…); not tried: T 2049–4096`."""
        lengths = ", ".join(f"{axis} {_format_span(self.spans[axis])}"
                            for axis in AXES if axis in self.spans and axis != "G")
        # rounded down: less is not said to be all
        share = f"{int(100 * self.share)} % of {self.taken_pairs.bit_count():,}"
        parts = [lengths, f"{share} pairs tried (two sizes, or a size and a keyword)"]
        if self.triples_taken:
            parts.append(self.share_of_triples)
        missed = [f"{row.name} {cell.label}" for row in self.rows
                  for cell in row.cells if cell.taken_pairs and not cell.met_pairs]
        if len(missed) > MOST_MISSED:
            parts.append(f"not tried: {len(missed)} ranges of lengths, see the page")
        elif missed:
            parts.append(f"not tried: {', '.join(missed)}")
        return "; ".join(parts)

    @property
    def rows(self) -> tuple[CoverageRow, ...]:
        """A row for each axis and each keyword that the subject takes."""
        met = _count_pairs_by_place(self.met_pairs & self.taken_pairs)
        taken = _count_pairs_by_place(self.taken_pairs)
        rows = []
        for axis in AXES:
            cells = tuple(CoverageCell(bucket_label(*place), met[place], taken[place])
                          for place in places_of(axis))
            span = _format_span(self.spans[axis]) if axis in self.spans else ""
            rows.append(CoverageRow(axis, span, cells))
        rows += [CoverageRow(name, "", (CoverageCell("all lengths", met[name], taken[name]),))
                 for name in IN_PAIRS]
        return tuple(row for row in rows if any(cell.taken_pairs for cell in row.cells))


def _count_pairs_by_place(pairs: int) -> Counter[AxisBucket | str]:
    """Counts how many pairs of a set have each bucket of an axis, and each keyword."""
    return Counter(place for pair in pairs_in(pairs) for place in (pair.place, pair.other))


def _format_span(span: tuple[int, int]) -> str:
    least, most = span
    return str(least) if least == most else f"{least}–{most}"


def measure_coverage(outcomes: Iterable[Outcome], card: SubjectCard) -> MeasuredCoverage | None:
    """Adds up what the cases of these outcomes tried; None if older records do not tell."""
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
    """Measures what the cases of each subject tried; leaves out those not counted."""
    found = ((subject, measure_coverage(_flat_outcomes(joined, subject), subject.card))
             for subject in joined.subjects)
    return tuple((subject, each) for subject, each in found if each is not None)


def _flat_outcomes(joined: JoinedRecords, subject: JudgedSubject) -> Iterable[Outcome]:
    return chain.from_iterable(joined.outcomes_of_subject(subject).values())


@dataclass(frozen=True, slots=True)
class AtSizes:
    """What was tried at the sizes that a user names. sizes: those that were tried.  clauses: those
    that were tried there.  lacking: by reason, the clauses that were not.
    """

    sizes: tuple[str, ...]
    clauses: frozenset[str]
    lacking: Mapping[str, frozenset[str]]

    @property
    def sentence(self) -> str:
        """`6 clauses at B1 H1 … D16; not causal.alignment: the clause speaks of other sizes`."""
        count = f"{len(self.clauses)} clause{'s' * (len(self.clauses) != 1)}"
        tried = f"{count} at {' and '.join(self.sizes)}" if self.sizes else "nothing was tried"
        return "; ".join([tried, *(f"not {', '.join(sorted(clauses))}: {reason}"
                                   for reason, clauses in self.lacking.items())])


def coverage_at_sizes(outcomes: Iterable[Outcome]) -> AtSizes | None:
    """Finds what was tried at the sizes that a user names; None if the user names none."""
    tried, clauses, lacking = dict[str, None](), set[str](), dict[str, set[str]]()
    for outcome in outcomes:
        for sizes, why_not in outcome.asked.items():
            if why_not:
                lacking.setdefault(why_not, set()).add(outcome.clause)
            else:
                tried[sizes] = None
                clauses.add(outcome.clause)
    if not tried and not lacking:
        return None
    reasons = {reason: frozenset(names) for reason, names in lacking.items()}
    return AtSizes(tuple(tried), frozenset(clauses), reasons)


def coverage_at_named_sizes(joined: JoinedRecords) -> tuple[tuple[JudgedSubject, AtSizes], ...]:
    """Finds what was tried at the sizes that a user names, by subject."""
    found = ((subject, coverage_at_sizes(_flat_outcomes(joined, subject)))
             for subject in joined.subjects)
    return tuple((subject, each) for subject, each in found if each is not None)


@dataclass(frozen=True, slots=True)
class Meeting:
    """How a clause did on a fault. css: the class of its cell.

    `kept`: the clause promises to detect the fault and does.  `missed`: it promises to, but does
    not.  `untried`: it promises to, but was not tried.  `extra`: it detects the fault without a
    promise.  Empty: none of these.
    """

    css: str = ""
    sign: str = ""
    story: str = ""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A clause that detected a fault, the dtypes, and what it saw at the first of them."""

    clause: ClauseText
    dtypes: str
    said: str


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A fault with every clause on it, and the clauses that detected it, promises first."""

    fault: JudgedSubject
    name: str
    meetings: tuple[Meeting, ...]
    refutations: tuple[Refutation, ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust matrix: which clauses detect which faults.

    undetected_faults: those that no clause detected.  missed_promises: clauses with the faults
    that they promised to detect and did not, and what they saw.  absent: faults that clauses name
    and that were not tried.  idle: clauses that detected no fault.
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
    """Makes the matrix of the faults in the record; None if there are none."""
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
    meetings, refutations = [], []
    for clause in clauses:
        outcomes = joined.outcomes_of(fault, clause.id)
        meetings.append(_meeting(name, clause, outcomes))
        if refuting := _refuting_outcomes(outcomes):
            refutations.append(_refutation(clause, refuting))
    refutations.sort(key=lambda refutation: name not in refutation.clause.refuted_by)
    return FaultRow(fault, name, tuple(meetings), tuple(refutations))


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
    return Meeting("missed", "◐" if refuting else "✗", _describe_meeting(outcomes, refuting))


def _describe_meeting(outcomes: tuple[Outcome, ...], refuting: tuple[Outcome, ...]) -> str:
    """`detected at f32, held at bf16`."""
    words = [f"detected at {_join_dtypes(refuting)}"] if refuting else []
    for outcome in outcomes:
        if outcome not in refuting:
            why = f" ({outcome.reason})" if outcome.reason else ""
            words.append(f"{SIGNS[outcome.verdict].word} at {SHORT_NAMES[outcome.dtype]}{why}")
    return ", ".join(words)


def _join_dtypes(outcomes: tuple[Outcome, ...]) -> str:
    return " ".join(SHORT_NAMES[outcome.dtype] for outcome in outcomes)


def _missed_refutations(
    clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...],
) -> tuple[tuple[ClauseText, tuple[tuple[str, str], ...]], ...]:
    missed = []
    for place, clause in enumerate(clauses):
        stories = tuple((row.name, row.meetings[place].story)
                        for row in rows if row.meetings[place].css == "missed")
        if stories:
            missed.append((clause, stories))
    return tuple(missed)


def _absent_faults(clauses: tuple[ClauseText, ...], rows: tuple[FaultRow, ...]) -> tuple[str, ...]:
    named = {name for clause in clauses for name in clause.refuted_by}
    return tuple(sorted(named - {row.name for row in rows}))


@dataclass(frozen=True, slots=True)
class DTypeReading:
    """One reading at one dtype. value: with its spread.  css: `beyond` if the clause failed, else
    empty.
    """

    dtype: DType
    value: str
    sentence: str
    css: str
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """What an instrument read under a clause, at every dtype. target: the anchor of the clause's
    evidence or text.
    """

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
    """All readings of one subject. Those in words, such as its precision grade, come first."""

    subject: JudgedSubject
    quantities: tuple[Quantity, ...]

    @property
    def worded_quantities(self) -> tuple[Quantity, ...]:
        """The quantities that are words."""
        return tuple(quantity for quantity in self.quantities if quantity.is_worded)


def collect_readings(joined: JoinedRecords) -> tuple[SubjectReadings, ...]:
    """Collects the readings of every subject that has any."""
    panels = []
    for subject in joined.subjects:
        quantities = sorted(_quantities_of_subject(joined, subject),
                            key=lambda quantity: not quantity.is_worded)
        if quantities:
            panels.append(SubjectReadings(subject, tuple(quantities)))
    return tuple(panels)


def format_reading(reading: Reading) -> str:
    """`−1.2×10⁻⁶ ± 3×10⁻⁷`, or the word that was read."""
    if isinstance(reading.value, str):
        return reading.value
    spread = f" ± {format_figure(reading.spread, 2)}" if reading.spread else ""
    return f"{format_figure(reading.value, 2)}{spread}"


def _quantities_of_subject(joined: JoinedRecords, subject: JudgedSubject) -> Iterable[Quantity]:
    for number, clause in enumerate(joined.clauses):
        outcomes = joined.outcomes_of(subject, clause.id)
        target = clause_anchor(clause)
        if any(outcome.verdict in FINDINGS for outcome in outcomes):
            target = finding_anchor(number, subject)
        for name, reads in _readings_by_name(outcomes).items():
            yield Quantity(name, clause.id, outcomes[0].instrument, target, tuple(reads))


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
