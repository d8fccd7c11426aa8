"""What a campaign for false alarms comes to, as a section of the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.core.texts import count_noun
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged
from attnspec.record.outcome import Measured
from attnspec.record.read import RunRecord
from attnspec.report.figures import group_digits

from evaluation.false_alarms.bins import ACCUSING

BIN, HEIGHT = 4, 36
"""Width of a bin and height of the highest column of a drawn histogram."""

LIMIT = ACCUSING * BIN
"""Where margin 1 lies in a drawn histogram."""


@dataclass(frozen=True, slots=True)
class Margins:
    """One subject at one dtype, all blocks together. `worst` is its closest call, on `clause` at `recipe`."""

    subject: str
    dtype: DType
    blocks: int
    cases: int
    slices: int
    no_claims: int
    violations: int
    histogram: tuple[int, ...]
    worst: Measured | None
    clause: str
    recipe: str
    accused: tuple[str, ...]
    lost: tuple[str, ...]
    known: Mapping[str, int]
    problems: int

    @property
    def margin(self) -> float:
        """That of the closest call; 0 where nothing was measured."""
        return _margin(self.worst)


def margins(blocks: Iterable[BlockJudged]) -> tuple[Margins, ...]:
    """Every subject at every dtype, subjects by name, widest dtype first."""
    groups: dict[tuple[str, DType], list[BlockJudged]] = {}
    for block in blocks:
        groups.setdefault((block.subject, block.dtype), []).append(block)
    order = list(DType)
    return tuple(_merge_blocks(groups[key]) for key in sorted(groups, key=lambda key: (key[0], order.index(key[1]))))


def _merge_blocks(blocks: Sequence[BlockJudged]) -> Margins:
    closest = max(blocks, key=lambda block: _margin(block.worst))
    return Margins(
        subject=closest.subject, dtype=closest.dtype, blocks=len(blocks),
        cases=sum(block.cases for block in blocks), slices=sum(block.slices for block in blocks),
        no_claims=sum(block.no_claims for block in blocks), violations=sum(block.violations for block in blocks),
        histogram=tuple(map(sum, zip(*(_bins(block) for block in blocks), strict=True))),
        worst=closest.worst, clause=closest.clause, recipe=closest.recipe,
        accused=tuple(line for block in blocks for line in block.accused),
        lost=tuple(dict.fromkeys(block.lost for block in blocks if block.lost)), known=_count_known(blocks),
        problems=sum(block.problems for block in blocks))


def _count_known(blocks: Sequence[BlockJudged]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for block in blocks:
        found.update(block.known)
    return found


def _bins(block: BlockJudged) -> tuple[int, ...]:
    """All bins, also of a block that was lost and has none."""
    return block.histogram or (0,) * HISTOGRAM_BINS


def _margin(worst: Measured | None) -> float:
    if worst is None:
        return 0.0
    return math.inf if math.isnan(worst.margin) else worst.margin


def columns(histogram: Sequence[int], most: int, *, beyond: bool) -> str:
    """The histogram as the path of an area, counts on a log scale up to `most`: margins up to 1, or those beyond."""
    edge = ACCUSING
    chosen = range(edge, len(histogram)) if beyond else range(min(edge, len(histogram)))
    drawn = [(place * BIN, _height(histogram[place], most)) for place in chosen if histogram[place]]
    return "".join(f"M{x} {HEIGHT}v-{high}h{BIN}v{high}z" for x, high in drawn)


def _height(count: int, most: int) -> float:
    """One case is a fifth of what is highest, so that a single close call is seen."""
    return round(HEIGHT * (0.2 + 0.8 * math.log(count) / math.log(max(most, 2))), 1)


WIDTH = HISTOGRAM_BINS * BIN


@dataclass(frozen=True, slots=True)
class Histogram:
    """One subject at one dtype: what was counted, and the two areas that draw it."""

    of: Margins
    fine: str
    beyond: str


@dataclass(frozen=True, slots=True)
class SubjectMargins:
    """One subject: a histogram a dtype, None where it was not judged at that dtype."""

    subject: str
    version: str
    histograms: tuple[Histogram | None, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Why blocks came to nothing, and of whom: a subject with its dtypes."""

    reason: str
    whom: tuple[tuple[str, tuple[DType, ...]], ...]


