"""The rules used today, as detectors: each accepts the sound, convicts the blatant, and has its source's numbers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType, Kind
from attnspec.faults.sound import sound_named
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from evaluation.baselines import rules
from evaluation.baselines.false_alarms import false_alarm_share
from evaluation.baselines.grids import HALVES, THREE
from evaluation.baselines.inputs import SHAPES, Suite
from evaluation.baselines.onnx_nodes import LEFT_OUT, NODES, Node
from evaluation.baselines.references import Reference, ReferencedProblem
from evaluation.baselines.rules import RULES, Rule
from helpers.rules import failures_by_rule, part_of_the_work

NAIVE, UNSCALED = "sound/naive", "fault/scale_none"
USED = [(rule, dtype) for rule in RULES.values() for dtype in rule.dtypes]


@pytest.fixture(scope="module", autouse=True)
def _a_tenth_of_the_work() -> Iterator[None]:
    """Grids deal a tenth of the work that they deal in a measurement."""
    with part_of_the_work(10):
        yield


@pytest.mark.family(3)
@pytest.mark.parametrize(("rule", "dtype"), USED, ids=lambda each: getattr(each, "name", ""))
def test_a_rule_accepts_the_textbook_on_all_of_its_own_cases(rule: Rule, dtype: DType) -> None:
    verdicts = failures_by_rule(rule, NAIVE, dtype)
    assert verdicts
    assert not any(verdicts)


@pytest.mark.family(3)
@pytest.mark.parametrize(("rule", "dtype"), USED, ids=lambda each: getattr(each, "name", ""))
def test_a_rule_convicts_an_attention_without_values(rule: Rule, dtype: DType) -> None:
    assert any(failures_by_rule(rule, "fault/output_zeros", dtype))


@pytest.mark.family(2)
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_convicts_a_layer_that_averages_over_queries(rule: Rule) -> None:
    assert any(rule.judge(own_subject("fault/layer_softmax_over_queries"), rule.dtypes[-1], 0))


@pytest.mark.nightly
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_says_the_same_twice_and_draws_anew_with_another_seed(rule: Rule) -> None:
    dtype = rule.dtypes[0]
    assert failures_by_rule(rule, UNSCALED, dtype) == failures_by_rule(rule, UNSCALED, dtype)
    first, second = (rule.inputs.pose_problems(Kind.ATTENTION, dtype, seed)[0].problem for seed in (0, 1))
    assert not np.array_equal(first.query, second.query)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_names_itself_and_its_source(rule: Rule) -> None:
    assert RULES[rule.name] is rule
    assert rule.source.startswith("https://")
    assert rule.title
    assert rule.meaning.endswith(".")
    assert all(re.search(r" at [0-9a-v.]{7}$", str(source)) for source in rule.read)


def test_the_numbers_are_those_of_the_sources() -> None:
    """As in PyTorch's testing page and test_transformers.py, KernelBench's eval.py, and ONNX's backend runner."""
    assert rules.ASSERT_CLOSE == {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
                                    "float64": (1e-7, 1e-7)}
    assert rules.KERNELBENCH == {"float16": (1e-2, 1e-2), "bfloat16": (1e-2, 1e-2), "float32": (1e-4, 1e-4)}
    assert rules.FUSED == {"float16": (1e-3, 1e-3), "bfloat16": (1.6e-2, 1e-3), "float32": (1.3e-6, 1e-5)}
    assert rules.FUDGE == 4
    assert rules.ONNX == {"float16": (1e-3, 1e-7), "bfloat16": (2**-6, 1e-7), "float32": (1e-3, 1e-7)}


def test_rules_are_used_where_their_sources_use_them() -> None:
    assert {name for name, rule in RULES.items() if rule.dtypes == HALVES} == {"flash_attention", "flash_attention_3"}
    assert all(rule.dtypes in (HALVES, THREE) for rule in RULES.values())
    assert failures_by_rule(RULES["flash_attention"], UNSCALED, DType.FLOAT32) == []


def test_assert_close_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from torch.testing._comparison import default_tolerances
    for dtype in DType:
        assert default_tolerances(getattr(torch, dtype.value)) == rules.ASSERT_CLOSE[dtype.value]


class Known(Reference):
    """References with given answers."""

    def __init__(self, dtype: DType, wider: float, same: float, eager: float) -> None:
        super().__init__(Problem(dtype, *[np.ones((1, 1, 1, 1), numpy_dtype(dtype))] * 3), None)  # type: ignore[arg-type]  # no part: nothing is worked out
        self.__dict__.update(wider=array(wider, DType.FLOAT32), same=array(same, dtype), eager=array(eager, dtype))


