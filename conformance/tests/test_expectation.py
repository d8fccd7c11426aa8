"""What is expected beside the plain case: caps, domains, hidden poison, sampled rows, parts, layers."""

from __future__ import annotations

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics import bound, expectation, reference
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, Sizes
from helpers.problems import expected_of, normal_problem

OUTPUT = frozenset({"output"})



def test_where_errors_of_weights_overflow_the_hull_of_values_is_the_bound() -> None:
    problem = normal_problem(DType.BFLOAT16, scale=3e5)
    value = np.where(np.arange(8) == 0, 0, problem.value.astype(np.float64)).astype(problem.value.dtype)
    expected = expected_of(problem.but(value=value))
    assert expected.claimed.all()
    assert (expected.output_allowance < 1.1 * np.ptp(value.astype(np.float64), axis=2)[:, :, None] + 1e-2).all()


def test_a_weight_that_underflows_in_the_truth_may_come_back() -> None:
    problem = normal_problem(DType.BFLOAT16, Sizes(1, 1, 1, 1, 2, 2, 1))
    key = np.array([[[[0, 0], [199680, -200704]]]]).astype(problem.key.dtype)  # exp(-1024), give or take 1500
    far = problem.but(query=np.ones_like(problem.query), key=key, scale=1.0)
    assert expected_of(far).output_allowance.min() >= np.ptp(problem.value.astype(np.float64))


@pytest.mark.parametrize("family", ["normal", "constant", "offset", "mixed_magnitudes"])
def test_the_bound_by_squares_is_never_below_the_bound_by_entries(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    recipe = Recipe(Sizes(2, 2, 2, 16, 31, 8, 8), (family,), "random", frozenset({"mask"}), 3)
    problem = make_problem(recipe, DType.FLOAT32)
    by_entries = expected_of(problem).output_allowance
    monkeypatch.setattr(bound, "ELEMENTWISE_UP_TO", 0)
    by_squares = expected_of(problem).output_allowance
    assert (by_squares >= by_entries * (1 - 1e-9)).all()
    assert np.median(by_squares / by_entries) < 1.6


def test_values_too_large_to_be_squared_are_summed_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = normal_problem(DType.FLOAT64)
    huge = problem.but(value=problem.value * 1e200)
    by_entries = expected_of(huge).output_allowance
    monkeypatch.setattr(bound, "ELEMENTWISE_UP_TO", 10_000)
    np.testing.assert_allclose(expected_of(huge).output_allowance, by_entries, rtol=1e-12)


def test_zero_values_are_allowed_next_to_nothing_() -> None:
    problem = normal_problem()
    expected = expected_of(problem.but(value=problem.value * 0))
    assert expected.output_allowance.max() < 1e-40
    assert (expected.output == 0).all()


@pytest.mark.parametrize(("grade", "claims"), [("G0", True), ("G3", False)])
def test_a_raw_dot_product_beyond_its_storage_is_no_claim(grade: str, claims: bool) -> None:
    problem = normal_problem(DType.FLOAT16)
    large = problem.but(query=np.full_like(problem.query, 100), key=np.full_like(problem.key, 100))
    assert expected_of(large, grade=grade).claimed.all() == claims


@pytest.mark.parametrize(("grade", "claims"), [("G0", True), ("G3", False)])
def test_a_hidden_key_that_overflows_its_storage_is_no_claim(grade: str, claims: bool) -> None:
    # T = 16: no row sees key 40, but -inf added to inf is not a number
    problem = normal_problem(DType.FLOAT16, causal=True)
    key = problem.key.copy()
    key[:, :, 40] = 60000
    assert expected_of(problem.but(key=key), grade=grade).claimed.all() == claims


def test_what_no_row_sees_may_be_anything() -> None:
    problem = normal_problem(mask=np.broadcast_to(np.arange(48) != 7, (2, 2, 16, 48)))
    key, value = problem.key.copy(), problem.value.copy()
    key[:, :, 7], value[:, :, 7] = np.nan, np.inf
    clean, poisoned = expected_of(problem), expected_of(problem.but(key=key, value=value))
    np.testing.assert_array_equal(clean.output, poisoned.output)
    np.testing.assert_array_equal(clean.output_allowance, poisoned.output_allowance)
    assert poisoned.claimed.all()


def test_only_rows_that_see_a_nan_lose_their_claim() -> None:
    problem = normal_problem(causal=True)
    value = problem.value.copy()
    value[:, :, 5] = np.nan
    np.testing.assert_array_equal(expected_of(problem.but(value=value)).claimed[0, 0], np.arange(16) < 5)


def test_a_row_without_a_key_is_empty_and_not_claimed() -> None:
    mask = np.ones((2, 2, 16, 48), dtype=bool)
    mask[:, :, 3] = False
    expected = expected_of(normal_problem(mask=mask))
    assert expected.empty[:, :, 3].all()
    np.testing.assert_array_equal(expected.claimed, ~expected.empty)


def test_sampled_rows_are_the_rows_of_the_whole() -> None:
    problem = normal_problem(causal=True, mask=np.random.default_rng(0).random((2, 2, 16, 48)) < 0.7)
    rows = np.array([2, 15])
    whole = expected_of(problem)
    sampled = expect(problem, declared_precision(None, problem.dtype), conventions={}, rows=rows)
    np.testing.assert_allclose(sampled.output, whole.output[:, :, rows], rtol=1e-13)
    np.testing.assert_allclose(sampled.output_allowance, whole.output_allowance[:, :, rows], rtol=1e-13)
    np.testing.assert_array_equal(sampled.visible, whole.visible[:, :, rows])


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_large_problem_is_worked_out_entry_by_entry_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, broadcast: bool,
) -> None:
    mask = np.random.default_rng(0).random((1, 2, 16, 48) if broadcast else (2, 2, 16, 48)) < 0.7
    problem = normal_problem(mask=mask, bias=np.ones((16, 48), np.float32))
    whole = expected_of(problem)
    monkeypatch.setattr(reference, "BATCH_AT_ONCE", 0)
    for name in Expectation.__slots__:
        if getattr(whole, name) is not None:  # what nobody asked for
            seen = getattr(expected_of(problem), name)
            np.testing.assert_allclose(seen, getattr(whole, name), rtol=1e-12, err_msg=name)


