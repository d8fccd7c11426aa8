"""Whom a campaign judges, which rows it has (subject by dtype), and which true findings it meets on them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.record.events import BlockJudged
from attnspec.subjects.findings import Finding, findings_of
from attnspec.subjects.registry import registered_subjects

if TYPE_CHECKING:
    from attnspec.problems.problem import Recipe  # NumPy, which the console can do without


CHOSEN: tuple[str, ...] = (
    "sound/naive", "sound/float64_inside", "sound/online_blocks", "sound/prescaled_query", "sound/reversed_keys",
    "sound/sorted_keys", "sound/ring_buffer", "sound/in_order", "sound/einsum", "numpy/attention", "sound/eager",
    "sound/fused_blocks", "sound/merged_splits", "sound/finite_minimum_mask", "sound/finite_minimum_bias",
    "torch/sdpa_math", "torch/sdpa", "torch/sdpa_flash",
    "numpy/paper", "torch/paper", "torch/mha", "torch/mha_no_weights", "jax/attention", "jax/dot_product_attention",
    "jax/dot_product_attention_jit",
)
"""Those of one precision class and convention stand together: they share what the definition says of a case.

Left out are registered subjects that depart from the definition at some dtype in all they do, as their manifests say.
"""

SHARES: Mapping[str, float] = {
    "torch/sdpa": 0.5, "torch/mha": 0.5, "torch/mha_no_weights": 0.5, "numpy/paper": 0.25, "torch/paper": 0.1,
    "jax/attention": 0.05, "jax/dot_product_attention": 0.02, "jax/dot_product_attention_jit": 0.04}
"""Where it is not 1. A layer pays for four projections as well, whose width is that of all heads together, and PyTorch
multiplies float16 slowly on CPUs. `torch/sdpa` has a compiled variant. JAX compiles for every new shape and feature,
and op by op for every new operation."""


def share(target: str) -> float:
    """How many cases a subject gets, relative to others."""
    return SHARES.get(target, 1.0)


def in_order(targets: Iterable[str]) -> tuple[str, ...]:
    """The chosen ones first, in the order that serves sharing."""
    places = {target: place for place, target in enumerate(CHOSEN)}
    return tuple(sorted(dict.fromkeys(targets), key=lambda target: places.get(target, len(places))))


def explaining_finding(subject: str, recipe: Recipe, raised: str) -> Finding | None:
    """The true finding that explains whatever the subject gets wrong on this case: neither held nor a false alarm.

    raised: the type and the words of the exception, if it raised one.
    """
    return next((finding for finding in _with_cases(subject)
                 if finding.cases and finding.cases.hold(recipe.features, recipe.scale, raised)), None)


@cache
def _with_cases(subject: str) -> tuple[Finding, ...]:
    """The findings of the subject's library that say on which cases they show."""
    return tuple(finding for finding in findings_of(subject.partition("/")[0], ())
                 if finding.cases and finding.concerns(subject))


RECIPES = 10
"""Problems of each domain in a block: 700 to 2,000 cases, five to twenty seconds."""

EXPECTED = 200
"""Cases for each of them, before a block of the row has been judged: those of a function with all keywords. Too many is
right, since the next round plans by what there was, and too few would judge more than was asked."""


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """A subject at a dtype."""

    target: str
    dtype: DType


def rows_of(plan: Plan) -> tuple[CampaignRow, ...]:
    """Every target of the plan at every dtype that it declares and the plan asks for."""
    known = registered_subjects(plan.implementations)
    return tuple(CampaignRow(target, dtype) for target in plan.targets
                 for dtype in (known[target].declaration.dtypes if target in known else DType)
                 if not plan.dtypes or dtype in plan.dtypes)


def blocks_needed(
    rows: Sequence[CampaignRow], cases: int, judged: Iterable[BlockJudged], recipes: int = RECIPES,
) -> Mapping[CampaignRow, tuple[int, ...]]:
    """The numbers of the blocks that are still to be judged until every row has its part of so many cases.

    recipes: problems of each domain in a block.
    A row that has blocks and no case in them needs no more: nothing in it can be judged.
    """
    blocks: dict[CampaignRow, list[BlockJudged]] = defaultdict(list)
    for block in judged:
        blocks[CampaignRow(block.subject, block.dtype)].append(block)
    whole = sum(share(row.target) for row in rows)
    numbers = {row: tuple(_numbers_needed(cases * share(row.target) / whole, blocks[row], recipes * EXPECTED))
               for row in rows}
    return {row: found for row, found in numbers.items() if found}


def _numbers_needed(wanted: float, judged: Sequence[BlockJudged], expected: float) -> Iterator[int]:
    have = sum(block.cases for block in judged)
    each = have / len(judged) if judged else expected
    count = math.ceil((wanted - have) / each) if each and have < wanted else 0
    taken = {block.block for block in judged}
    free = (number for number in range(count + len(taken)) if number not in taken)
    yield from (number for number, _ in zip(free, range(count), strict=False))
