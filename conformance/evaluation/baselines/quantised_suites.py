"""The inputs of rules on codes and scales, and what each of their tests compares an answer with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import ml_dtypes
import numpy as np
from attnspec.aspects.quantised.arrays import NAMES
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Array, Problem

from evaluation.baselines.dealing import dealt, work
from evaluation.baselines.grid_suites import problem_of
from evaluation.baselines.inputs import REMEMBERED, Suite, normal
from evaluation.baselines.quantised_codes import coded_problem, numbers_of
from evaluation.baselines.quantised_grids import CodeGrid
from evaluation.baselines.references import Reference, ReferencedProblem, ReferencePart, eager_in

Allows = Callable[[Array, "CodeReference"], bool]
"""Whether an answer (B,H,T,Dv) is within what a test allows of its reference."""

OF_CODES = 0.25
"""Of the work that a rule on outputs puts: dequantising takes as long as attention where there are few queries."""


@dataclass(frozen=True, slots=True)
class CodeTest:
    """A test: its grid, what it allows, and whether its reference is attention of the numbers before they are coded."""

    grid: CodeGrid
    allows: Allows
    of_numbers: bool = False


class CodeReference(Reference):
    """What a test compares with, and the comparison."""

    def __init__(self, problem: Problem, allows: Allows) -> None:
        super().__init__(problem, ReferencePart.OUTPUT)
        self.allows = allows

    @cached_property
    def eager(self) -> Array:
        """Of dequantised and stored arrays, every result rounded to the inputs' dtype, such as (B,H,T,Dv); the weights
        are rounded to FP8, as flash-attention 3's reference does for inputs in FP8.
        """
        problem = self._problem
        assert isinstance(problem, Problem)
        stored = {name: (getattr(problem, name).astype(np.float32) * scale).astype(problem.query.dtype)
                  for keyword, name in NAMES.items() if (scale := getattr(problem, keyword)) is not None}
        plain = problem.but(**stored, **{f"{name}_scale": None for name in stored})
        io = problem.query.dtype
        return Reference(plain, ReferencePart.OUTPUT).compute_part(io, replace(eager_in(io), drop=_in_fp8))


def _in_fp8(weights: Array, _: object) -> Array:
    """Weights (B,H,T,S), rounded to FP8 and held in their own dtype."""
    return np.asarray(weights.astype(ml_dtypes.float8_e4m3fn).astype(weights.dtype))


class CodeProblem(ReferencedProblem):
    """A problem of codes, with the reference of its test."""

    def __init__(self, problem: Problem, known: Problem, allows: Allows) -> None:
        super().__init__(problem)
        self._known = known
        self._allows = allows

    @cached_property
    def output(self) -> CodeReference:
        """What the output is compared with, (B,H,T,Dv)."""
        return CodeReference(self._known, self._allows)


@dataclass(frozen=True, slots=True)
class CodeSuite(Suite):
    """The inputs of tests of codes. Layers have none."""

    tests: tuple[CodeTest, ...] = ()

    def pose_problems(self, kind: Kind, dtype: DType, seed: int) -> tuple[ReferencedProblem, ...]:
        """The problems for a subject of this kind; the same objects every time, so references are worked out once."""
        return _pose_dealt(self.tests, dtype, seed) if kind is Kind.ATTENTION else ()


@functools.lru_cache(REMEMBERED)
def _pose_dealt(tests: tuple[CodeTest, ...], dtype: DType, seed: int) -> tuple[CodeProblem, ...]:
    """What is dealt of the grids of these tests, the least work first."""
    by_name = {test.grid.test: test for test in tests}
    cases = enumerate(dealt([test.grid for test in tests], seed, OF_CODES))
    found = []
    for number, case in sorted(cases, key=lambda each: work(each[1].sizes)):
        test, label = by_name[case.grid.test], f"case {number}"
        known = numbers_of(case, label, problem_of(normal, case, label, dtype, seed), seed)
        known = known.but(causal=known.causal and case.sizes.T > 1)
        storage = test.grid.storages[number % len(test.grid.storages)]
        coded = coded_problem(case, label, known, storage, seed)
        found.append(CodeProblem(coded, known if test.of_numbers else coded, test.allows))
    return tuple(found)


def of_codes(*tests: CodeTest) -> CodeSuite:
    """The inputs of these tests."""
    return CodeSuite(lambda dtype, seed: iter([posed.problem for posed in _pose_dealt(tests, dtype, seed)]),
                     tests=tests)