def test_parts_that_are_not_asked_for_are_empty_and_the_rest_is_the_same() -> None:
    problem = normal_problem()
    whole, part = expected_of(problem), expect(problem, declared_precision(None, problem.dtype),
                                               conventions={}, parts=OUTPUT)
    np.testing.assert_array_equal(part.output_allowance, whole.output_allowance)
    assert part.weights.size == part.logits_allowance.size == part.row_sum_allowance.size == 0


def test_where_long_double_is_no_wider_the_truth_pays_for_its_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = normal_problem(DType.FLOAT64)
    before = expected_of(problem)
    monkeypatch.setattr(expectation, "is_wider", lambda dtype: dtype is not DType.FLOAT64)
    for name in ("output_allowance", "weights_allowance", "logits_allowance", "row_sum_allowance"):
        np.testing.assert_allclose(getattr(expected_of(problem), name), 2 * getattr(before, name), err_msg=name)


def test_a_hidden_key_is_allowed_no_weight_at_all() -> None:
    expected = expected_of(normal_problem(causal=True))
    assert (expected.weights_allowance[~expected.visible] == 0).all()
    assert (expected.weights_allowance[expected.visible] > 0).all()


def test_logits_are_not_read_off_weights_that_may_underflow() -> None:
    problem = normal_problem(DType.FLOAT16)
    expected = expected_of(problem.but(query=(problem.query * 8).astype(np.float16)))
    small = expected.weights < 3e-5
    assert small.any()
    assert np.isinf(expected.logits_allowance[small]).all()
    assert np.isfinite(expected.logits_allowance[expected.weights > 1e-2]).all()
