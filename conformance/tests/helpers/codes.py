"""Calls with codes, the right formulations that take them, and whether a function is off by more than rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attnspec.aspects.quantised.faults import MISTAKES
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe

CONVENTIONS = {"grouped_heads": "repeat", "causal_alignment": "top_left"}

SOUND = tuple(each for each in MISTAKES.sound if each.pool)
"""The right formulations that take codes; the others quantise inside."""


def calls_of(fault: Fault, storages: Sequence[str], granularities: Sequence[str],
             sizes: Sequence[str]) -> Iterator[Problem]:
    """Problems in float32 whose keys and values, and whatever else the fault is about, have scales of each kind."""
    names = sorted({fault.stage, "key_scale", "value_scale"})
    for storage in storages:
        for granularity in granularities:
            values = ";".join(f"{name}={storage}/{granularity}/odd" for name in names)
            for each in sizes:
                text = f"{each};mask=none;families=normal;with={'+'.join(names)};{values};seed=5"
                yield make_problem(Recipe.parse(text), DType.FLOAT32)


def departs(attend: Callable[..., object], problem: Problem) -> bool:
    """Whether an answer in float32 is off by more than an honest one may be."""
    seen = np.asarray(attend(problem.query, problem.key, problem.value, **problem.given))
    truth = expect(problem, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS)
    off = ~(np.abs(seen - truth.output) <= truth.output_allowance)
    return bool(off[truth.claimed].any())