@dataclass(frozen=True, slots=True)
class Campaign:
    """All that the section shows."""

    headline: str
    css: str
    cases: int
    slices: int
    no_claims: int
    violations: int
    dtypes: tuple[DType, ...]
    panels: tuple[SubjectMargins, ...]
    rows: tuple[Margins, ...]
    closest: Margins | None
    accused: tuple[Margins, ...]
    lost: tuple[Lost, ...]
    known: tuple[Margins, ...]
    problems: int
    width: int = WIDTH
    height: int = HEIGHT
    limit: int = LIMIT


def campaign(records: Sequence[RunRecord]) -> Campaign | None:
    """The campaign of all records together, or None where none is one. A block told twice counts once."""
    blocks = {(block.subject, block.dtype, block.block): block for record in records for block in record.blocks}
    if not blocks:
        return None
    rows = margins(blocks.values())
    violations = sum(row.violations for row in rows)
    cases = sum(row.cases for row in rows)
    dtypes = tuple(dtype for dtype in DType if any(row.dtype is dtype for row in rows))
    return Campaign(
        headline=f"{count_noun(violations, 'violation')} in {group_digits(cases)} {'case' if cases == 1 else 'cases'}",
        css="bad" if violations else "good" if cases and _is_whole(records, rows) else "idle",
        cases=cases, slices=sum(row.slices for row in rows), no_claims=sum(row.no_claims for row in rows),
        violations=violations, dtypes=dtypes, panels=_panels(rows, dtypes, _versions(records)), rows=rows,
        closest=max(rows, key=lambda row: row.margin), accused=tuple(row for row in rows if row.violations),
        lost=_group_lost(rows), known=tuple(row for row in rows if row.known),
        problems=_distinct(blocks.values()))


def _distinct(blocks: Iterable[BlockJudged]) -> int:
    """How many problems there were at the least: subjects share those of a block."""
    most: dict[tuple[DType, int], int] = {}
    for block in blocks:
        key = (block.dtype, block.block)
        most[key] = max(most.get(key, 0), block.problems)
    return sum(most.values())


def _is_whole(records: Sequence[RunRecord], rows: Sequence[Margins]) -> bool:
    return not any(row.lost for row in rows) and not any(record.is_interrupted for record in records if record.blocks)


def _group_lost(rows: Sequence[Margins]) -> tuple[Lost, ...]:
    """The reasons, each told once."""
    found: dict[str, dict[str, list[DType]]] = {}
    for row in rows:
        for reason in row.lost:
            found.setdefault(reason, {}).setdefault(row.subject, []).append(row.dtype)
    return tuple(Lost(reason, tuple((subject, tuple(dtypes)) for subject, dtypes in whom.items()))
                 for reason, whom in found.items())


def _versions(records: Sequence[RunRecord]) -> dict[str, str]:
    cards = [known.card for record in records for known in record.subjects]
    return {card.id: f"{card.distribution} {card.version}".strip() for card in cards}


def _panels(rows: Sequence[Margins], dtypes: Sequence[DType], versions: dict[str, str]) -> tuple[SubjectMargins, ...]:
    most = max((max(row.histogram) for row in rows), default=1)
    drawn = {(row.subject, row.dtype): _histogram(row, most) for row in rows if row.cases}
    return tuple(
        SubjectMargins(subject, versions.get(subject, ""), tuple(drawn.get((subject, dtype)) for dtype in dtypes))
        for subject in dict.fromkeys(row.subject for row in rows))


def _histogram(row: Margins, most: int) -> Histogram:
    fine, beyond = (columns(row.histogram, most, beyond=which) for which in (False, True))
    return Histogram(row, fine, beyond)
