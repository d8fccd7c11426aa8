"""What was tried of each subject: the lengths of the axes, and the pairs of sizes and keywords that its cases met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnspec.core.coverage import (
    AXES,
    COUNTED,
    AxisBucket,
    Spans,
    bucket_label,
    joined_spans,
    pairs_in,
    places_of,
    read_pairs,
)
from attnspec.core.feature_coverage import describe_triple, triples_in
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.report.joined import JoinedRecords, JudgedSubject

MOST_MISSED = 6
"""Buckets that a sentence names which no case met."""


@dataclass(frozen=True, slots=True)
class CoverageCell:
    """One bucket of an axis: how many pairs with it a subject takes, and how many of them were met."""

    label: str
    met: int
    taken: int


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One row of the coverage table: an axis with its buckets, or a keyword with a single cell for all of them."""

    name: str
    span: str
    cells: tuple[CoverageCell, ...]


@dataclass(frozen=True, slots=True)
class MeasuredCoverage:
    """What the cases of one subject met. met, taken: sets of pairs (`core.coverage`). triples, triples_taken: sets of
    triples of features (`core.feature_coverage`).

    spans: by axis, the least and the greatest length.
    """

    met: int
    taken: int
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
        return (self.met & self.taken).bit_count() / max(1, self.taken.bit_count())

    @property
    def sentence(self) -> str:
        """`T 1–2048; 97 % of 1,220 pairs tried (two sizes, or a size and a keyword); not tried: T 2049–4096`."""
        lengths = ", ".join(f"{axis} {_span(self.spans[axis])}" for axis in AXES if axis in self.spans and axis != "G")
        missed = [f"{row.name} {cell.label}" for row in self.rows for cell in row.cells if cell.taken and not cell.met]
        # rounded down: what was not met is not said to be
        share = f"{int(100 * self.share)} % of {self.taken.bit_count():,}"
        pairs = f"{share} pairs tried (two sizes, or a size and a keyword)"
        untried = ", ".join(missed) if len(missed) <= MOST_MISSED else f"{len(missed)} ranges of lengths, see the page"
        triples = [self.share_of_triples] if self.triples_taken else []
        return "; ".join([lengths, pairs, *triples, *([f"not tried: {untried}"] if missed else [])])

    @property
    def rows(self) -> tuple[CoverageRow, ...]:
        """A row an axis, and one a keyword that the subject takes."""
        met, taken = (_by_place(found) for found in (self.met & self.taken, self.taken))
        axes = (CoverageRow(axis, _span(self.spans[axis]) if axis in self.spans else "",
                            tuple(CoverageCell(bucket_label(*place), met[place], taken[place])
                                  for place in places_of(axis)))
                for axis in AXES)
        keywords = (CoverageRow(name, "", (CoverageCell("all lengths", met[name], taken[name]),)) for name in COUNTED)
        return tuple(row for row in (*axes, *keywords) if any(cell.taken for cell in row.cells))


def _by_place(found: int) -> Counter[AxisBucket | str]:
    """How many pairs of a set have each bucket of an axis, and each keyword."""
    return Counter(place for pair in pairs_in(found) for place in (pair.place, pair.other))


def _span(span: tuple[int, int]) -> str:
    least, most = span
    return str(least) if least == most else f"{least}–{most}"


def measure_coverage(outcomes: Iterable[Outcome], card: SubjectCard) -> MeasuredCoverage | None:
    """What the cases of these outcomes met; None where nobody counted, as in records from before."""
    met, triples, spans = 0, 0, list[Spans]()
    for outcome in outcomes:
        met |= read_pairs(outcome.met)
        triples |= read_pairs(outcome.triples)
        spans.append(outcome.spans)
    if not met or not card.taken:
        return None
    return MeasuredCoverage(met, read_pairs(card.taken), joined_spans(spans), triples, read_pairs(card.triples))


def measure_subjects(joined: JoinedRecords) -> tuple[tuple[JudgedSubject, MeasuredCoverage], ...]:
    """Every subject that was counted, with what its cases met."""
    found = ((subject, measure_coverage((outcome for each in joined.of_subject(subject).values() for outcome in each),
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


def at_sizes(outcomes: Iterable[Outcome]) -> AtSizes | None:
    """What was tried at the sizes that a user names; None where none were."""
    tried, clauses, lacking = dict[str, None](), set[str](), dict[str, set[str]]()
    for outcome in outcomes:
        for sizes, why_not in outcome.asked.items():
            if why_not:
                lacking.setdefault(why_not, set()).add(outcome.clause)
            else:
                tried[sizes] = None
                clauses.add(outcome.clause)
    left = {reason: frozenset(names) for reason, names in lacking.items()}
    return AtSizes(tuple(tried), frozenset(clauses), left) if tried or lacking else None


def at_named_sizes(joined: JoinedRecords) -> tuple[tuple[JudgedSubject, AtSizes], ...]:
    """Every subject that was tried at sizes which a user names."""
    found = ((subject, at_sizes(outcome for each in joined.of_subject(subject).values() for outcome in each))
             for subject in joined.subjects)
    return tuple((subject, each) for subject, each in found if each is not None)
