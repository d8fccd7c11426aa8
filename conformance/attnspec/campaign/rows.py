"""The rows of a campaign, subject by dtype, and how many blocks each still needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.campaign.subjects import share
from attnspec.ground.nouns import DType
from attnspec.ground.plan import Plan
from attnspec.record.campaign import BlockJudged
from attnspec.subjects.registry import registered

RECIPES = 10
"""Problems of each domain in a block: some 700 cases, one or two seconds."""

EXPECTED = 72
"""Cases for each of them, before a block of the row has been judged."""


@dataclass(frozen=True, slots=True)
class Row:
    """A subject at a dtype."""

    target: str
    dtype: DType


def rows_of(plan: Plan) -> tuple[Row, ...]:
    """Every target of the plan at every dtype that it declares and the plan asks for."""
    known = registered(plan.implementations)
    return tuple(Row(target, dtype) for target in plan.targets
                 for dtype in (known[target].declaration.dtypes if target in known else DType)
                 if not plan.dtypes or dtype in plan.dtypes)


def needed(
    rows: Sequence[Row], cases: int, judged: Iterable[BlockJudged], recipes: int = RECIPES,
) -> Mapping[Row, tuple[int, ...]]:
    """The numbers of the blocks that are still to be judged until every row has its part of so many cases.

    recipes: problems of each domain in a block.
    A row that has blocks and no case in them needs no more: nothing in it can be judged.
    """
    blocks: dict[Row, list[BlockJudged]] = defaultdict(list)
    for block in judged:
        blocks[Row(block.subject, block.dtype)].append(block)
    whole = sum(share(row.target) for row in rows)
    numbers = {row: tuple(_needed(cases * share(row.target) / whole, blocks[row], recipes * EXPECTED)) for row in rows}
    return {row: found for row, found in numbers.items() if found}


def _needed(wanted: float, judged: Sequence[BlockJudged], expected: float) -> Iterator[int]:
    have = sum(block.cases for block in judged)
    each = have / len(judged) if judged else expected
    count = math.ceil((wanted - have) / each) if each and have < wanted else 0
    taken = {block.block for block in judged}
    free = (number for number in range(count + len(taken)) if number not in taken)
    yield from (number for number, _ in zip(free, range(count), strict=False))
