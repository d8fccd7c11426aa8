"""The section on a campaign for false alarms, and the sentence over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnspec.ground.nouns import DType
from attnspec.record.campaign import BINS, BlockJudged
from attnspec.record.read import RunRecord
from attnspec.report.campaign_figures import BIN, HEIGHT, LIMIT, Margins, columns, margins
from attnspec.report.figures import counted, grouped

WIDTH = BINS * BIN


@dataclass(frozen=True, slots=True)
class Histogram:
    """One subject at one dtype: what was counted, and the two areas that draw it."""

    of: Margins
    fine: str
    beyond: str


@dataclass(frozen=True, slots=True)
class Panel:
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
    panels: tuple[Panel, ...]
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
        headline=f"{counted(violations, 'violation')} in {grouped(cases)} {'case' if cases == 1 else 'cases'}",
        css="bad" if violations else "good" if cases and _is_whole(records, rows) else "idle",
        cases=cases, slices=sum(row.slices for row in rows), no_claims=sum(row.no_claims for row in rows),
        violations=violations, dtypes=dtypes, panels=_panels(rows, dtypes, _versions(records)), rows=rows,
        closest=max(rows, key=lambda row: row.margin), accused=tuple(row for row in rows if row.violations),
        lost=_lost(rows), known=tuple(row for row in rows if row.known),
        problems=_distinct(blocks.values()))


def _distinct(blocks: Iterable[BlockJudged]) -> int:
    """How many problems there were at the least: subjects share those of a block."""
    most: dict[tuple[DType, int], int] = {}
    for block in blocks:
        key = (block.dtype, block.block)
        most[key] = max(most.get(key, 0), block.problems)
    return sum(most.values())


def _is_whole(records: Sequence[RunRecord], rows: Sequence[Margins]) -> bool:
    return not any(row.lost for row in rows) and not any(record.interrupted for record in records if record.blocks)


def _lost(rows: Sequence[Margins]) -> tuple[Lost, ...]:
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


def _panels(rows: Sequence[Margins], dtypes: Sequence[DType], versions: dict[str, str]) -> tuple[Panel, ...]:
    most = max((max(row.histogram) for row in rows), default=1)
    drawn = {(row.subject, row.dtype): _histogram(row, most) for row in rows if row.cases}
    return tuple(
        Panel(subject, versions.get(subject, ""), tuple(drawn.get((subject, dtype)) for dtype in dtypes))
        for subject in dict.fromkeys(row.subject for row in rows))


def _histogram(row: Margins, most: int) -> Histogram:
    fine, beyond = (columns(row.histogram, most, beyond=which) for which in (False, True))
    return Histogram(row, fine, beyond)
