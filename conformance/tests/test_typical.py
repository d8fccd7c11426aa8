"""What independent roundings come to: a bound that honest attention keeps and that stays sharp on long rows."""

from __future__ import annotations

import functools
import itertools
import math
from typing import get_args

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError
from attnspec.core.nouns import DType, Effort
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.faults.sound import DENSE
from attnspec.faults.subject import own_subject
from attnspec.numerics.expectation import Expectation, _partial_sums, expect, hoeffding_multiple
from attnspec.numerics.precision import Precision, declared_precision, precision_of_grade
from attnspec.problems.choices import shapes_for
from attnspec.problems.domain import GENERIC_FAMILIES, GENERIC_KINDS, MaskName, domain
from attnspec.problems.families import FAMILIES
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.trials.covering_cases import FIXED_KINDS, fixed_recipes

RATE = 1e-6
HALF = (DType.FLOAT16, DType.BFLOAT16)
TYPICAL = frozenset({"typical"})
OFFERED = frozenset({"mask", "bias", "causal", "scale"})
U = 2.0**-24


def of(problem: Problem, precision: Precision | None = None) -> Expectation:
    return expect(problem, precision or precision_of_grade("G0", problem.dtype), conventions=RECOMMENDED, parts=TYPICAL)


def made(*families: str, sizes: Sizes, dtype: DType = DType.FLOAT32, seed: int = 1, **more: object) -> Problem:
    return make_problem(Recipe(sizes, families, "none", frozenset(), seed), dtype).but(**more)


def answered(name: str, problem: Problem) -> Array:
    output = own_subject(name).answer(problem).output
    return output.astype(np.longdouble if problem.dtype is DType.FLOAT64 else np.float64)


def worst(output: Array, expected: Expectation, rate: float = RATE) -> tuple[float, float]:
    """The worst error over S, and over D."""
    gap = np.abs(output - expected.output)[expected.claimed]
    typical, most = (each[expected.claimed] for each in (expected.typical_allowance(rate), expected.output_allowance))
    return tuple(float((np.where(gap == 0, 0, gap) / each).max()) for each in (typical, most))  # type: ignore[return-value]


# --- the law

@pytest.mark.parametrize("terms", [(1.0,), (3.0, -1.0), (1.0, 1.0, 1.0), (5.0, -2.0, 0.25, 1.0, -4.0)])
def test_squared_partial_sums_are_the_mean_over_all_orders(terms: tuple[float, ...]) -> None:
    orders = [np.square(np.cumsum(order)).sum() for order in itertools.permutations(terms)]
    found = _partial_sums(np.array(np.square(terms).sum()), np.array(sum(terms)), float(len(terms)))
    assert found == pytest.approx(np.mean(orders))


@pytest.mark.parametrize("events", [1, 1000, 10**7])
def test_the_multiple_shares_the_rate_out_among_all_events(events: int) -> None:
    assert events * 2 * math.exp(-hoeffding_multiple(events, RATE) ** 2 / 2) == pytest.approx(RATE)


def chance_rounded(problem: Problem, rng: np.random.Generator) -> Array:
    """Attention in float64, each step off by a factor 1 + U or 1 - U at random: the widest law of all admitted."""
    def off(array: Array) -> Array:
        return np.asarray(array * (1 + U * rng.choice([-1.0, 1.0], array.shape)))

    def summed(terms: Array) -> Array:
        total = np.zeros(terms.shape[:-1])
        for term in np.moveaxis(off(terms), -1, 0):
            total = off(total + term)
        return total

    query, key, value = (array.astype(np.float64) for array in (problem.query, problem.key, problem.value))
    query = off(query / math.sqrt(problem.sizes.D))
    logits = summed(query[..., :, None, :] * key[..., None, :, :])
    weights = off(np.exp(off(logits - logits.max(axis=-1, keepdims=True))))
    products = summed(weights[..., None, :] * value.swapaxes(-1, -2)[..., None, :, :])
    return off(products / summed(weights)[..., None])


