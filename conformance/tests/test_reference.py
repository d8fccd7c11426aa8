"""The truth, against arithmetic of fifty digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import Expectation, expect, expect_layer
from attnspec.numerics.operands import visible_keys
from attnspec.numerics.precision import declared_precision
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, numpy_dtype
from helpers.problems import normal_problem

mpmath.mp.dps = 50
RNG = np.random.default_rng(7)
SMALL = Sizes(1, 2, 1, 2, 3, 2, 2)


def drawn(sizes: Sizes = SMALL, dtype: DType = DType.FLOAT32, **changes: Any) -> Problem:  # noqa: ANN401  (any field)
    return normal_problem(dtype, sizes, random=RNG, **changes)


def expected_under(problem: Problem, **conventions: str) -> Expectation:
    return expect(problem, declared_precision(None, problem.dtype), conventions=conventions)


def by_hand(problem: Problem, index: tuple[int, int, int], head: int, keys: list[int]) -> list[Any]:
    """One row of the output, in fifty digits."""
    b, h, i = index
    scale = 1 / mpmath.sqrt(problem.sizes.D) if problem.scale is None else mpmath.mpf(problem.scale)
    logits = [scale * mpmath.fdot(exact(problem.query[b, h, i]), exact(problem.key[b, head, j])) for j in keys]
    if problem.bias is not None:
        logits = [logit + bias for logit, bias in zip(logits, exact(problem.bias[b, h, i, keys]), strict=True)]
    weights = [mpmath.exp(logit - max(logits)) for logit in logits]
    columns = (exact(problem.value[b, head, keys, c]) for c in range(problem.sizes.Dv))
    return [mpmath.fdot(weights, column) / sum(weights) for column in columns]


def exact(array: Array) -> list[Any]:
    return [mpmath.mpf(float(entry)) for entry in array]


def assert_as_by_hand(problem: Problem, heads: list[int], **conventions: str) -> None:
    """To within a few units of the arithmetic in which the truth is computed."""
    expected, sizes = expected_under(problem, **conventions), problem.sizes
    unit = float(np.finfo(expected.output.dtype).eps)
    largest = max(float(np.abs(np.asarray(array, float)).max()) for array in (problem.query, problem.key))
    for index in np.ndindex(sizes.B, sizes.H, sizes.T):
        keys = [int(j) for j in np.flatnonzero(expected.visible[index])]
        truth = by_hand(problem, index, heads[index[1]], keys)
        gaps = [abs(mpmath.mpf(str(seen)) - true) for seen, true in zip(expected.output[index], truth, strict=True)]
        assert max(gaps) <= 40 * unit * (1 + largest**2), f"row {index}"


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("changes", [
    {}, {"scale": 0.0}, {"scale": -0.7}, {"causal": True}, {"mask": np.array([True, False, True])[None, None, None]},
    {"bias": RNG.integers(-3, 4, size=(1, 2, 2, 3))}], ids=lambda changes: "+".join(changes) or "plain")
def test_the_truth_is_that_of_fifty_digits(dtype: DType, changes: dict[str, Any]) -> None:
    if "bias" in changes:
        changes = {"bias": changes["bias"].astype(numpy_dtype(dtype))}
    assert_as_by_hand(drawn(dtype=dtype, **changes), [0, 0])


def test_huge_logits_and_ties_are_no_difficulty() -> None:
    problem = drawn()
    assert_as_by_hand(problem.but(query=problem.query * 300), [0, 0])
    assert_as_by_hand(problem.but(key=np.ones_like(problem.key)), [0, 0])


def test_the_truth_of_float64_is_finer_than_float64() -> None:
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("this platform has no wider type")
    assert expected_under(drawn(dtype=DType.FLOAT64)).output.dtype == np.longdouble
    assert_as_by_hand(drawn(dtype=DType.FLOAT64), [0, 0])


@pytest.mark.parametrize(("convention", "heads"), [
    ("repeat", [0, 0, 1, 1]), ("tile", [0, 1, 0, 1]), ("undefined", [0, 0, 1, 1])])
def test_grouped_heads_use_the_declared_key_head(convention: str, heads: list[int]) -> None:
    assert_as_by_hand(drawn(Sizes(2, 4, 2, 2, 3, 2, 1)), heads, grouped_heads=convention)


@pytest.mark.parametrize(("T", "S", "alignment", "visible"), [
    (2, 4, "top_left", ["x---", "xx--"]), (2, 4, "bottom_right", ["xxx-", "xxxx"]),
    (2, 4, "undefined", ["x---", "xx--"]),
    (3, 2, "top_left", ["x-", "xx", "xx"]), (3, 2, "bottom_right", ["--", "x-", "xx"])])
def test_the_causal_diagonal_is_where_it_is_declared(T: int, S: int, alignment: str, visible: list[str]) -> None:
    problem = drawn(Sizes(1, 1, 1, T, S, 2, 2), causal=True)
    seen = visible_keys(problem, {"causal_alignment": alignment})[0, 0]
    assert ["".join("x" if key else "-" for key in row) for row in seen] == visible


@pytest.mark.parametrize(("convention", "visible"), [
    ("both", "x--"), ("mask", "x-x"), ("causal", "xx-"), ("raises", "x--"), ("undefined", "x--")])
def test_a_mask_beside_the_causal_flag_does_what_is_declared(convention: str, visible: str) -> None:
    problem = drawn(causal=True, mask=np.broadcast_to(np.array([True, False, True]), (1, 2, 2, 3)))
    seen = visible_keys(problem, {"mask_with_causal": convention})[0, 0, 1]
    assert "".join("x" if key else "-" for key in seen) == visible


def test_minus_infinity_in_the_bias_hides_a_key() -> None:
    bias = np.zeros((1, 2, 2, 3), np.float32)
    bias[..., 1] = -np.inf
    hidden = expected_under(drawn(bias=bias))
    assert not hidden.visible[..., 1].any()
    assert (hidden.weights[..., 1] == 0).all()
    assert hidden.claimed.all()


def test_the_default_scale_may_be_that_of_another_width() -> None:
    problem = drawn()
    widened = expect(problem, declared_precision(None, problem.dtype), conventions={}, scale_width=8)
    np.testing.assert_allclose(widened.output, expected_under(problem.but(scale=8**-0.5)).output, rtol=1e-14)


def test_weights_and_logits_belong_to_the_same_softmax() -> None:
    expected = expected_under(drawn(causal=True))
    np.testing.assert_allclose(expected.weights.sum(axis=-1), 1, rtol=1e-14)
    unnormalised = np.exp(expected.logits)
    np.testing.assert_allclose(unnormalised / unnormalised.sum(axis=-1, keepdims=True), expected.weights, rtol=1e-14)
    assert (expected.logits.max(axis=-1) == 0).all()


def layer(dtype: DType = DType.FLOAT32, **changes: Any) -> LayerProblem:  # noqa: ANN401  (any field)
    made = numpy_dtype(dtype)
    whole = {name: RNG.integers(-2, 3, size=shape).astype(made) for name, shape in {
        "w_query": (6, 8), "w_key": (6, 4), "w_value": (6, 2), "w_out": (4, 6), "b_query": (8,), "b_out": (6,)}.items()}
    query, key, value = (RNG.integers(-1, 2, size=(2, length, 6)).astype(made) for length in (3, 5, 5))
    return LayerProblem(dtype, query, key, value, whole, heads=4, kv_heads=2, **changes)


def layer_by_loops(problem: LayerProblem) -> Array:
    """Head by head, in float64."""
    w = {name: array.astype(float) for name, array in problem.params.items()}
    query = problem.query @ w["w_query"] + w["b_query"]
    key, value = problem.key @ w["w_key"], problem.value @ w["w_value"]
    heads = []
    for h in range(4):
        logits = query[..., 2 * h:2 * h + 2] @ key[..., 2 * (h // 2):2 * (h // 2) + 2].swapaxes(1, 2) / np.sqrt(2)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        heads.append(weights / weights.sum(axis=-1, keepdims=True) @ value[..., h // 2:h // 2 + 1])
    return np.asarray(np.concatenate(heads, axis=-1) @ w["w_out"] + w["b_out"])


def test_a_layer_is_attention_between_its_projections() -> None:
    problem = layer()
    expected = expect_layer(problem, declared_precision(None, problem.dtype), conventions={})
    np.testing.assert_allclose(expected.output, layer_by_loops(problem), atol=1e-13)
    assert expected.output_allowance.shape == expected.output.shape == (2, 3, 6)
    assert expected.weights.shape == (2, 4, 3, 5)
    assert 0 < expected.output_allowance.max() < 1e-4
    assert expected.output_claimed.all()


def test_an_output_row_of_a_layer_is_claimed_where_all_heads_are() -> None:
    mask = np.ones((2, 4, 3, 5), dtype=bool)
    mask[0, 1, 2] = False
    expected = expect_layer(layer(mask=mask), declared_precision(None, DType.FLOAT32), conventions={})
    np.testing.assert_array_equal(expected.output_claimed, [[True, True, False], [True, True, True]])
    assert expected.claimed.sum() == 2 * 4 * 3 - 1


def test_without_an_output_projection_a_layer_answers_heads_side_by_side() -> None:
    problem = layer()
    bare = problem.but(params={name: array for name, array in problem.params.items() if not name.endswith("_out")})
    expected = expect_layer(bare, declared_precision(None, problem.dtype), conventions={})
    assert expected.output.shape == (2, 3, 4)
