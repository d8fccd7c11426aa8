"""The suites whose tests are grids: what is dealt of a grid, as problems."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.core.nouns import DType
from attnspec.problems.families import random_words, whole_numbers
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Problem

from evaluation.baselines import grids
from evaluation.baselines.dealing import GridCase, dealt, for_layers, work
from evaluation.baselines.grids import Option, ParameterGrid
from evaluation.baselines.inputs import (
    Law,
    Suite,
    attention_problem,
    draw_array,
    float_mask,
    normal,
    padding,
    uniform,
)

Changes = Mapping[str, Any]  # fields of a problem, by name


def of_grids(law: Law, published: Sequence[ParameterGrid]) -> Suite:
    """What is dealt of these grids, the least work first; a few of them to a layer, since the originals have none."""
    return Suite(functools.partial(_dealt, law, published), functools.partial(_dealt_to_layers, law, published))


def _dealt(law: Law, published: Sequence[ParameterGrid], dtype: DType, seed: int) -> Iterator[Problem]:
    return _problems(law, dealt(published, seed), dtype, seed)


def _dealt_to_layers(law: Law, published: Sequence[ParameterGrid], dtype: DType, seed: int) -> Iterator[Problem]:
    return _problems(law, for_layers(dealt(published, seed)), dtype, seed)


def _problems(law: Law, cases: Sequence[GridCase], dtype: DType, seed: int) -> Iterator[Problem]:
    for number, case in sorted(enumerate(cases), key=lambda each: work(each[1].sizes)):
        yield problem_of(law, case, f"case {number}", dtype, seed)


def problem_of(law: Law, case: GridCase, label: str, dtype: DType, seed: int, *,
               options: Mapping[Option, Posed] | None = None) -> Problem:
    """The problem of a case, with everything that its options say: by default as dense attention without lengths."""
    problem, known = attention_problem(law, seed, label, case.sizes, dtype), OPTIONS if options is None else options
    for option in (option for option in known if option in case.options):
        problem = problem.but(**known[option](Posing(case, law, problem, seed, f"{label} {option.value}")))
    return problem


@dataclass(frozen=True, slots=True)
class Posing:
    """What an option is made from: the case, the law of its entries, the problem so far, seed and label."""

    case: GridCase
    law: Law
    problem: Problem
    seed: int
    label: str


Posed = Callable[[Posing], Changes]


def _local(posing: Posing) -> Changes:
    left, right = whole_numbers(random_words(posing.seed, posing.label, (2,)), 0, posing.case.sizes.S - 1)
    return {"window": (int(left), int(right))}


def _boolean_mask(posing: Posing) -> Changes:
    sizes = posing.case.sizes
    mask = random_words(posing.seed, posing.label, (sizes.T, sizes.S)) >= np.uint32(2**31)
    return {"mask": np.broadcast_to(mask, (sizes.B, sizes.H, *mask.shape)).copy()}


def _softcap(posing: Posing) -> Changes:
    query, grid = posing.problem.query, posing.case.grid
    return {"softcap": grid.softcap, "query": as_dtype(query.astype(np.float64) * grid.gain, posing.problem.dtype)}


def _alibi(posing: Posing) -> Changes:
    """A bias (B,H,T,S): minus slope times distance, slopes drawn in [0, 0.3) for each sequence and head."""
    sizes = posing.case.sizes
    slopes = draw_array(uniform, posing.seed, posing.label, (sizes.B, sizes.H, 1, 1), DType.FLOAT64) * 0.3
    distance = np.abs(np.arange(sizes.T)[:, None] + (sizes.S - sizes.T) - np.arange(sizes.S))
    return {"bias": np.asarray(-slopes * distance, np.float32).astype(posing.problem.query.dtype)}


OPTIONS: Mapping[Option, Posed] = {
    Option.CAUSAL: lambda _: {"causal": True},
    Option.LOCAL: _local,
    Option.ALIBI: _alibi,
    Option.PADDED: lambda posing: {"mask": padding(posing.seed, posing.label, posing.case.sizes,
                                                    max(1, posing.case.sizes.S - 20))},
    Option.CACHED: lambda posing: {"mask": padding(posing.seed, posing.label, posing.case.sizes, 1)},
    Option.FLOAT_MASK: lambda posing: {"bias": float_mask(posing.law, posing.seed, posing.label, posing.problem)},
    Option.BOOLEAN_MASK: _boolean_mask,
    Option.SOFTCAP: _softcap,
    Option.SCALE: lambda posing: {"scale": 1 / posing.case.sizes.D},
}
"""What each option changes of a problem."""

FLASH_ATTENTION = of_grids(normal, grids.FLASH_ATTENTION)
FLASH_ATTENTION_3 = of_grids(normal, grids.FLASH_ATTENTION_3)
FUSED_ATTENTION = of_grids(uniform, grids.FUSED_ATTENTION)
