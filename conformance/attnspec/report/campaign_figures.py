"""What a campaign for false alarms comes to: how close every sound implementation came to being accused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.ground.nouns import DType
from attnspec.record.campaign import ACCUSING, BINS, BlockJudged
from attnspec.record.outcome import Measured

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
    return tuple(_merged(groups[key]) for key in sorted(groups, key=lambda key: (key[0], order.index(key[1]))))


def _merged(blocks: Sequence[BlockJudged]) -> Margins:
    closest = max(blocks, key=lambda block: _margin(block.worst))
    return Margins(
        subject=closest.subject, dtype=closest.dtype, blocks=len(blocks),
        cases=sum(block.cases for block in blocks), slices=sum(block.slices for block in blocks),
        no_claims=sum(block.no_claims for block in blocks), violations=sum(block.violations for block in blocks),
        histogram=tuple(map(sum, zip(*(_bins(block) for block in blocks), strict=True))),
        worst=closest.worst, clause=closest.clause, recipe=closest.recipe,
        accused=tuple(line for block in blocks for line in block.accused),
        lost=tuple(dict.fromkeys(block.lost for block in blocks if block.lost)), known=_known(blocks),
        problems=sum(block.problems for block in blocks))


def _known(blocks: Sequence[BlockJudged]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for block in blocks:
        found.update(block.known)
    return found


def _bins(block: BlockJudged) -> tuple[int, ...]:
    """All bins, also of a block that was lost and has none."""
    return block.histogram or (0,) * BINS


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
