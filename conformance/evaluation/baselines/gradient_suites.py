"""The inputs of rules on gradients: what is dealt of their grids, and what gradcheck and the operator's samples are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from attnspec.core.nouns import DType
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Array, Problem, Sizes

from evaluation.baselines.dealing import GridCase, dealt, work
from evaluation.baselines.gradient_grids import (
    FLASH_GRADIENTS,
    FUSED_GRADIENTS,
    Factors,
    GradientTest,
    grids_of,
)
from evaluation.baselines.gradient_references import PosedGradients
from evaluation.baselines.grid_suites import problem_of
from evaluation.baselines.grids import Option
from evaluation.baselines.inputs import OPINFO, Law, attention_problem, draw_array, normal, uniform

SHARE = 0.25
"""Of the work that a rule on outputs puts: a forward pass with its backward pass takes some four times as long."""

REMEMBERED = 4
"""Lists of problems kept with their references: those of all rules at one dtype and seed."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientCase:
    """A problem with its references. factors: by the gradients that are compared, what the test allows."""

    posed: PosedGradients
    factors: Factors
    plus: float = 0.0
    is_packed: bool = False


Cases = Callable[[DType, int], Iterator[GradientCase]]


@functools.lru_cache(REMEMBERED)
def cases_of(cases: Cases, dtype: DType, seed: int) -> tuple[GradientCase, ...]:
    """The cases of a suite; the same objects every time, so that references are worked out once."""
    return tuple(cases(dtype, seed))


def _of_tests(law: Law, tests: Sequence[GradientTest], dtype: DType, seed: int) -> Iterator[GradientCase]:
    """What is dealt of the tests that are run at this dtype, the least work first."""
    by_grid = {test.grid: test for test in tests if dtype in test.dtypes}
    found = dealt(grids_of(tuple(by_grid.values())), seed, SHARE) if by_grid else ()
    for number, case in sorted(enumerate(found), key=lambda each: work(each[1].sizes)):
        test = by_grid[case.grid]
        posed = PosedGradients(_problem(law, test, case, f"case {number}", dtype=dtype, seed=seed))
        yield GradientCase(posed, test.factors_with(case.options), test.plus, test.is_packed)


def _problem(law: Law, test: GradientTest, case: GridCase, label: str, *, dtype: DType, seed: int) -> Problem:
    """The problem of a case, with the output's gradient; a float mask is one for all heads, as it is given.

    The sources' diagonal ends bottom-right, so that a single query sees all keys: it is put without a diagonal.
    Top-left it would see one key, and have gradients of exactly zero, beside which no rounding is allowed.
    """
    problem = problem_of(law, case, label, dtype, seed)
    if case.sizes.T == 1:
        problem = problem.but(causal=False)
    gained = {name: as_dtype(getattr(problem, name).astype(np.float64) * gain, dtype)
              for name, gain in zip(("query", "key", "value"), test.gains, strict=True) if gain != 1}
    shared = {"bias": problem.bias[:1, :1]} if problem.bias is not None and Option.FLOAT_MASK in case.options else {}
    grad = _draw_strided if test.is_strided else _grad
    return problem.but(**gained, **shared, grad_output=grad(law, seed, f"{label} grad", case.sizes, dtype))


def _grad(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> Array:
    """The output's gradient (B,H,T,Dv)."""
    return draw_array(law, seed, label, (sizes.B, sizes.H, sizes.T, sizes.Dv), dtype)


def _draw_strided(law: Law, seed: int, label: str, sizes: Sizes, dtype: DType) -> Array:
    """The same (B,H,T,Dv), as every other sequence of an array (T,2B,H,Dv)."""
    lying = draw_array(law, seed, label, (sizes.T, 2 * sizes.B, sizes.H, sizes.Dv), dtype)
    return lying[:, ::2].transpose(1, 2, 0, 3)


_EVERY: Factors = dict.fromkeys(("query", "key", "value", "bias"), 1.0)


def _samples(dtype: DType, seed: int) -> Iterator[GradientCase]:
    """The draws and operator samples that `assert_close` has for the output, each with a normal gradient."""
    for number, problem in enumerate(OPINFO.attention(dtype, seed)):
        assert isinstance(problem, Problem)  # a layer's are others
        yield _pose_gradients(problem, seed, f"sample grad {number}")


def _pose_gradients(problem: Problem, seed: int, label: str) -> GradientCase:
    """The problem with a normal gradient of the output; a float mask is one for all heads, as it is given."""
    shared: Mapping[str, Array] = {} if problem.bias is None else {"bias": problem.bias[:1, :1]}
    grad = _grad(normal, seed, label, problem.sizes, problem.dtype)
    return GradientCase(PosedGradients(problem.but(**shared, grad_output=grad)), _EVERY)


MATH = Sizes(4, 2, 2, 4, 4, 16, 16)
"""At which PyTorch's test_sdp_math_gradcheck checks gradients, contiguous inputs and packed ones."""

_SAMPLE = Sizes(4, 4, 4, 3, 6, 8, 8)


def _gradcheck_cases(dtype: DType, seed: int) -> Iterator[GradientCase]:
    """PyTorch's own check, then the operator's samples: two causal ones, and one with a float mask."""
    plain = attention_problem(normal, seed, "gradcheck", MATH, dtype)
    packed = {name: _as_packed(getattr(plain, name)) for name in ("query", "key", "value")}
    samples = [attention_problem(normal, seed, f"gradcheck {heads}", replace(_SAMPLE, H=heads, Hkv=heads), dtype)
               for heads in (1, 4)]
    mask = draw_array(normal, seed, "gradcheck mask", (1, 1, _SAMPLE.T, _SAMPLE.S), dtype)
    yield from map(_without_grad, (plain, plain.but(**packed), *(sample.but(causal=True) for sample in samples),
                                   samples[-1].but(bias=mask)))


def _without_grad(problem: Problem) -> GradientCase:
    """The problem with a gradient of zeros, in which one entry after the other is put to 1."""
    sizes = problem.sizes
    zeros = np.zeros((sizes.B, sizes.H, sizes.T, sizes.Dv), problem.query.dtype)
    return GradientCase(PosedGradients(problem.but(grad_output=zeros)), _EVERY)


def _as_packed(array: Array) -> Array:
    """(B,H,T,D), which lies (B,T,3,H,D) with two others."""
    B, H, T, D = array.shape
    lying = np.zeros((B, T, 3, H, D), array.dtype)
    lying[:, :, 0] = array.transpose(0, 2, 1, 3)
    return lying[:, :, 0].transpose(0, 2, 1, 3)


FLASH: Cases = functools.partial(_of_tests, normal, FLASH_GRADIENTS)
FUSED: Cases = functools.partial(_of_tests, uniform, FUSED_GRADIENTS)
SAMPLES: Cases = _samples
CHECKED: Cases = _gradcheck_cases
