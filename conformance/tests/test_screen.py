"""Large problems: no entry goes unseen, the cheap bound is no smaller than the sharp one, and memory stays bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from typing import get_args

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics import bound, reference
from attnspec.numerics.expectation import ALL_PARTS, Expectation, expect
from attnspec.numerics.operands import visible_keys
from attnspec.numerics.precision import declared_precision
from attnspec.problems.domain import BiasName, FamilyName, MaskName
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe, Sizes
from helpers.problems import normal_problem
from hypothesis import given, settings
from hypothesis import strategies as st

OUTPUT = frozenset({"output"})
GROUPED = Sizes(3, 6, 2, 9, 11, 8, 5)
CONVENTIONS = {"causal_alignment": "bottom_right"}


def told(problem: Problem, conventions: Mapping[str, str] = CONVENTIONS, **how: object) -> Expectation:
    return expect(problem, declared_precision(None, problem.dtype), conventions=conventions, **how)  # type: ignore[arg-type]


def hidden(sizes: Sizes) -> Problem:
    """A mask of every head, a bias that all heads share with -inf in it, a window and the causal flag."""
    random, n = np.random.default_rng(7), sizes
    bias = np.where(random.random((n.B, 1, n.T, n.S)) < 0.1, -np.inf, random.normal(size=(n.B, 1, n.T, n.S)))
    return normal_problem(sizes=sizes, mask=random.random((n.B, n.H, n.T, n.S)) < 0.8, bias=bias.astype(np.float32),
                          causal=True, window=(7, None))


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "plain": lambda: normal_problem(sizes=GROUPED),
    "hidden": lambda: hidden(GROUPED),
    "masks of fewer axes": lambda: normal_problem(
        sizes=GROUPED, mask=np.arange(11) < np.arange(9)[:, None] + 2, bias=np.ones((6, 1, 11), np.float32)),
    "float64": lambda: normal_problem(DType.FLOAT64, GROUPED),
    "poisoned": lambda: poisoned(hidden(GROUPED)),
}


def poisoned(problem: Problem) -> Problem:
    value = problem.value.copy()
    value[0, 1, 4], value[1, 0, 10] = np.nan, np.inf
    return problem.but(value=value)


@pytest.mark.family(2, each="at_once")
@pytest.mark.parametrize("grouped_heads", ["repeat", "tile"])
@pytest.mark.parametrize("at_once", ["one row", "a few rows", "a few heads"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_blocks_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch, name: str, at_once: str,
                                          grouped_heads: str) -> None:
    problem, conventions = PROBLEMS[name](), {**CONVENTIONS, "grouped_heads": grouped_heads}
    rows = np.array([8, 2, 3, 5])
    wholes = [told(problem, conventions, rows=chosen, parts=ALL_PARTS | {"typical"}) for chosen in (None, rows)]
    monkeypatch.setattr(reference, "LOGITS_AT_ONCE", {"one row": 1, "a few rows": 40, "a few heads": 250}[at_once])
    for whole, chosen in zip(wholes, (None, rows), strict=True):
        parts = told(problem, conventions, rows=chosen, parts=ALL_PARTS | {"typical"})
        asked = (name for name in Expectation.__slots__ if name != "is_screened" and getattr(whole, name) is not None)
        for field in asked:
            np.testing.assert_allclose(getattr(parts, field), getattr(whole, field), rtol=1e-11, err_msg=field)


def test_no_block_is_larger_than_it_may_be() -> None:
    problem = normal_problem(sizes=Sizes(2, 4, 2, 300, 2000, 4, 4))
    found = list(reference.cut_blocks(problem, {}))
    assert max(np.prod(block.operands.shape) for block in found) <= reference.LOGITS_AT_ONCE
    assert sum(np.prod(block.operands.shape) for block in found) == 2 * 4 * 300 * 2000


def test_a_large_expectation_takes_no_more_memory_than_its_blocks() -> None:
    problem = normal_problem(sizes=Sizes(1, 2, 2, 1024, 2048, 8, 8), causal=True)  # its logits alone are 32 MiB
    tracemalloc.start()
    told(problem, parts=OUTPUT)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 32 * 2**20


@pytest.mark.parametrize("gathered_from", [0, 2**30])
def test_the_hull_is_that_of_the_visible_values(monkeypatch: pytest.MonkeyPatch, gathered_from: int) -> None:
    monkeypatch.setattr(reference, "GATHERED_FROM", gathered_from)
    problem = hidden(Sizes(2, 2, 2, 9, 11, 8, 5))
    low, high = reference.attended_hull(problem, CONVENTIONS)
    visible, value = visible_keys(problem, CONVENTIONS)[..., None], problem.value[:, :, None].astype(np.float64)
    seen = visible.any(axis=3)
    np.testing.assert_array_equal(high, np.where(seen, np.where(visible, value, -np.inf).max(axis=3), 0))
    np.testing.assert_array_equal(low, np.where(seen, np.where(visible, value, np.inf).min(axis=3), 0))


# The screen

problems = st.builds(
    lambda sizes, family, mask, bias, features, seed, dtype: make_problem(
        Recipe(Sizes(2, 2, 1, *sizes), (family,), mask, features, seed, bias=bias), dtype),
    st.tuples(*[st.integers(1, 40)] * 2, *[st.integers(1, 20)] * 2), st.sampled_from(get_args(FamilyName)),
    st.sampled_from(get_args(MaskName)), st.sampled_from(get_args(BiasName)),
    st.frozensets(st.sampled_from(["mask", "bias", "causal"])), st.integers(0, 2**20), st.sampled_from(list(DType)))


@settings(max_examples=150, deadline=None)
@given(problem=problems, grade=st.sampled_from(["", "G0"]))
def test_the_cheap_bound_is_never_below_the_sharp_one(problem: Problem, grade: str) -> None:
    precision = declared_precision({"grade": grade} if grade else None, problem.dtype)
    sharp, cheap = (expect(problem, precision, conventions={}, parts=OUTPUT, screens=screens)
                    for screens in (False, True))
    np.testing.assert_array_equal(cheap.claimed, sharp.claimed)
    assert (cheap.output_allowance[cheap.claimed] >= sharp.output_allowance[cheap.claimed]).all()


@pytest.mark.parametrize(("dtype", "most"), [(DType.FLOAT32, 2.0), (DType.FLOAT64, 4.0), (DType.BFLOAT16, 4.0)])
def test_the_cheap_bound_is_not_much_above_the_sharp_one(dtype: DType, most: float) -> None:
    problem = normal_problem(dtype, Sizes(1, 2, 2, 16, 512, 32, 32))
    sharp, cheap = (told(problem, parts=OUTPUT, screens=screens).output_allowance for screens in (False, True))
    assert 1 < np.median(cheap / sharp) < most


def test_a_float64_truth_pays_for_its_own_rounding() -> None:
    problem = normal_problem(DType.FLOAT64, Sizes(1, 2, 2, 16, 512, 32, 32))
    exact, cheap = (told(problem, parts=ALL_PARTS, screens=screens) for screens in (False, True))
    assert cheap.output.dtype == np.float64
    off = np.abs(cheap.output - exact.output)
    assert (off > 0).any()
    assert (off <= cheap.output_allowance - exact.output_allowance).all()
    assert (cheap.weights_allowance > 1.9 * exact.weights_allowance).all()


def test_where_the_cheap_bound_says_little_the_sharp_one_is_worked_out() -> None:
    problem = normal_problem(DType.BFLOAT16, scale=3.0)
    sharp, cheap = (told(problem, parts=OUTPUT, screens=screens) for screens in (False, True))
    np.testing.assert_array_equal(cheap.output_allowance, sharp.output_allowance)


@pytest.mark.parametrize(("dtype", "sizes", "large"), [
    (DType.FLOAT32, Sizes(4, 8, 8, 128, 128, 64, 64), False), (DType.FLOAT64, Sizes(4, 8, 8, 128, 128, 64, 64), True),
    (DType.FLOAT64, Sizes(2, 4, 4, 128, 128, 64, 64), False), (DType.FLOAT16, Sizes(1, 32, 8, 2048, 2048, 2, 2), True),
])
def test_what_would_take_seconds_is_screened(dtype: DType, sizes: Sizes, large: bool) -> None:
    n, entry = sizes, np.zeros((1, 1, 1, 1), np.float32)
    shapes = (n.B, n.H, n.T, n.D), (n.B, n.Hkv, n.S, n.D), (n.B, n.Hkv, n.S, n.Dv)
    assert bound.needs_screening(Problem(dtype, *(np.broadcast_to(entry, shape) for shape in shapes))) is large


def test_the_closest_queries_are_those_whose_worst_entry_is() -> None:
    seen = np.zeros((2, 2, 20, 3))
    seen[0, 1, 17, 2], seen[1, 0, 3, 0], seen[1, 1, 5, 1] = 3.0, np.nan, 9.0
    claimed = np.ones((2, 2, 20), dtype=bool)
    claimed[1, 1, 5] = False
    found = bound.find_closest_queries(seen, np.zeros(seen.shape), np.ones(seen.shape), claimed)
    assert {3, 17} < set(found.tolist())
    assert len(found) == bound.MOST_CLOSEST_QUERIES
