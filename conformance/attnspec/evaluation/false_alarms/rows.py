"""Whom a campaign judges, which rows it has (subject by dtype), and which true findings it meets on them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.record.measurements import BlockJudged
from attnspec.subjects.registry import registered

if TYPE_CHECKING:
    from attnspec.problems.recipe import Recipe  # NumPy, which the console can do without


CHOSEN: tuple[str, ...] = (
    "sound/naive", "sound/float64_inside", "sound/online_blocks", "sound/prescaled_query", "sound/reversed_keys",
    "sound/sorted_keys", "sound/einsum", "numpy/attention", "sound/eager", "sound/fused_blocks",
    "sound/finite_minimum_mask", "sound/finite_minimum_bias", "torch/sdpa_math", "torch/sdpa", "torch/sdpa_flash",
    "numpy/paper", "torch/paper", "torch/mha", "torch/mha_no_weights", "jax/attention", "jax/dot_product_attention",
    "jax/dot_product_attention_jit",
)
"""Those of one precision class and convention stand together: they share what the definition says of a case.

Left out are registered subjects that depart from the definition at some dtype in all they do, as their manifests say.
"""

SHARES: Mapping[str, float] = {
    "torch/mha": 0.5, "torch/mha_no_weights": 0.5,
    "jax/attention": 0.05, "jax/dot_product_attention": 0.02, "jax/dot_product_attention_jit": 0.04}
"""Where it is not 1. A layer pays for four projections as well. JAX compiles for every new shape and feature, and op by
op for every new operation."""


def share(target: str) -> float:
    """How many cases a subject gets, relative to others."""
    return SHARES.get(target, 1.0)


def in_order(targets: Iterable[str]) -> tuple[str, ...]:
    """The chosen ones first, in the order that serves sharing."""
    places = {target: place for place, target in enumerate(CHOSEN)}
    return tuple(sorted(dict.fromkeys(targets), key=lambda target: places.get(target, len(places))))


@dataclass(frozen=True, slots=True)
class Known:
    """A departure of a library from the definition: who, where it shows, what happens and why."""

    name: str
    subjects: frozenset[str]
    shows: Callable[[Recipe], bool]
    story: str


def _is_causal_and_not_scaled_up(recipe: Recipe) -> bool:
    return {"causal", "scale"} <= recipe.features and recipe.scale <= 0


KNOWN: tuple[Known, ...] = (
    Known("causal flag with a scale of 0 or below", frozenset({"torch/sdpa", "torch/sdpa_flash"}),
          _is_causal_and_not_scaled_up,
          "PyTorch's CPU flash kernel writes -inf into the raw dot products of later keys and multiplies by the scale "
          "afterwards: 0 makes NaN of it, and a negative scale +inf, so that the hidden keys get all the weight."),
)


def known(subject: str, recipe: Recipe) -> Known | None:
    """The listed finding that explains a violation of this subject on this case, if there is one."""
    return next((each for each in KNOWN if subject in each.subjects and each.shows(recipe)), None)


RECIPES = 10
"""Problems of each domain in a block: some 700 cases, one or two seconds."""

EXPECTED = 72
"""Cases for each of them, before a block of the row has been judged."""


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """A subject at a dtype."""

    target: str
    dtype: DType


def rows_of(plan: Plan) -> tuple[CampaignRow, ...]:
    """Every target of the plan at every dtype that it declares and the plan asks for."""
    known = registered(plan.implementations)
    return tuple(CampaignRow(target, dtype) for target in plan.targets
                 for dtype in (known[target].declaration.dtypes if target in known else DType)
                 if not plan.dtypes or dtype in plan.dtypes)


def needed(
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
    numbers = {row: tuple(_needed(cases * share(row.target) / whole, blocks[row], recipes * EXPECTED)) for row in rows}
    return {row: found for row, found in numbers.items() if found}


def _needed(wanted: float, judged: Sequence[BlockJudged], expected: float) -> Iterator[int]:
    have = sum(block.cases for block in judged)
    each = have / len(judged) if judged else expected
    count = math.ceil((wanted - have) / each) if each and have < wanted else 0
    taken = {block.block for block in judged}
    free = (number for number in range(count + len(taken)) if number not in taken)
    yield from (number for number, _ in zip(free, range(count), strict=False))
