"""The score test as mathematics: its rate, its power, its nuisances, and what it makes of a declared drift."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.score import DirectionName, Units, compute_drifts, significance, systematic_error, threshold
from attnspec.problems.problem import Array

DIRECTIONS: tuple[DirectionName, ...] = get_args(DirectionName)
RANDOM = np.random.RandomState(11)


def units(score: Array, size: float = 1.0) -> Units:
    return Units(score, np.full(score.shape, size))


def drawn(slices: int = 60) -> tuple[Array, Array]:
    """Weights (slices,1,8,12) of logits with standard deviation 2, and values (slices,1,12,10)."""
    random = np.random.RandomState(3)
    weights = np.exp(2 * random.randn(slices, 1, 8, 12))
    return weights / weights.sum(axis=-1, keepdims=True), random.randn(slices, 1, 12, 10)


BIAS = np.random.RandomState(5).randn(60, 1, 8, 12)


def pushed(direction: DirectionName, weights: Array, value: Array) -> Array:
    """The output's derivative, from two sides."""
    def output(x: float) -> Array:
        leaning = {"temperature": np.log(weights) - BIAS, "bias": BIAS}.get(direction, np.zeros(weights.shape))
        tempered = weights * np.exp(x * leaning)
        tempered = tempered / tempered.sum(axis=-1, keepdims=True)
        if direction == "mixing":
            tempered = (1 - x) * tempered + x / weights.shape[-1]
        return np.asarray(tempered @ value * (1 + x if direction == "gain" else 1))
    return np.asarray((output(1e-5) - output(-1e-5)) / 2e-5)


def test_the_threshold_follows_from_the_rate_and_the_number_of_tests() -> None:
    assert threshold(1e-9) == pytest.approx(6.5447, abs=1e-4)
    assert 2 * significance(threshold(1e-9, tests=2)) == pytest.approx(1e-9)


@pytest.mark.parametrize("law", ["uniform", "cauchy", "two sizes"])
@pytest.mark.parametrize("rate", [0.3, 0.05])
def test_symmetric_errors_of_any_law_and_of_unlike_sizes_keep_the_rate(law: str, rate: float) -> None:
    random = np.random.RandomState(7)
    shape = (4000, 50)
    errors = {"uniform": random.rand(*shape) - 0.5, "cauchy": random.standard_cauchy(shape),
              "two sizes": np.where(random.rand(*shape) < 0.1, 100, 1) * random.choice([-1.0, 1.0], shape)}[law]
    sizes = np.exp(random.randn(*shape))
    alarms = [abs(units(row).statistic()) > threshold(rate) for row in errors * sizes]
    assert np.mean(alarms) <= rate


def test_the_statistic_is_never_more_than_the_root_of_the_number_of_units() -> None:
    assert units(np.ones(42)).statistic() == pytest.approx(np.sqrt(42))
    assert units(np.ones(42)).statistic() < threshold(1e-9) < units(np.ones(43)).statistic()


def test_no_error_at_all_is_no_drift() -> None:
    assert units(np.zeros(50)).statistic() == 0
    assert units(np.zeros(50)).least_statistic(0.0) == 0


def test_a_drift_that_is_declared_is_none() -> None:
    found = units(0.3 + 0.01 * RANDOM.randn(100))
    assert found.least_statistic(0.2) > threshold(1e-9)
    assert found.least_statistic(0.31) == 0
    assert found.least_statistic(0.29) < found.least_statistic(0.2)


def test_the_smallest_statistic_is_at_an_end_of_the_interval() -> None:
    """T has a maximum beside the estimate: further off it falls again."""
    found = Units(np.array([1.0, 3.0, 2.0, 9.0]), np.array([1.0, 2.0, 9.0, 1.0]))
    for within in (0.1, 0.5, 1.0):
        every = [abs(found.statistic(drift)) for drift in np.linspace(-within, within, 201)]
        assert found.least_statistic(within) == pytest.approx(min(every))