@pytest.mark.parametrize("family", ["normal", "uniform", "offset", "student_t"])
def test_random_signs_keep_the_bound_and_come_close_to_it(family: str) -> None:
    """At a rate of one half, twelve times: not once, for roundings are smaller sums than Hoeffding allows."""
    rng, ratios = np.random.default_rng(4), []
    for seed in range(12):
        problem = made(family, sizes=Sizes(1, 2, 2, 4, 96, 16, 8), seed=seed)
        ratios.append(worst(chance_rounded(problem, rng), of(problem), 0.5)[0])
    assert max(ratios) <= 1
    assert max(ratios) > 0.2


@functools.cache
def cases(dtype: DType, precision: Precision) -> tuple[tuple[Problem, Expectation], ...]:
    drawn = [domain(kind="generic", sometimes=sorted(OFFERED), masks=["random", "left_padding"]),
             domain(kind="long", sometimes=sorted(OFFERED), masks=["random", "left_padding"])]
    problems = [make_problem(recipe, dtype) for each in drawn
                for recipe in fixed_recipes(each, Limits(grouped=True), Effort.QUICK, 5, OFFERED)]
    return tuple((problem, of(problem, precision)) for problem in problems)


@pytest.mark.family(2, each="dtype")
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("name", DENSE)
def test_no_sound_formulation_exceeds_what_is_typical(name: str, dtype: DType) -> None:
    precision = declared_precision(own_subject(f"sound/{name}").declaration.precision.get(dtype), dtype)
    for problem, expected in cases(dtype, precision):
        assert expected.claimed.any()
        assert worst(answered(f"sound/{name}", problem), expected)[0] <= 1, str(problem)


def test_it_is_never_more_than_the_worst_case() -> None:
    expected = of(made("huge_logits", "normal", sizes=Sizes(1, 2, 2, 8, 40, 8, 8), dtype=DType.BFLOAT16),
                  precision_of_grade("G3", DType.BFLOAT16))
    typical = expected.typical_allowance(RATE)
    assert (typical <= expected.output_allowance).all()
    assert (typical < expected.output_allowance).any()


def test_the_worst_case_stands_where_weights_are_too_uncertain() -> None:
    """Logits in the hundreds, stored in bfloat16."""
    expected = of(made("huge_logits", sizes=Sizes(1, 1, 1, 8, 40, 8, 8), dtype=DType.BFLOAT16),
                  precision_of_grade("G3", DType.BFLOAT16))
    bent = expected.typical_strain[..., 0] > 1
    assert bent.any()
    assert np.array_equal(expected.typical_allowance(RATE)[bent], expected.output_allowance[bent])


def test_a_rarer_alarm_allows_a_little_more() -> None:
    expected = of(made("normal", sizes=Sizes(1, 2, 2, 4, 128, 16, 8)))
    growth = expected.typical_allowance(1e-12) / expected.typical_allowance(1e-6)
    assert (growth > 1).all()
    assert (growth < 1.3).all()


def test_tiny_and_huge_values_neither_under_nor_overflow_in_squares() -> None:
    problem = made("normal", sizes=Sizes(1, 2, 2, 4, 64, 16, 8), dtype=DType.FLOAT64)
    for size in (2.0**-498, 2.0**498):
        scaled = problem.but(value=problem.value * size)
        gained = of(scaled).typical_allowance(RATE) / of(problem).typical_allowance(RATE)
        assert gained == pytest.approx(size)


def test_the_roundings_of_a_constant_are_not_left_to_chance() -> None:
    """A scale that is off by two roundings for all keys moves a row of 4096 as much as one of 16."""
    for S in (16, 4096):
        problem = made("normal", sizes=Sizes(1, 1, 1, 4, S, 16, 8))
        expected, moved = of(problem), of(problem.but(scale=0.25 * (1 + 2 * U)))
        assert (np.abs(moved.output - expected.output) <= expected.typical_sure).all()


# --- what it is for

@functools.cache
def long_row() -> tuple[Problem, Expectation]:
    problem = made("normal", sizes=Sizes(1, 2, 2, 8, 4096, 64, 64))
    return problem, of(problem)


@pytest.mark.parametrize("name", ["inputs_tf32", "inputs_bfloat16", "weights_bfloat16", "scale_off_1e4"])
def test_on_long_rows_the_worst_case_misses_what_is_plainly_not_typical(name: str) -> None:
    problem, expected = long_row()
    typical, most = worst(answered(f"fault/{name}", problem), expected)
    assert most < 1
    assert typical > 4


