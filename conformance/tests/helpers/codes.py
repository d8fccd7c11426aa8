"""Whether a function of codes is off by more than an honest one may be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed
from attnspec.problems.problem import Problem

CONVENTIONS = {"grouped_heads": "repeat", "causal_alignment": "top_left"}


def departs(attend: Callable[..., object], problem: Problem) -> bool:
    """Whether an answer in float32 is off by more than an honest one may be."""
    seen = np.asarray(attend(problem.query, problem.key, problem.value, **problem.given))
    truth = expect(problem, assumed(DType.FLOAT32), conventions=CONVENTIONS)
    off = ~(np.abs(seen - truth.output) <= truth.output_allowance)
    return bool(off[truth.claimed].any())
