"""The rules on gradients used today: each accepts the sound, convicts the blatant, and has its source's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Problem, numpy_dtype
from evaluation.baselines import gradcheck, gradient_grids, gradient_rules, gradient_suites
from evaluation.baselines.gradient_grids import QKV, GradientTest
from evaluation.baselines.gradient_references import PosedGradients
from evaluation.baselines.gradient_rules import GRADIENT_RULES, GradientRule
from evaluation.baselines.gradient_suites import GradientCase, cases_of
from evaluation.baselines.grids import HALVES, THREE, Option
from evaluation.baselines.inputs import normal
from helpers.gradient_rules import SOUND, subject_with_backward
from helpers.rules import failures_by_rule, names_itself_and_its_source

pytestmark = pytest.mark.usefixtures("little_work_of_rules")

USED = [(rule, dtype) for rule in GRADIENT_RULES.values() for dtype in rule.dtypes]
FLASH, FUSED = (GRADIENT_RULES[name] for name in ("flash_attention_gradients", "pytorch_fused_gradients"))
EACH = pytest.mark.parametrize("rule", GRADIENT_RULES.values(), ids=lambda rule: rule.name)
AT_EACH = pytest.mark.parametrize(("rule", "dtype"), USED, ids=lambda each: getattr(each, "name", ""))


@pytest.mark.family(3)
@AT_EACH
def test_a_rule_on_gradients_accepts_the_formula_differentiated(rule: GradientRule, dtype: DType) -> None:
    verdicts = failures_by_rule(rule, SOUND, dtype)
    assert verdicts
    assert not any(verdicts)


@pytest.mark.family(2)
@AT_EACH
@pytest.mark.parametrize("fault", ["grad_value_of_next_head", "grad_misread"])
def test_a_rule_on_gradients_convicts_the_blatant(rule: GradientRule, dtype: DType, fault: str) -> None:
    assert any(failures_by_rule(rule, f"fault/{fault}", dtype))


@EACH
def test_a_rule_on_gradients_is_put_to_who_has_some(rule: GradientRule) -> None:
    asked = (SOUND, "sound/naive", "fault/scale_none", "fault/layer_softmax_over_queries", "fault/grad_misread")
    assert [name for name in asked if rule.suits(own_subject(name))] == [SOUND, "fault/grad_misread"]
    assert failures_by_rule(rule, "sound/naive", rule.dtypes[0]) == []
    assert all(failures_by_rule(rule, SOUND, dtype) == [] for dtype in DType if dtype not in rule.dtypes)


@pytest.mark.family(1)
@EACH
def test_a_rule_on_gradients_draws_anew_with_another_seed(rule: GradientRule) -> None:
    dtype = rule.dtypes[0]
    first, again, other = (cases_of.__wrapped__(rule.cases, dtype, seed)[0].posed.problem for seed in (0, 0, 1))
    assert np.array_equal(first.query, again.query)
    assert not np.array_equal(first.query, other.query)
    assert cases_of(rule.cases, dtype, 0) is cases_of(rule.cases, dtype, 0)


@EACH
def test_a_rule_on_gradients_names_itself_and_its_source(rule: GradientRule) -> None:
    names_itself_and_its_source(rule)


def test_gradients_have_the_numbers_of_their_sources() -> None:
    """As in flash-attention's test_flash_attn.py, PyTorch's test_transformers.py, and the page of gradcheck."""
    flash = [(set(test.factors.values()), set(test.beside_slopes.values()), test.plus)
             for test in gradient_grids.FLASH_GRADIENTS]
    assert flash == [({3}, set(), 0)] * 3 + [({2}, set(), 0)] * 2 + [({2}, set(), 1e-5)] * 2 + [
        ({2}, {8}, 2e-4), ({5}, set(), 1e-3), ({2}, set(), 0)]
    assert [dict(test.factors) for test in gradient_grids.FUSED_GRADIENTS] == [
        {"query": 150, "key": 25, "value": 8.5}, {"query": 160, "key": 25, "value": 8, "bias": 45},
        {"query": 180, "key": 16, "value": 4}, {"query": 110, "key": 8, "value": 3}]
    assert gradient_grids.FUSED_LEAST == 1e-5
    assert (gradcheck.EPS, gradcheck.ATOL, gradcheck.RTOL) == (1e-6, 1e-5, 1e-3)


def test_rules_on_gradients_are_used_where_their_sources_use_them() -> None:
    assert [rule.dtypes for rule in GRADIENT_RULES.values()] == [
        HALVES, THREE, (DType.FLOAT64,), (DType.FLOAT64, *THREE)]
    only = [test.grid.test for test in (*gradient_grids.FLASH_GRADIENTS, *gradient_grids.FUSED_GRADIENTS)
            if test.dtypes == (DType.FLOAT16,)]
    assert only == ["test_flash_attn_bwd_overflow", "test_fused_attention_vs_math_ref_grads_cudagraph"]
    overflows = [sum(case.plus == 1e-3 for case in cases_of(FLASH.cases, dtype, 0)) for dtype in HALVES]
    assert overflows[0]
    assert not overflows[1]


def known(case: GradientCase, kind: str, entry: float) -> None:
    """Give the case references of one entry each; those that are not given are 1."""
    dtype = np.float32 if kind in {"wider", "rounded"} else case.posed.problem.query.dtype
    case.posed.gradients.__dict__[kind] = gradients(entry, dtype)


def gradients(entry: float, dtype: Any = np.float32, **others: float) -> Mapping[str, Array]:  # noqa: ANN401  (NumPy's)
    return {name: np.full((1, 1, 1, 1), others.get(name, entry), dtype) for name in QKV}


def case(dtype: DType = DType.FLOAT32, factor: float = 3, **words: Any) -> GradientCase:  # noqa: ANN401  (a case's)
    """A case with one entry an array, whose references are 1."""
    ones = [np.ones((1, 1, 1, 1), numpy_dtype(dtype))] * 3
    made = GradientCase(PosedGradients(Problem(dtype, *ones, grad_output=ones[0])), dict.fromkeys(QKV, factor), **words)
    for kind in ("wider", "rounded", "same", "eager"):
        known(made, kind, 1)
    return made


def test_flash_attention_allows_times_the_error_of_eager_gradients() -> None:
    judged = case(plus=2**-10)
    known(judged, "eager", 1 + 2**-8)
    assert not gradient_rules.times_eager(gradients(1 + 3 * 2**-8 + 2**-10), judged)
    assert gradient_rules.times_eager(gradients(1, key=1 + 3 * 2**-8 + 2**-9), judged)
    assert gradient_rules.times_eager(gradients(1, value=math.nan), judged)


def test_gradients_of_packed_inputs_have_one_error_of_all_three() -> None:
    apart, packed = case(), case(is_packed=True)
    for each in (apart, packed):
        each.posed.gradients.__dict__["eager"] = gradients(1, key=1 + 2**-8)
    seen = gradients(1, query=1 + 2**-7)
    assert gradient_rules.times_eager(seen, apart)
    assert not gradient_rules.times_eager(seen, packed)
    assert gradient_rules.times_eager(gradients(1, query=1 + 2**-6), packed)


def test_fused_gradients_are_allowed_a_least_distance() -> None:
    judged = case()
    assert not gradient_rules.times_low(gradients(1 + 0.9e-5), judged)
    assert gradient_rules.times_low(gradients(1, query=1 + 1.1e-5), judged)
    known(judged, "same", 1 + 2**-8)
    assert not gradient_rules.times_low(gradients(1 + 3 * 2**-8), judged)
    assert gradient_rules.times_low(gradients(1, value=1 + 4 * 2**-8), judged)
    assert gradient_rules.times_low(gradients(1, query=math.nan), judged)


def test_a_gradient_of_another_dtype_or_beyond_the_defaults_is_far() -> None:
    judged = case()
    assert not gradient_rules.far_from_same(gradients(1 + 1e-6), judged)
    assert gradient_rules.far_from_same(gradients(1, key=1 + 2e-5), judged)
    assert gradient_rules.far_from_same(gradients(1, np.float64), judged)


def test_split_ones_have_another_factor_beside_slopes() -> None:
    split = next(test for test in gradient_grids.FLASH_GRADIENTS if test.beside_slopes)
    assert set(split.factors_with(frozenset()).values()) == {2}
    assert set(split.factors_with(frozenset({Option.ALIBI})).values()) == {8}
    assert set(gradient_grids.FLASH_GRADIENTS[0].factors_with(frozenset({Option.ALIBI})).values()) == {3}


def dealt(test: GradientTest, dtype: DType = DType.FLOAT16) -> list[Problem]:
    return [each.posed.problem for each in gradient_suites._of_tests(normal, [test], dtype, 0)]


def test_a_single_query_has_no_diagonal() -> None:
    causal = next(test for test in gradient_grids.FLASH_GRADIENTS if test.grid.test == "test_flash_attn_causal")
    problems = dealt(replace(causal, grid=replace(causal.grid, lengths=((1, 9), (3, 9)))))
    assert {(problem.sizes.T, problem.causal) for problem in problems} == {(1, False), (3, True)}


def test_gains_and_strides_are_those_of_the_test() -> None:
    overflow, transposed = gradient_grids.FLASH_GRADIENTS[-2:]
    spread = [np.asarray(getattr(dealt(overflow)[-1], name), np.float64).std() for name in QKV]
    assert [round(each) for each in spread] == [5, 3, 3]
    grads = [problem.grad_output for problem in (*dealt(overflow), *dealt(transposed))]
    assert {each.flags.c_contiguous for each in grads[:len(dealt(overflow))] if each is not None} == {True}
    assert {each.flags.c_contiguous for each in grads[len(dealt(overflow)):] if each is not None} == {False}


def test_the_gradient_of_a_float_mask_is_that_of_one_for_all_heads() -> None:
    masked = [each for each in cases_of(FUSED.cases, DType.FLOAT32, 0) if "bias" in each.factors]
    assert masked
    for each in masked:
        sizes, mask = each.posed.problem.sizes, each.posed.gradients.wider["bias"]
        assert mask.shape == (1, 1, sizes.T, sizes.S)


def test_what_raises_has_wrong_gradients() -> None:
    def raises(*_: object, **__: object) -> Mapping[str, Array]:
        raise ValueError("no such kernel")

    assert all(FLASH.judge(subject_with_backward(raises), DType.FLOAT16, 0))


def test_gradients_that_a_subject_does_not_take_are_left_out() -> None:
    subject = own_subject(SOUND)
    plain = replace(subject, declaration=replace(subject.declaration, keywords=frozenset({"causal", "grad_output"})))
    every, some = (len(list(GRADIENT_RULES["assert_close_gradients"].judge(each, DType.FLOAT32, 0)))
                   for each in (subject, plain))
    assert (every, some) == (12, 11)  # one has a float mask


def test_gradients_by_another_convention_are_left_out() -> None:
    subject = own_subject(SOUND)
    declared = {**subject.declaration.conventions, "causal_alignment": "bottom_right"}
    unlike = replace(subject, declaration=replace(subject.declaration, conventions=declared))
    assert len(list(GRADIENT_RULES["assert_close_gradients"].judge(unlike, DType.FLOAT32, 0))) == 9  # of 12


def test_a_backward_pass_with_a_memory_starts_anew_with_each_rule() -> None:
    subject, rule = own_subject("fault/grad_accumulates"), GRADIENT_RULES["assert_close_gradients"]
    assert [list(islice(rule.judge(subject, DType.FLOAT32, 0), 2)) for _ in range(2)] == [[False, True]] * 2
