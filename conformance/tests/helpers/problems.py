"""Problems for the rounding bound, and what is expected of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.problem import Problem, Sizes, numpy_dtype

_SIZES = Sizes(2, 2, 2, 16, 48, 32, 8)


def normal_problem(dtype: DType = DType.FLOAT32, sizes: Sizes = _SIZES, *, random: np.random.Generator | None = None,
                   **changes: Any) -> Problem:  # noqa: ANN401  (any field)
    """Query, key and value are normally distributed, and the same in every call unless `random` is given."""
    random, n = random or np.random.default_rng(1), sizes
    shapes = (n.B, n.H, n.T, n.D), (n.B, n.Hkv, n.S, n.D), (n.B, n.Hkv, n.S, n.Dv)
    query, key, value = (random.normal(size=shape).astype(numpy_dtype(dtype)) for shape in shapes)
    return Problem(dtype, query, key, value, **changes)


def expected_of(problem: Problem, **precision: object) -> Expectation:
    """What the definition says without any convention, and what rounding of this declared precision allows."""
    return expect(problem, declared_precision(precision or None, problem.dtype), conventions={})
