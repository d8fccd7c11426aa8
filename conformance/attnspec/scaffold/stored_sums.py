"""Whether weights are made of a log-sum-exp that was stored, exp(logit - lse): its rounding moves a whole row alike."""

from __future__ import annotations

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.forms import TABLE
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Problem, numpy_dtype
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.trial_adapter import Trier

HEAD_WIDTH = 4
"""The width of a head, whose scale is a power of two."""
_LARGE, _LARGE_IN_HALF = 1024, 64
"""Logits that float32, and half dtypes, hold exactly, beside which the logarithm of a number of keys is rounded."""
_KEY_COUNTS = range(3, 40)


def stores_log_sum_exp(form: CallForm, dtype: DType, trier: Trier) -> bool:
    """Whether all weights of a row are larger or smaller by just what a log-sum-exp loses that is stored in this dtype.

    All logits are alike and all values are 1, so that the output is 1 if weights are divided by their sum.
    """
    if form.kind is not Kind.ATTENTION or form.sizes or form.is_packed or form.parameter_for(TABLE):
        return False
    number, large = numpy_dtype(dtype), _LARGE_IN_HALF if DTYPES[dtype].is_half else _LARGE
    S, moved = max(((each, _measure_rounding(large, each, dtype)) for each in _KEY_COUNTS),
                   key=lambda pair: abs(pair[1]))
    T = S if form.attends_to_itself or form.limits.get("causal_only") else 1
    query, key = np.zeros((1, 1, T, HEAD_WIDTH), number), np.zeros((1, 1, S, HEAD_WIDTH), number)
    query[..., 0], key[..., 0] = large * HEAD_WIDTH**0.5, 1
    ones = np.ones((1, 1, S, HEAD_WIDTH), number)
    answer = trier.answer(form, Problem(dtype, query, key, ones, causal=bool(form.limits.get("causal_only"))))
    if answer is None:
        return False
    apart = np.abs(answer.output[:, :, -1].astype(np.float64) - 1 - moved)
    step = 2 * DTYPES[dtype].roundoff
    return abs(moved) > 16 * step and bool((apart <= 4 * step).all())


def _measure_rounding(large: int, S: int, dtype: DType) -> float:
    """By what share the weights of S keys, whose logits are this large, grow if their log-sum-exp is rounded."""
    exact = np.longdouble(large) + np.log(np.longdouble(S))
    stored = np.longdouble(np.asarray(exact, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))
    return float(np.expm1(exact - stored))