def array(entry: float, dtype: DType) -> Array:
    return np.full((1, 1, 1, 1), entry, numpy_dtype(dtype))


def at(entry: float, wrong: rules.Comparison, reference: Reference, dtype: DType = DType.BFLOAT16) -> bool:
    return wrong(array(entry, dtype), reference)


def test_a_tolerance_is_absolute_plus_relative() -> None:
    wrong = rules.close_to_same({"float32": (1e-2, 1e-3)})
    reference = Known(DType.FLOAT32, 0, same=2, eager=0)
    assert [at(entry, wrong, reference, DType.FLOAT32) for entry in (2.0209, 1.9791, 2.0211, 1.9789, np.nan)] == [
        False, False, True, True, True]


def test_an_output_of_another_dtype_is_wrong_where_torch_says_so() -> None:
    reference = Known(DType.FLOAT32, 1, same=1, eager=1)
    assert rules.close_to_same(rules.ASSERT_CLOSE)(array(1, DType.FLOAT64), reference)
    assert rules.close_to_fused(array(1, DType.FLOAT64), reference)
    assert not rules.twice_eager(array(1, DType.FLOAT64), reference)


def test_flash_attention_allows_twice_the_error_of_an_eager_run() -> None:
    reference = Known(DType.BFLOAT16, 1.0, same=1.0, eager=1.0 + 2**-7)
    assert [at(1.0 + units * 2**-7, rules.twice_eager, reference) for units in (1, 2, 3)] == [False, False, True]
    assert at(np.nan, rules.twice_eager, reference)


def test_flash_attention_compares_with_a_rounded_reference() -> None:
    """So where the eager run is exact, nothing but equality passes (flash-attention issues 1136 and 1231)."""
    reference = Known(DType.BFLOAT16, 1.0 + 2**-12, same=1.0, eager=1.0)
    assert not at(1.0, rules.twice_eager, reference)
    assert at(1.0 + 2**-7, rules.twice_eager, reference)


def test_flash_attention_3_allows_for_what_adding_and_taking_0_3_costs() -> None:
    """2⁻⁹ + 0.3 is stored as 155/512 in bfloat16, and less 0.3 that is 179/2¹⁶: 51/2¹⁶ more than at first."""
    reference = Known(DType.BFLOAT16, 2**-9, same=0, eager=2**-9)
    noise = 51 * 2**-16
    assert reference.noise == noise
    assert not at(2**-9 + 1.9 * noise, rules.twice_eager_and_noise, reference)
    assert at(2**-9 + 2.1 * noise, rules.twice_eager_and_noise, reference)
    assert at(2**-9 + 1.9 * noise, rules.twice_eager, reference)


def test_fused_tolerances_grow_with_the_low_precision_deviation() -> None:
    least = Known(DType.FLOAT16, 1.0, same=1.0, eager=0)
    assert rules.earn_tolerance(least.wider.astype(np.float64), least.same) == (4e-3, 4e-3)
    off = Known(DType.FLOAT16, 1.0, same=1.5, eager=0)
    assert rules.earn_tolerance(off.wider.astype(np.float64), off.same) == (2.0, 2.0)
    assert [at(entry, rules.close_to_fused, least, DType.FLOAT16) for entry in (1.007, 1.009)] == [False, True]


def test_a_reference_of_zero_earns_the_least_relative_tolerance() -> None:
    zero, off = Known(DType.FLOAT16, 0.0, same=0.0, eager=0), Known(DType.FLOAT16, 0.0, same=0.5, eager=0)
    assert rules.earn_tolerance(zero.wider.astype(np.float64), zero.same) == (4e-3, 4e-3)
    # beyond 1e30 there is no relative one
    assert rules.earn_tolerance(off.wider.astype(np.float64), off.same) == (1e-3, 2.0)


def _raises(*_: object, **__: object) -> Array:
    raise ValueError("no such kernel")


def _of_another_shape(query: Array, *_: object, **__: object) -> Array:
    return query[:, :1]


@pytest.mark.parametrize("function", [_raises, _of_another_shape])
def test_what_raises_or_has_another_shape_is_called_wrong(function: Callable[..., Array]) -> None:
    subject = replace(own_subject(NAIVE), id="broken", callee=InProcess(function))
    assert all(RULES["gaussian_1e-2"].judge(subject, DType.FLOAT32, 0))


def test_what_a_subject_does_not_take_is_left_out() -> None:
    subject = own_subject(NAIVE)
    plain = replace(subject, declaration=replace(subject.declaration, keywords=frozenset({"causal"})))
    every, some = (list(RULES["onnx_nodes"].judge(each, DType.FLOAT32, 0)) for each in (subject, plain))
    assert len(every) == sum(node.alone is None for node in NODES)
    assert len(some) == sum(node.alone is None and not (node.mask or node.shown or node.scale or node.weights)
                            for node in NODES)


