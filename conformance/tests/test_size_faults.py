"""Faults that show only at certain sizes: wrong where they bite, right everywhere else, and other ones by each seed."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.faults.catalogue import ALL, CATALOGUE, FIXED
from attnspec.faults.fault import Fault
from attnspec.faults.planted import Axes, Planted, axes_of
from attnspec.faults.sizes.families import ALL_FAMILIES, FAMILIES
from attnspec.faults.sizes.family import Family
from attnspec.faults.sizes.make import MECHANISMS, drawn
from attnspec.faults.staged import staged
from attnspec.faults.subject import own_subject
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem
from attnspec.problems.recipe import Recipe
from attnspec.trials.evaluator import Evaluator, Tally
from attnspec.trials.trial import Trial
from helpers.law import checks

SEEDS = (0, 1, 7)
MOST, MUCH = 1e9, 1e8
"""Work of a case, B·H·T·S·(D + Dv + 100), that effort `default` affords at most, and what most families need less than."""

VALUES = {"window": "window=5+3", "softcap": "softcap=0.5"}


def recipe(axes: Axes, keywords: frozenset[str], seed: int = 11) -> Recipe:
    """Generic inputs of these lengths."""
    sizes = ",".join(f"{axis}{axes[axis]}" for axis in ("B", "H", "Hkv", "T", "S", "D", "Dv"))
    used = [f"with={'+'.join(sorted(keywords))}"] if keywords else []
    values = [VALUES[name] for name in VALUES if name in keywords]
    mask = "random" if "mask" in keywords else "none"
    return Recipe.parse(";".join([sizes, f"mask={mask}", "families=normal", *used, *values, f"seed={seed}"]))


def plant(fault: Fault) -> Planted:
    assert fault.planted is not None
    return fault.planted


def judged(fault: Fault, axes: Axes, dtype: DType, clause: str = "attention.definition") -> Tally:
    """The clause on generic inputs of these lengths, all rows of it."""
    target = f"fault/{fault.name}"
    trial = Trial(checks()[clause], Evaluator(own_subject(target), dtype), Effort.THOROUGH, 0, lambda _: None)
    return trial.put(recipe(axes, plant(fault).keywords))


def work(axes: Axes) -> float:
    return axes["B·H"] * axes["T"] * axes["S"] * (axes["D"] + axes["Dv"] + 100)


FAULTS = [drawn(family, seed) for seed in SEEDS for family in ALL_FAMILIES]
each_drawn = pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])


@each_drawn
def test_it_is_convicted_at_the_least_sizes_where_it_bites(fault: Fault) -> None:
    axes = plant(fault).least()
    assert plant(fault).bites(axes, plant(fault).keywords)
    assert judged(fault, axes, DType.FLOAT32).failure is not None, plant(fault).reach