def test_the_estimate_comes_with_its_standard_error() -> None:
    found = [units(0.2 + np.random.RandomState(seed).randn(100)) for seed in range(400)]
    off = [(each.estimate - 0.2) / each.standard_error for each in found]
    assert np.std(off) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_drift_is_measured_in_its_own_direction_and_shows_in_no_other(direction: DirectionName) -> None:
    weights, value = drawn()
    error = 1e-3 * pushed(direction, weights, value)
    for name in DIRECTIONS:
        found = compute_drifts(weights, value, BIAS).units(name, error)
        assert found.count == 60
        assert found.estimate == pytest.approx(1e-3 if name == direction else 0, abs=1e-9)


def test_units_are_summed_apart() -> None:
    weights, value = drawn(2)
    error = np.zeros((2, 1, 8, 10))
    error[1] = (weights @ value)[1]
    found = compute_drifts(weights, value).units("gain", error)
    assert found.score[0] == 0
    assert found.score[1] == pytest.approx(found.size[1])


def test_an_underflown_weight_has_no_say() -> None:
    weights, value = drawn()
    weights[..., 0] = 0
    assert np.isfinite(compute_drifts(weights, value).units("temperature", np.ones((60, 1, 8, 10))).score).all()


# --- what a class declares of its systematic error

U = {DType.FLOAT64: 2.0**-53, DType.FLOAT32: 2.0**-24, DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8}


@pytest.mark.parametrize("dtype", DType)
def test_undeclared_precision_vouches_for_8_units_and_in_halves_a_16th(dtype: DType) -> None:
    half = dtype in (DType.FLOAT16, DType.BFLOAT16)
    wide = U[DType.FLOAT32] if half else U[dtype]
    expected = 8 * wide + U[dtype] ** 2 + (U[dtype] / 16 if half else 0)
    assert systematic_error(declared_precision(None, dtype)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_a_class_in_half_precision_may_vouch_for_its_accumulator(dtype: DType) -> None:
    vouched = systematic_error(declared_precision({"grade": "G1", "systematic": "accumulator"}, dtype))
    assert vouched == pytest.approx(8 * 2.0**-24 + U[dtype] ** 2)
    assert vouched < 1e-4 / 5
    assert 1e-4 < systematic_error(declared_precision({"grade": "G1"}, DType.BFLOAT16)) < 1e-3 / 3


def test_a_coarser_softmax_is_what_eight_units_are_of() -> None:
    declared = {"softmax": "float32", "reason": "the library says so"}
    assert systematic_error(declared_precision(declared, DType.FLOAT64)) == pytest.approx(8 * 2.0**-24)


def test_a_scale_in_half_precision_is_off_unless_roots_are_powers_of_two() -> None:
    stored = declared_precision({"grade": "G3"}, DType.BFLOAT16)
    exact = systematic_error(stored)
    more = [systematic_error(stored, scale_width=width) - exact for width in (16, 256, 24, 64)]
    assert more == [0, 0, 2.0**-8, 2.0**-8]
    assert systematic_error(declared_precision({"grade": "G1"}, DType.BFLOAT16), scale_width=24) < 3e-4


def test_another_word_for_the_systematic_error_is_refused_with_the_nearest() -> None:
    told = (r"'accumulate' is not a known choice \(of 'systematic' in a precision class\)\. "
            r"Did you mean 'accumulator'\?")
    with pytest.raises(ManifestError, match=told):
        declared_precision({"systematic": "accumulate"}, DType.BFLOAT16)


def test_a_float32_class_that_does_not_vouch_must_say_why() -> None:
    with pytest.raises(ManifestError, match=r"looser than the assumed one \(systematic output\)"):
        declared_precision({"systematic": "output"}, DType.FLOAT32)
    assert declared_precision({"systematic": "output", "reason": "measured"}, DType.FLOAT32).systematic == "output"