@pytest.mark.parametrize(("convention", "other", "left"), [
    ("hidden_row", "uniform", lambda node: not node.shown),
    ("causal_alignment", "bottom_right", lambda node: not node.causal or node.shown),
    ("mask_with_causal", "mask_only", lambda node: not (node.causal and (node.mask or node.shown))),
    ("grouped_heads", "tile", lambda node: node.H == 3)])
def test_cases_on_which_another_convention_is_declared_are_left_out(
    convention: str, other: str, left: Callable[[Node], bool],
) -> None:
    subject = own_subject(NAIVE)
    declared = {**subject.declaration.conventions, convention: other}
    unlike = replace(subject, declaration=replace(subject.declaration, conventions=declared))
    found = list(RULES["onnx_nodes"].judge(unlike, DType.FLOAT32, 0))
    assert len(found) == sum(node.alone is None and bool(left(node)) for node in NODES)


def test_a_fault_with_a_memory_starts_anew_with_each_rule() -> None:
    subject = own_subject("fault/stale_output")
    first, second = RULES["gaussian_1e-2"], RULES["kernelbench"]
    assert [next(rule.judge(subject, DType.FLOAT32, 0)) for rule in (first, second)] == [False, False]
    assert any(first.judge(subject, DType.FLOAT32, 0))


def test_cases_are_judged_one_by_one_as_they_are_asked_for() -> None:
    calls = []
    naive = sound_named("naive").function

    def counted(*arguments: Array, **keywords: Any) -> object:  # noqa: ANN401  (as a subject takes them)
        calls.append(1)
        return naive(*arguments, **keywords)

    verdicts = RULES["gaussian_1e-2"].judge(replace(own_subject(NAIVE), id="counted", callee=InProcess(counted)),
                                            DType.FLOAT32, 0)
    assert calls == []
    next(verdicts)
    assert calls == [1]


def test_references_are_worked_out_once_for_all_subjects() -> None:
    suite: Suite = RULES["gaussian_1e-2"].inputs
    first, second = (suite.pose_problems(Kind.ATTENTION, DType.FLOAT32, 0) for _ in range(2))
    assert first is second
    assert first[0].output.same is second[0].output.same
    assert first[0].problem.sizes in [sizes for sizes, _ in SHAPES.values()]


def test_the_eager_reference_rounds_what_the_others_keep() -> None:
    problem = RULES["flash_attention"].inputs.pose_problems(Kind.ATTENTION, DType.BFLOAT16, 0)[-1].problem
    output = ReferencedProblem(problem).output
    np.testing.assert_array_equal(output.same.astype(np.float64), output.rounded_output)
    assert output.eager_error > 2 * np.abs(output.wider - output.rounded_output).max()


def test_the_nodes_are_those_that_onnx_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx.backend.test.case.node.attention")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    published = {case.name: case for case in importlib.import_module("test_onnx_cases").COVERED}
    assert {node.name for node in NODES} | set(LEFT_OUT) == set(published)
    for node in NODES:
        theirs = published[node.name].problem()
        _check_alike(node, node.problem(theirs.dtype, 0), theirs)


def _check_alike(node: Node, ours: Problem, theirs: Problem) -> None:
    assert (node.name, ours.sizes, ours.causal) == (node.name, theirs.sizes, theirs.causal)
    assert (ours.scale or 0) == pytest.approx(theirs.scale or 0)
    assert (ours.mask is None, ours.bias is None) == (theirs.mask is None, theirs.bias is None)
    if ours.mask is not None and theirs.mask is not None:
        np.testing.assert_array_equal(ours.mask, theirs.mask)
    assert node.alone in (None, theirs.dtype)


def test_our_problems_make_the_comparisons_accuse_what_is_sound() -> None:
    """The 2x rule flags an online softmax with the rounding points of fused kernels; the bound never does."""
    share = false_alarm_share(RULES["assert_close"], DType.BFLOAT16, cases=40)
    assert share.cases == 40
    assert share.accused > 4
    assert share.share == share.accused / 40
    assert share.beyond == 0


def test_a_loose_comparison_accuses_nothing_there() -> None:
    assert false_alarm_share(RULES["pytorch_fused"], DType.FLOAT32, cases=40).accused == 0


def test_a_subject_may_average_its_weights() -> None:
    averaging: Subject = own_subject("fault/layer_averaged_weights_summed")
    assert averaging.declaration.limits.weights == "averaged"
    assert failures_by_rule(RULES["assert_close"], averaging.id)[-1]
    assert not any(failures_by_rule(RULES["assert_close"], averaging.id)[:-1])
