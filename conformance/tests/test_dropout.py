"""Dropout: what is left of the weights is held to the definition, and what is dropped to exact tests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import comb
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.dropout.faults import MISTAKES, by_counter, by_generator, by_tile, factors_of
from attnspec.core.errors import UsageError
from attnspec.core.keyword import GRAD, RATE, SEED
from attnspec.core.keywords import DRAWN, OFF
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.fault import Fault
from attnspec.faults.sound import DROPPING, EVERY, declaration_of_sound
from attnspec.faults.staged_work import HandedOver
from attnspec.faults.subject import fault_subject, own_subject
from attnspec.numerics.dropout import count_limits, dropout_factors, expect_any_dropped, expect_with_factors
from attnspec.numerics.expectation import expect
from attnspec.numerics.gradients import expect_gradients
from attnspec.numerics.precision import assumed_precision
from attnspec.numerics.roundings import assumed_backward
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import log_call
from attnspec.trials.trial import Trial

TEXT = ("B2,H4,Hkv2,T6,S9,D8,Dv5;mask=random;families=normal+uniform;with=mask+dropout_rate+seed;dropout_rate=0.25;"
        "seed=3")
SHAPE = (2, 4, 6, 9)
LAW = load_spec()
CHECKS = {name: check for name, check in compile_spec(LAW).items() if name.startswith("dropout.")}
REFUTATIONS = read_refutations(LAW)
RATES = (0.125, 0.25, 0.5)


def _problem(dtype: DType = DType.FLOAT32, **changes: object) -> Problem:
    return make_problem(Recipe.parse(TEXT), dtype).but(**changes)


def _definition(problem: Problem, factor: Array) -> Array:
    """(B,H,T,Dv) in float64, written out."""
    key, value = (np.repeat(array.astype(float), 2, axis=1) for array in (problem.key, problem.value))
    logits = problem.query.astype(float) @ key.swapaxes(-1, -2) / np.sqrt(problem.sizes.D)
    assert problem.mask is not None
    grown = np.where(problem.mask, np.exp(logits), 0)
    total = grown.sum(axis=-1, keepdims=True)
    return np.asarray((grown / np.where(total == 0, 1, total) * factor) @ value)


# --- Which counts raise an alarm.


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.25), (9, 0.5), (100, 0.125), (700, 0.625)])
@pytest.mark.parametrize("alarm", [0.3, 1e-3, 1e-9])
def test_limits_are_those_of_exact_tails(trials: int, chance: float, alarm: float) -> None:
    low, high = count_limits(trials, chance, alarm)
    p = Fraction(chance)
    tail = [comb(trials, k) * p**k * (1 - p)**(trials - k) for k in range(trials + 1)]
    assert sum(tail[:low]) <= Fraction(alarm) / 2 < sum(tail[:low + 1])
    assert sum(tail[high + 1:]) <= Fraction(alarm) / 2 < sum(tail[high:])


def test_limits_take_the_logarithm_of_no_zero() -> None:
    with np.errstate(all="raise"):
        assert count_limits.__wrapped__(9, 0.5, 1e-3) == count_limits(9, 0.5, 1e-3)  # anew


def test_what_is_certain_has_one_count() -> None:
    assert (count_limits(7, 0.0, 1e-9), count_limits(7, 1.0, 1e-9)) == ((0, 0), (7, 7))


# --- The recipe.


def test_a_recipe_draws_the_seed_of_a_call_by_its_own() -> None:
    drawn = {_problem().seed, make_problem(Recipe.parse(TEXT.replace("seed=3", "seed=4")), DType.FLOAT32).seed}
    assert len(drawn) == 2
    assert _problem().seed == _problem(DType.BFLOAT16).seed
    assert SEED in DRAWN


def test_a_rate_of_zero_is_handed_over_and_none_is_not() -> None:
    assert _problem(dropout_rate=0.0).given[RATE] == 0.0
    assert RATE not in _problem(dropout_rate=OFF[RATE]).given


@pytest.mark.parametrize("rate", ["-0.1", "1.5", "some"])
def test_a_rate_beyond_zero_and_one_is_no_recipe(rate: str) -> None:
    with pytest.raises(UsageError, match="dropout_rate should be a number from 0 to 1"):
        Recipe.parse(TEXT.replace("0.25", rate))


# --- The definition and its bound.


@pytest.mark.parametrize("rate", RATES)
def test_the_output_under_a_mask_is_that_of_the_formula(rate: float) -> None:
    problem = _problem()
    factor = dropout_factors(by_counter(7, SHAPE) >= rate, rate)
    found = expect_with_factors(problem, factor, assumed_precision(DType.FLOAT32), conventions={})
    assert found.output == pytest.approx(_definition(problem, factor), abs=1e-12)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("rate", RATES)
def test_nothing_dropped_but_rescaled_has_the_plain_bound_and_more(dtype: DType, rate: float) -> None:
    problem, precision = _problem(dtype), assumed_precision(dtype)
    plain = expect(problem, precision, conventions={}, parts=frozenset({"output"}))
    one = expect_with_factors(problem, np.ones(SHAPE), precision, conventions={})
    assert np.asarray(one.output_allowance >= plain.output_allowance)[plain.claimed].all()
    assert np.asarray(one.output_allowance <= 9 * plain.output_allowance)[plain.claimed].all()
    any_dropped = expect_any_dropped(problem, rate, precision, conventions={})
    for each in range(5):
        factor = dropout_factors(by_counter(each, SHAPE) >= rate, rate)
        sharp = expect_with_factors(problem, factor, precision, conventions={})
        assert np.asarray(sharp.output_allowance <= any_dropped.output_allowance)[plain.claimed].all()


def test_gradients_under_a_mask_are_differences_of_the_definition() -> None:
    problem = _problem(DType.FLOAT64, bias=np.zeros(SHAPE))
    grad, rate = np.cos(np.arange(2 * 4 * 6 * 5.0)).reshape(2, 4, 6, 5), 0.25
    factor = dropout_factors(by_counter(7, SHAPE) >= rate, rate)
    precision = assumed_precision(DType.FLOAT64)
    found = expect_gradients(problem, grad, precision, assumed_backward(precision), conventions={}, factor=factor)
    for name in ("query", "key", "value"):
        array = getattr(problem, name)
        step = np.zeros_like(array)
        step[0, 1, 2, 3] = 1e-5
        ends = [(_definition(problem.but(**{name: array + side * step}), factor) * grad).sum() for side in (1, -1)]
        assert float(found[name].truth[0, 1, 2, 3]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


# --- Sound formulations, and faults.


def test_sound_formulations_draw_otherwise_and_drop_as_often() -> None:
    drawn = [draw(11, (2, 3, 70, 50)) >= 0.25 for draw in (by_counter, by_generator, by_tile)]
    for kept in drawn:
        low, high = count_limits(kept.size, 0.75, 1e-9)
        assert low <= kept.sum() <= high
    assert all((one != two).any() for one, two in pairwise(drawn))


def test_what_a_call_multiplies_by_is_nothing_without_a_rate() -> None:
    arrays = np.zeros((1, 1, 1, 1))
    call = HandedOver(arrays, arrays, arrays, seed=3)
    assert factors_of(call, (1, 1, 1, 1)) is None
    assert factors_of(call.but(dropout_rate=0.0), (1, 1, 1, 1)) is None
    assert factors_of(call.but(dropout_rate=1.0), (1, 1, 1, 1)) == np.zeros((1, 1, 1, 1))


@pytest.mark.family(1)
@pytest.mark.parametrize("name", [*(f"sound/{name}" for name in DROPPING), "sound/backward_dropout_anew",
                                  "sound/backward_dropout_flash"])
def test_no_clause_of_dropout_accuses_a_sound_formulation(name: str) -> None:
    subject = own_subject(name)
    for dtype in (DType.FLOAT32, DType.BFLOAT16):
        evaluator = Evaluator(subject, dtype)
        for check in CHECKS.values():
            if not check.why_not_put(subject):
                tally = Trial(check, evaluator, Effort.GLANCE, 5, lambda _: None).hold()
                assert tally.failure is None, check.clause.id


@pytest.mark.parametrize("fault", [*MISTAKES.about[RATE], *MISTAKES.about[SEED]], ids=lambda fault: fault.name)
def test_every_fault_of_dropout_is_detected_at_every_dtype(fault: Fault) -> None:
    found = REFUTATIONS.of_fault(fault.name)
    assert any(set(dtypes) == set(DType) for clause, dtypes in found.items() if clause.startswith("dropout."))


def test_formulations_that_drop_nothing_do_not_say_they_do() -> None:
    taking = {name for name, sound in EVERY.items() if RATE in declaration_of_sound(sound).keywords}
    assert taking == set(DROPPING)


def test_a_case_of_gradients_ends_for_who_has_no_backward_pass() -> None:
    problem = _problem(grad_output=np.ones((2, 4, 6, 5), np.float32))
    subject = fault_subject("drop_nan_at_one")
    declared = replace(subject.declaration, keywords=subject.declaration.keywords | {GRAD}, lift="torch")
    assert log_call(replace(subject, declaration=declared), problem).exception_text == "its output requires no gradient"


@pytest.mark.nightly
def test_who_divides_by_nothing_at_one_is_told_so_with_a_replay(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(DIVIDES, encoding="utf-8")
    engine = Engine(Plan((f"{mine}:attend",), clauses=("dropout.rate_one",), effort=Effort.QUICK,
                         dtypes=(DType.FLOAT32,)))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert [each.fault for each in outcome.evidence.like] == ["drop_nan_at_one"]
    again = Recipe.parse(outcome.evidence.recipe)
    assert (again.value(RATE), SEED in again.features) == (0.25, True)


DIVIDES = '''
import numpy as np


def attend(query, key, value, *, dropout_rate=0.0, seed=None):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.dtype.type(query.shape[-1]))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    if dropout_rate:
        kept = np.random.default_rng(seed).random(weights.shape) >= dropout_rate
        weights = weights * (kept / np.float64(1 - dropout_rate)).astype(query.dtype)
    return weights @ value


attend.grouped = False
'''
