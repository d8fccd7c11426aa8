"""The worst-case bound admits every honest way to compute attention, and little else."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import declared_precision, precision_of_grade
from attnspec.problems.domain import ANY_BIAS, ANY_FAMILY, ANY_MASK
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes, numpy_dtype
from helpers.problems import expected_of, normal_problem

OUTPUT = frozenset({"output", "visible"})
HALF = (DType.FLOAT16, DType.BFLOAT16)
SHAPES = (Sizes(2, 4, 2, 2, 5, 7, 3), Sizes(2, 3, 3, 17, 15, 8, 16), Sizes(2, 2, 2, 31, 65, 33, 24),
          Sizes(1, 1, 1, 1, 1, 1, 1))


@dataclass(frozen=True)
class Given:
    """q, k, v and bias in the dtype that the arithmetic is to be done in, one head each; hidden is True where a key may
    not be seen.
    """

    q: Array
    k: Array
    v: Array
    bias: Array | None
    hidden: Array
    scale: float

    @property
    def real(self) -> type[np.floating[Any]]:
        return self.q.dtype.type


# Honest attention, written eight ways.

def softmax(logits: Array) -> Array:
    with np.errstate(all="ignore"):  # rows that see nothing
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def scaled(g: Given) -> Array:
    logits = (g.q @ g.k.swapaxes(-1, -2)) * g.real(g.scale)
    return np.asarray(logits if g.bias is None else logits + g.bias)


def naive(g: Given) -> Array:
    return softmax(np.where(g.hidden, g.real(-np.inf), scaled(g))) @ g.v


def prescaled(g: Given) -> Array:
    return naive(replace(g, q=g.q * g.real(g.scale), scale=1.0))


def scaled_on_both_sides(g: Given) -> Array:
    root = g.real(np.sqrt(abs(g.scale)))
    return naive(replace(g, q=g.q * (root if g.scale >= 0 else -root), k=g.k * root, scale=1.0))


def reversed_keys(g: Given) -> Array:
    bias = None if g.bias is None else g.bias[..., ::-1]
    return naive(Given(g.q, g.k[..., ::-1, :], g.v[..., ::-1, :], bias, g.hidden[..., ::-1], g.scale))


def by_einsum(g: Given) -> Array:
    logits = np.einsum("bhtd,bhsd->bhts", g.q, g.k) / g.real(1 / g.scale if g.scale else np.inf)
    logits = logits if g.bias is None else logits + g.bias
    return np.asarray(np.einsum("bhts,bhsv->bhtv", softmax(np.where(g.hidden, g.real(-np.inf), logits)), g.v))


def least_in_place(g: Given) -> Array:
    return softmax(np.where(g.hidden, np.finfo(g.real).min, scaled(g))) @ g.v


def least_added(g: Given) -> Array:
    return softmax(scaled(g) + np.where(g.hidden, np.finfo(g.real).min, g.real(0))) @ g.v


def online(g: Given) -> Array:
    """Sixteen keys at a time, with a running maximum and a running sum."""
    logits, least = np.where(g.hidden, np.finfo(g.real).min, scaled(g)), np.finfo(g.real).min
    top, total, sums = np.full_like(logits[..., :1], least), g.real(0), g.real(0)
    for start in range(0, g.k.shape[-2], 16):
        block = logits[..., start:start + 16]
        higher = np.maximum(top, block.max(axis=-1, keepdims=True))
        weights, shrink = np.exp(block - higher), np.exp(top - higher)
        total = total * shrink + weights.sum(axis=-1, keepdims=True)
        sums = sums * shrink + weights @ g.v[..., start:start + 16, :]
        top = higher
    return np.asarray(sums / total)


def by_logsumexp(g: Given) -> Array:
    """Weights are exp(logit - logsumexp), and the log-sum-exp is stored."""
    logits = np.where(g.hidden, g.real(-np.inf), scaled(g))
    top = logits.max(axis=-1, keepdims=True)
    stored = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return np.asarray(np.exp(logits - stored) @ g.v)


HONEST: Mapping[str, Callable[..., Array]] = {
    each.__name__: each
    for each in (naive, prescaled, scaled_on_both_sides, reversed_keys, by_einsum, least_in_place, least_added, online)}


def operands(problem: Problem, arithmetic: np.dtype[Any], visible: Array) -> Given:
    group, bias = problem.sizes.H // problem.sizes.Hkv, problem.bias
    key, value = (array.repeat(group, axis=1).astype(arithmetic) for array in (problem.key, problem.value))
    scale = 1 / np.sqrt(problem.sizes.D) if problem.scale is None else problem.scale
    bias = None if bias is None else bias.astype(arithmetic)
    return Given(problem.query.astype(arithmetic), key, value, bias, ~visible, scale)


def margin(answer: Array, expected: Expectation) -> float:
    """The worst gap over allowance among claimed rows."""
    gap = np.abs(answer.astype(expected.output.dtype) - expected.output).astype(np.float64)[expected.claimed]
    allowance = expected.output_allowance[expected.claimed]
    ratio = np.where(gap == 0, 0.0, gap / np.where(allowance == 0, np.finfo(float).tiny, allowance))
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0))


def problems(dtype: DType) -> Iterator[Problem]:
    """Every family with every set of features, twelve heads and more at once."""
    uses = ("", "mask", "bias", "causal", "mask bias causal", "scale", "scale mask")
    scales = itertools.cycle([0.0, -0.5, 2.0, 0.3])
    for seed, (features, sizes, start) in enumerate(itertools.product(uses, SHAPES, range(0, len(ANY_FAMILY), 4))):
        families = ANY_FAMILY[start:start + 4]
        yield make_problem(Recipe(sizes, families, ANY_MASK[seed % len(ANY_MASK)], frozenset(features.split()), seed,
                                  bias=ANY_BIAS[seed % len(ANY_BIAS)], scale=next(scales)), dtype)


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_no_honest_formulation_leaves_the_assumed_bound(dtype: DType) -> None:
    precision, arithmetic = declared_precision(None, dtype), numpy_dtype(DType.FLOAT32 if dtype in HALF else dtype)
    rows = 0
    for problem in problems(dtype):
        expected = expect(problem, precision, conventions={}, parts=OUTPUT)
        given, rows = operands(problem, arithmetic, expected.visible), rows + int(expected.claimed.sum())
        for name, attention in HONEST.items():
            with np.errstate(all="ignore"):
                answer = attention(given).astype(problem.query.dtype)
            assert margin(answer, expected) <= 1, f"{name} on {problem}"
    assert rows > 10_000


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32], ids=lambda dtype: dtype.value)
def test_a_stored_logsumexp_stays_inside_the_class_that_says_so(dtype: DType) -> None:
    stored = declared_precision({"logsumexp_roundings": 1, "reason": "a test"}, dtype)
    worst, beyond = 0.0, 0.0
    for problem in problems(dtype):
        expected = expect(problem, stored, conventions={}, parts=OUTPUT)
        with np.errstate(all="ignore"):
            answer = by_logsumexp(operands(problem, numpy_dtype(dtype), expected.visible)).astype(problem.query.dtype)
        worst = max(worst, margin(answer, expected))
        beyond = max(beyond,
                     margin(answer, expect(problem, declared_precision(None, dtype), conventions={}, parts=OUTPUT)))
    assert worst <= 1 < beyond


@pytest.mark.parametrize("dtype", HALF, ids=lambda dtype: dtype.value)
def test_storing_everything_in_half_precision_is_grade_4(dtype: DType) -> None:
    for problem in problems(dtype):
        expected = expect(problem, precision_of_grade("G4", dtype), conventions={}, parts=OUTPUT)
        with np.errstate(all="ignore"):
            answer = naive(operands(problem, numpy_dtype(dtype), expected.visible))
        assert margin(answer, expected) <= 1, str(problem)


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_honest_weights_their_sums_and_their_logarithms_stay_inside(dtype: DType) -> None:
    precision, arithmetic = declared_precision(None, dtype), numpy_dtype(DType.FLOAT32 if dtype in HALF else dtype)
    for problem, attention in zip(problems(dtype), itertools.cycle([naive, prescaled, online])):
        expected = expect(problem, precision, conventions={}, parts=frozenset({"weights", "logits"}))
        given, claimed = operands(problem, arithmetic, expected.visible), expected.claimed
        B, H, S = given.k.shape[:3]
        identity = np.broadcast_to(np.eye(S, dtype=arithmetic), (B, H, S, S))
        with np.errstate(all="ignore"):
            weights = attention(replace(given, v=identity)).astype(problem.query.dtype).astype(expected.weights.dtype)
            top = np.take_along_axis(weights, expected.weights.argmax(axis=-1)[..., None], axis=-1)
            astray = np.abs(np.log(weights) - np.log(top) - expected.logits)
        readable = np.isfinite(expected.logits_allowance) & expected.visible & claimed[..., None]
        assert (np.abs(weights - expected.weights) <= expected.weights_allowance)[claimed].all(), str(problem)
        assert (np.abs(weights.sum(axis=-1) - 1) <= expected.row_sum_allowance)[claimed].all(), str(problem)
        assert (astray <= expected.logits_allowance)[readable].all(), str(problem)




def allowed(problem: Problem, **declared: object) -> float:
    return float(np.median(expected_of(problem, **declared).output_allowance))


def test_a_scale_that_is_off_by_a_thousandth_is_seen_in_float32() -> None:
    problem = normal_problem()
    given = operands(problem, np.dtype(np.float32), expected_of(problem).visible)
    assert margin(naive(given), expected_of(problem)) < 0.2
    assert margin(naive(replace(given, scale=given.scale * 1.001)), expected_of(problem)) > 5


@pytest.mark.parametrize("dtype", HALF, ids=lambda dtype: dtype.value)
def test_each_grade_allows_more_than_the_one_before(dtype: DType) -> None:
    problem, grades = normal_problem(dtype), ("G0", "G1", "G2", "G3", "G4")
    medians = [allowed(problem, grade=grade, reason="to compare") for grade in grades]
    assert medians == sorted(medians)
    assert medians[3] > 10 * medians[0]


def test_weights_in_bfloat16_are_no_float32_attention() -> None:
    problem = normal_problem()
    expected = expected_of(problem)
    given = operands(problem, np.dtype(np.float32), expected.visible)
    weights = softmax(scaled(given)).astype(numpy_dtype(DType.BFLOAT16))
    assert margin(weights.astype(np.float32) @ given.v, expected) > 50


def test_the_sign_of_the_scale_does_not_matter_to_the_allowance() -> None:
    problem = normal_problem(scale=0.5)
    negative = expected_of(problem.but(query=-problem.query, scale=-0.5))
    np.testing.assert_allclose(negative.output_allowance, expected_of(problem).output_allowance, rtol=1e-12)


def test_a_row_longer_than_its_accumulator_can_sum_is_no_claim() -> None:
    coarse = {"accumulate": "bfloat16", "row_sum": "bfloat16", "reason": "sums in bfloat16"}
    assert expected_of(normal_problem(DType.BFLOAT16, Sizes(1, 1, 1, 2, 100, 4, 4)), **coarse).claimed.all()
    assert not expected_of(normal_problem(DType.BFLOAT16, Sizes(1, 1, 1, 2, 300, 4, 4)), **coarse).claimed.any()


@pytest.mark.parametrize("constant", [-1e10, float(np.finfo(np.float32).min)])
def test_a_finite_mask_constant_in_the_bias_costs_no_more_than_hiding(constant: float) -> None:
    problem = normal_problem()
    hidden = np.zeros((2, 2, 16, 48), dtype=bool)
    hidden[..., 1::2] = True
    as_bias = expected_of(problem.but(bias=np.where(hidden, constant, 0).astype(np.float32)))
    as_mask = expected_of(problem.but(mask=~hidden, bias=np.zeros((2, 2, 16, 48), np.float32)))
    assert as_bias.claimed.all()
    assert (as_bias.output_allowance < 2 * as_mask.output_allowance).all()


def test_a_rounded_query_below_the_normal_range_is_allowed_for() -> None:
    problem = normal_problem(DType.FLOAT16, Sizes(1, 1, 1, 1, 2, 64, 4))
    query, key = np.full((1, 1, 1, 64), 2e-6, np.float16), np.full((1, 1, 2, 64), 3e4, np.float16)
    tiny = problem.but(query=query, key=key * np.array([[1], [-1]], np.float16), scale=0.52)
    expected = expected_of(tiny)
    given = operands(tiny, np.dtype(np.float32), expected.visible)
    stored = (given.q * np.float32(0.52)).astype(np.float16).astype(np.float32)
    assert margin(naive(replace(given, q=stored, scale=1.0)).astype(np.float16), expected) <= 1


def test_heads_with_small_values_are_allowed_as_much_beside_their_size() -> None:
    problem = normal_problem(DType.FLOAT64, Sizes(2, 4, 4, 33, 48, 32, 32))  # large enough for sums of squares
    small = problem.value.copy()
    small[:, 0] *= 2.0**-501  # whose squares are near the end of the range, and their errors beyond it
    allowance, of_small = (expected_of(each).output_allowance for each in (problem, problem.but(value=small)))
    assert (of_small[:, 0] >= 0.999 * 2.0**-501 * allowance[:, 0]).all()
