"""What the instruments read off each subject, whether or not a clause was broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.record.outcome import Outcome, Reading
from attnspec.report.clause_table import finding_anchor
from attnspec.report.figures import FINDINGS, clause_anchor, format_figure
from attnspec.report.joined import JoinedRecords, JudgedSubject


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
    def worded(self) -> tuple[Quantity, ...]:
        """The quantities that are words."""
        return tuple(quantity for quantity in self.quantities if quantity.is_worded)


def collect_readings(joined: JoinedRecords) -> tuple[SubjectReadings, ...]:
    """A panel for every subject that anything was read off."""
    every = (SubjectReadings(subject, _sorted(_quantities(joined, subject))) for subject in joined.subjects)
    return tuple(each for each in every if each.quantities)


def _sorted(quantities: Iterable[Quantity]) -> tuple[Quantity, ...]:
    return tuple(sorted(quantities, key=lambda quantity: not quantity.is_worded))


def format_reading(reading: Reading) -> str:
    """`−1.2×10⁻⁶ ± 3×10⁻⁷`, or the word."""
    if isinstance(reading.value, str):
        return reading.value
    spread = f" ± {format_figure(reading.spread, 2)}" if reading.spread else ""
    return f"{format_figure(reading.value, 2)}{spread}"


def _quantities(joined: JoinedRecords, subject: JudgedSubject) -> Iterable[Quantity]:
    for number, clause in enumerate(joined.clauses):
        outcomes = joined.outcomes_of(subject, clause.id)
        is_finding = any(outcome.verdict in FINDINGS for outcome in outcomes)
        for name, reads in _by_name(outcomes).items():
            yield Quantity(name, clause.id, outcomes[0].instrument,
                           finding_anchor(number, subject) if is_finding else clause_anchor(clause), tuple(reads))


def _by_name(outcomes: Iterable[Outcome]) -> Mapping[str, list[DTypeReading]]:
    """What was read at each dtype, by the name of the quantity."""
    found: dict[str, list[DTypeReading]] = {}
    for outcome in outcomes:
        for reading in outcome.readings:
            css = "beyond" if outcome.verdict in FINDINGS else ""
            read = DTypeReading(outcome.dtype, format_reading(reading), reading.sentence, css,
                                isinstance(reading.value, str))
            found.setdefault(reading.quantity, []).append(read)
    return found
