"""The worst-case bound admits every honest way to compute attention, and little else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnspec.ground.nouns import DType
from attnspec.numerics import bound, expectation
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import graded, precision_of
from attnspec.problems.domain import ANY_BIAS, ANY_FAMILY, ANY_MASK
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Sizes, numpy_dtype
from attnspec.problems.recipe import Recipe

OUTPUT = frozenset({"output"})
WIDE = (DType.FLOAT64, DType.FLOAT32)
HALF = (DType.FLOAT16, DType.BFLOAT16)
SHAPES = (Sizes(2, 4, 2, 2, 5, 7, 3), Sizes(2, 3, 3, 17, 15, 8, 16), Sizes(2, 2, 2, 31, 65, 33, 24), Sizes(1, 1, 1, 1, 1, 1, 1))


# Honest attention, written seven ways. q, k, v are in the dtype that the arithmetic is to be done in, `hidden` is True
# where a key may not be seen, `scale` is a Python float.

def softmax(logits: Array) -> Array:
    with np.errstate(all="ignore"):  # rows that see nothing
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def scaled(q: Array, k: Array, bias: Array | None, scale: float) -> Array:
    logits = (q @ k.swapaxes(-1, -2)) * q.dtype.type(scale)
    return logits if bias is None else logits + bias


def naive(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    return softmax(np.where(hidden, q.dtype.type(-np.inf), scaled(q, k, bias, scale))) @ v


def prescaled(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    return naive(q * q.dtype.type(scale), k, v, bias, hidden, 1.0)


def scaled_on_both_sides(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    root = q.dtype.type(np.sqrt(abs(scale)))
    return naive(q * (root if scale >= 0 else -root), k * root, v, bias, hidden, 1.0)


def reversed_keys(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    return naive(q, k[..., ::-1, :], v[..., ::-1, :], None if bias is None else bias[..., ::-1], hidden[..., ::-1], scale)


def by_einsum(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    logits = np.einsum("bhtd,bhsd->bhts", q, k) / q.dtype.type(1 / scale if scale else np.inf)
    logits = logits if bias is None else logits + bias
    return np.einsum("bhts,bhsv->bhtv", softmax(np.where(hidden, q.dtype.type(-np.inf), logits)), v)


def least_in_place(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    return softmax(np.where(hidden, np.finfo(q.dtype).min, scaled(q, k, bias, scale))) @ v


def least_added(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    return softmax(scaled(q, k, bias, scale) + np.where(hidden, np.finfo(q.dtype).min, q.dtype.type(0))) @ v


def online(q: Array, k: Array, v: Array, bias: Array | None, hidden: Array, scale: float) -> Array:
    """Sixteen keys at a time, with a running maximum and a running sum."""
    logits = np.where(hidden, np.finfo(q.dtype).min, scaled(q, k, bias, scale))
    top, total, sums = logits[..., :1] * 0 + np.finfo(q.dtype).min, q[..., :1] * 0, q[..., :1] * v[..., :1, :] * 0
    for start in range(0, k.shape[-2], 16):
        block = logits[..., start:start + 16]
        higher = np.maximum(top, block.max(axis=-1, keepdims=True))
        weights, shrink = np.exp(block - higher), np.exp(top - higher)
        total = total * shrink + weights.sum(axis=-1, keepdims=True)
        sums = sums * shrink + weights @ v[..., start:start + 16, :]
        top = higher
    return np.asarray(sums / total)


HONEST: Mapping[str, Callable[..., Array]] = {
    each.__name__: each
    for each in (naive, prescaled, scaled_on_both_sides, reversed_keys, by_einsum, least_in_place, least_added, online)}


def operands(problem: Problem, arithmetic: np.dtype[Any], visible: Array) -> dict[str, Any]:
    group = problem.sizes.H // problem.sizes.Hkv
    return {"q": problem.query.astype(arithmetic), "k": problem.key.repeat(group, axis=1).astype(arithmetic),
            "v": problem.value.repeat(group, axis=1).astype(arithmetic),
            "bias": None if problem.bias is None else problem.bias.astype(arithmetic), "hidden": ~visible,
            "scale": 1 / np.sqrt(problem.sizes.D) if problem.scale is None else problem.scale}


def margin(answer: Array, expected: Expectation) -> float:
    """The worst gap over allowance among claimed rows."""
    gap = np.abs(answer.astype(expected.output.dtype) - expected.output).astype(np.float64)[expected.claimed]
    allowance = expected.output_allowance[expected.claimed]
    ratio = np.where(gap == 0, 0.0, gap / np.where(allowance == 0, np.finfo(float).tiny, allowance))
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0))


def problems(dtype: DType) -> Iterator[Problem]:
    """Every family with every set of features, twelve heads and more at once."""
    uses = ([], ["mask"], ["bias"], ["causal"], ["mask", "bias", "causal"], ["scale"], ["scale", "mask"])
    scales = itertools.cycle([0.0, -0.5, 2.0, 0.3])
    for seed, (features, sizes, start) in enumerate(itertools.product(uses, SHAPES, range(0, len(ANY_FAMILY), 4))):
        families = ANY_FAMILY[start:start + 4]
        yield make_problem(Recipe(sizes, families, ANY_MASK[seed % len(ANY_MASK)], frozenset(features), seed,
                                  bias=ANY_BIAS[seed % len(ANY_BIAS)], scale=next(scales)), dtype)


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_no_honest_formulation_leaves_the_assumed_bound(dtype: DType) -> None:
    precision, arithmetic = precision_of(None, dtype), numpy_dtype(DType.FLOAT32 if dtype in HALF else dtype)
    rows = 0
    for problem in problems(dtype):
        expected = expect(problem, precision, conventions={}, parts=OUTPUT)
        given, rows = operands(problem, arithmetic, expected.visible), rows + int(expected.claimed.sum())
        for name, attention in HONEST.items():
            with np.errstate(all="ignore"):
                answer = attention(**given).astype(problem.query.dtype)
            assert margin(answer, expected) <= 1, f"{name} on {problem}"
    assert rows > 10_000