def test_on_long_rows_it_is_hundreds_of_times_sharper() -> None:
    _, expected = long_row()
    assert np.median(expected.output_allowance / expected.typical_allowance(RATE)) > 300


def test_weights_that_are_all_the_same_break_the_law() -> None:
    """A scale of zero: one rounding of 1/n, shared by all keys. So no such problem is put."""
    problem = made("offset", sizes=Sizes(1, 1, 1, 2, 2040, 8, 8), dtype=DType.BFLOAT16, scale=0.0)
    rounded = np.float64(np.asarray(1 / 2040, problem.query.dtype))  # 1/2040 is rounded by all that a rounding may
    output = (rounded * problem.value.astype(np.float64).sum(axis=-2, keepdims=True)).repeat(2, axis=-2)
    answer = output.astype(problem.query.dtype).astype(np.float64)
    typical, most = worst(answer, of(problem, precision_of_grade("G1", DType.BFLOAT16)))
    assert typical > 1
    assert most <= 1
    assert 0.0 not in domain(kind="generic").scales


# --- the problems

def test_generic_families_are_generic() -> None:
    assert all(FAMILIES[name].generic for name in GENERIC_FAMILIES)
    assert GENERIC_KINDS <= FIXED_KINDS


@pytest.mark.parametrize("kind", sorted(GENERIC_KINDS))
def test_kinds_judged_by_chance_have_no_structure(kind: str) -> None:
    drawn = domain(kind=kind)  # type: ignore[arg-type]  # a kind
    assert drawn.families == GENERIC_FAMILIES
    assert drawn.biases == ("normal",)
    with pytest.raises(SpecError, match="judged by a law of chance; the value family 'constant' has a structure"):
        domain(kind=kind, families=["constant"])  # type: ignore[arg-type]  # a kind


def recipes(kind: str, effort: Effort, offered: frozenset[str] = OFFERED, limits: Limits | None = None) -> list[Recipe]:
    drawn = domain(kind=kind, sometimes=sorted(OFFERED), masks=list(get_args(MaskName)[:4]), grouped="maybe")  # type: ignore[arg-type]  # a kind
    return list(fixed_recipes(drawn, limits or Limits(grouped=True), effort, 9, offered))


@pytest.mark.parametrize("kind", ["generic", "long"])
def test_every_keyword_mask_and_family_has_its_turn(kind: str) -> None:
    found = recipes(kind, Effort.THOROUGH)
    assert {keyword for recipe in found for keyword in recipe.features} == OFFERED
    assert frozenset() in {recipe.features for recipe in found}
    assert len({recipe.mask for recipe in found}) >= 4
    assert {name for recipe in found for name in recipe.families[:recipe.sizes.Hkv]} == set(GENERIC_FAMILIES)
    assert len({recipe.seed for recipe in found}) == len(found)


def test_keywords_that_a_subject_lacks_are_not_put_to_it() -> None:
    assert {recipe.features for recipe in recipes("generic", Effort.DEFAULT, frozenset())} == {frozenset()}


def test_long_rows_have_a_thousand_keys_and_more() -> None:
    assert {recipe.sizes.S for recipe in recipes("long", Effort.THOROUGH)} == {1025, 2048, 4096}
    assert {recipe.sizes.S for recipe in recipes("long", Effort.QUICK)} == {1025}


def test_grouped_heads_are_put_only_to_those_who_take_them() -> None:
    with_groups, without = (recipes("generic", Effort.THOROUGH, limits=Limits(grouped=has)) for has in (True, False))
    assert any(recipe.sizes.Hkv < recipe.sizes.H for recipe in with_groups)
    assert all(recipe.sizes.Hkv == recipe.sizes.H for recipe in without)


def test_a_subject_of_one_head_gets_its_heads_one_after_the_other() -> None:
    [recipe] = recipes("panel", Effort.QUICK, limits=Limits(single_head=True))
    assert (recipe.sizes.B, recipe.sizes.H) == (7, 1)


def test_one_input_for_query_and_key_has_a_panel_of_its_own() -> None:
    [sizes] = shapes_for(domain(kind="panel"), Limits(self_attention_only=True), Effort.DEFAULT)
    assert sizes.T == sizes.S
