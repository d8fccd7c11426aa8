"""Gradients of a layer's parameters: asked for where they flow, held to the definition."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.gradients.faults import PARAMETER_FAULTS, as_layer_backward
from attnspec.core.declaration import Limits
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.fault import Fault
from attnspec.faults.subject import fault_subject
from attnspec.numerics.expectation import expect_gradients_alone
from attnspec.numerics.gradient_sums import Factor, Gradient, exact_factor, gradient_of_bias, gradient_of_weight
from attnspec.numerics.gradients import erring_classes
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.roundings import BackwardRoundings, assumed_backward, declared_backward
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.subjects.callee import InProcess
from attnspec.subjects.lowering import lower_problem
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject, SubjectAnswer
from attnspec.trials.evaluator import Evaluator, held_bytes, spread_over_heads
from helpers.gradients import problem, verdicts

CLAUSES = ("gradients.of_input_projections", "gradients.projections_apart", "gradients.of_output_projection",
           "gradients.of_projection_biases", "gradients.of_output_bias")
SQUARE = "B3,H2,Hkv2,T5,S5,D4,Dv4"
REAL: np.dtype[np.float64] = np.dtype(np.float64)
COUNTER = itertools.count()

LAYER = """import torch
from torch import nn

def attend(query, key, value, *, params, heads, mask=None):
    return _layer(query, key, value, params, heads, mask)

def severed(query, key, value, *, params, heads, mask=None):  # w_value is a constant to it
    return _layer(query, key, value, {**params, "w_value": params["w_value"].detach()}, heads, mask)

def copied(query, key, value, *, params, heads, mask=None):
    module = {name: nn.Parameter(torch.empty_like(each)) for name, each in params.items()}
    with torch.no_grad():
        for name, each in params.items():
            module[name].copy_(each)
    return _layer(query, key, value, module, heads, mask)

def shy(query, key, value, *, params, heads, mask=None):
    assert not any(each.requires_grad for each in params.values()), "a parameter with a gradient"
    return _layer(query, key, value, params, heads, mask)

def _layer(query, key, value, params, heads, mask):
    query, key, value = (array @ params["w_" + name] for name, array in zip(PARTS, (query, key, value)))
    query, key, value = (array.unflatten(-1, (heads, -1)).transpose(1, 2) for array in (query, key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2) @ params["w_out"]

PARTS = ("query", "key", "value")
for function in (attend, severed, copied, shy):
    function.lift = "torch"
    function.grouped, function.has_biases = False, False
    function.conventions = {"hidden_row": "nan"}
"""


def layer(folder: Path, function: str) -> str:
    """A layer of PyTorch in a new file."""
    pytest.importorskip("torch")
    path = folder / f"parameters{next(COUNTER)}.py"
    path.write_text(LAYER, encoding="utf-8")
    return f"{path}:{function}"


def told(target: str, clause: str) -> tuple[Verdict, str]:
    """The verdict of a clause at a glance, and its words."""
    engine = Engine(Plan((target,), clauses=(clause,), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    [outcome] = map(engine.try_item, engine.items())
    return outcome.verdict, outcome.reason


def expected(subject: Subject, more: str = "", dtype: DType = DType.FLOAT64,
             sizes: str = SQUARE) -> tuple[Mapping[str, Gradient], SubjectAnswer]:
    """What the definition says of the gradients of parameters, and what the subject answers."""
    made, evaluator = problem(more, dtype, sizes=sizes), Evaluator(subject, dtype)
    found = evaluator.expect(made, "", "parameters").gradients
    assert found is not None
    return found, subject.answer(made.but(of_parameters=True))


def sound_layer() -> Subject:
    """The staged layer in NumPy, with a backward pass that is right."""
    subject = fault_subject("fault/grad_param_batch_mean")
    sound = as_layer_backward(lambda found, _: found)
    return replace(subject, callee=replace(_own(subject), backward=sound))


def _own(subject: Subject) -> InProcess:
    assert isinstance(subject.callee, InProcess)
    return subject.callee


@pytest.mark.family(4)
@pytest.mark.parametrize("more", ["", "mask", "causal"])
@pytest.mark.parametrize("target", [
    "torch/mha_no_weights", "torch/mha_self", "torch/encoder_layer", "torch/decoder_layer", "torch/multi_head_output",
    "torch/paper", "jax/multi_head_output"])
def test_a_frameworks_gradients_of_parameters_are_the_definitions(target: str, more: str) -> None:
    pytest.importorskip(target.partition("/")[0])
    subject = load_target(target).with_gradients
    if reason := subject.refuses(problem(more, DType.FLOAT64, sizes=SQUARE)):
        pytest.skip(reason)
    found, answer = expected(subject, more)
    for name, gradient in found.items():
        seen = answer.by_input[f"params.{name}"]
        assert seen.shape == gradient.truth.shape
        np.testing.assert_allclose(np.where(gradient.claimed, seen, 0), np.where(gradient.claimed, gradient.truth, 0)
                                   .astype(float), rtol=1e-11, atol=1e-13)
        assert gradient.claimed.all() or (target, more) == ("torch/paper", "mask")


@pytest.mark.family(4)
@pytest.mark.parametrize("dtype", DType, ids=str)
@pytest.mark.parametrize("more", ["", "mask", "causal bias"])
@pytest.mark.parametrize("sizes", [SQUARE, "B2,H4,Hkv2,T5,S7,D4,Dv3"])
def test_a_sound_layers_gradients_of_parameters_are_within_bounds(dtype: DType, more: str, sizes: str) -> None:
    found, answer = expected(sound_layer(), more, dtype, sizes)
    for name, gradient in found.items():
        gap = np.abs(answer.by_input[f"params.{name}"].astype(gradient.truth.dtype) - gradient.truth)
        assert gradient.claimed.all()
        assert (gap <= gradient.allowance).all(), (name, float((gap / gradient.allowance).max()))


@pytest.mark.parametrize("fault", PARAMETER_FAULTS, ids=[fault.name for fault in PARAMETER_FAULTS])
def test_a_fault_of_parameters_is_wrong_in_their_gradients_alone(fault: Fault) -> None:
    subject, dtype = fault_subject(f"fault/{fault.name}"), DType.FLOAT16
    made, evaluator = problem("", dtype, sizes=SQUARE), Evaluator(subject, dtype)
    answer, inputs = subject.answer(made.but(of_parameters=True)), evaluator.expect(made, "", "gradients").gradients
    parameters = evaluator.expect(made, "", "parameters").gradients
    assert inputs is not None
    assert parameters is not None
    assert not any(_is_beyond(answer.by_input[name], gradient) for name, gradient in inputs.items())
    assert any(_is_beyond(answer.by_input[f"params.{name}"], gradient) for name, gradient in parameters.items())


def _is_beyond(seen: Array, gradient: Gradient) -> bool:
    gap = np.abs(seen.astype(np.float64) - gradient.truth.astype(np.float64))
    return bool((gradient.claimed & (gap > gradient.allowance)).any())


@pytest.mark.nightly
def test_a_layer_that_copies_its_parameters_is_told_why_it_is_not_judged(tmp_path: Path) -> None:
    verdict, words = told(layer(tmp_path, "copied"), CLAUSES[0])
    assert verdict is Verdict.INAPPLICABLE
    assert "the gradients of its parameters cannot be asked for: none flows" in words


def test_a_parameter_that_gets_no_gradient_beside_others_is_wrong(tmp_path: Path) -> None:
    clauses = CLAUSES[0], CLAUSES[2]
    assert verdicts(layer(tmp_path, "severed"), *clauses) == {clauses[0]: Verdict.VIOLATED, clauses[1]: Verdict.HELD}


@pytest.mark.nightly
def test_a_layer_that_hands_back_its_gradients_is_right(tmp_path: Path) -> None:
    clauses = CLAUSES[0], CLAUSES[2]
    assert verdicts(layer(tmp_path, "attend"), *clauses) == dict.fromkeys(clauses, Verdict.HELD)


@pytest.mark.nightly
def test_gradients_of_inputs_are_asked_without_those_of_parameters(tmp_path: Path) -> None:
    target = layer(tmp_path, "shy")
    assert verdicts(target, "gradients.of_key") == {"gradients.of_key": Verdict.HELD}
    assert verdicts(target, CLAUSES[0])[CLAUSES[0]] is not Verdict.HELD


@pytest.mark.nightly
def test_a_layer_is_not_asked_about_parameters_that_it_lacks(tmp_path: Path) -> None:
    target = layer(tmp_path, "attend")
    assert [told(target, clause)[0] for clause in CLAUSES[3:]] == [Verdict.INAPPLICABLE] * 2
    assert "it has no b_query" in told(target, CLAUSES[3])[1]


@pytest.mark.nightly
def test_what_is_no_layer_is_not_asked_for_gradients_of_parameters() -> None:
    pytest.importorskip("torch")
    assert told("torch/sdpa", CLAUSES[0])[0] is Verdict.INAPPLICABLE


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def classes(dtype: DType, *, partial_biases: int = 0) -> tuple[BackwardRoundings, ...]:
    precision = declared_precision({"grade": "G0"} if dtype in (DType.FLOAT16, DType.BFLOAT16) else None, dtype)
    return erring_classes(precision, replace(assumed_backward(precision), partial_biases=partial_biases))


def factor(truth: Array) -> Factor:
    """(B,L,M) that is known to a thousandth."""
    return Factor(truth, np.full(truth.shape, 1e-3), np.ones(truth.shape, bool))


def test_what_attention_returns_may_be_off_by_its_own_bound_and_no_further() -> None:
    b = classes(DType.FLOAT32)
    given, back = exact_factor(random((2, 3, 4)), REAL, b[0]), factor(random((2, 3, 5), 1))
    found = gradient_of_weight(given, back, b)
    worst = np.einsum("blm,bln->mn", given.truth, back.truth + 1e-3 * np.sign(given.truth.sum()))
    assert (np.abs(worst - found.truth) <= found.allowance).all()
    reach = 1e-3 * np.abs(given.truth).sum(axis=(0, 1))[:, None]
    assert (found.allowance >= reach).all()
    assert (found.allowance <= 1.001 * reach + 1e-5).all()


def test_an_unjudged_place_takes_the_columns_that_it_is_in_and_no_others() -> None:
    b = classes(DType.FLOAT32)
    given, back = exact_factor(random((2, 3, 4)), REAL, b[0]), factor(random((2, 3, 5), 1))
    back.claimed[1, 2, 3] = False
    found = gradient_of_weight(given, back, b)
    assert (found.claimed == (np.arange(5) != 3)).all()
    assert (gradient_of_bias(back, b).claimed == (np.arange(5) != 3)).all()


def test_a_column_that_is_zero_has_a_gradient_of_exactly_zero() -> None:
    b = classes(DType.FLOAT32)
    given = random((2, 3, 4))
    given[..., 1] = 0
    found = gradient_of_weight(exact_factor(given, REAL, b[0]), factor(random((2, 3, 5), 1)), b)
    assert not found.allowance[1].any()
    assert not found.truth[1].any()
    assert found.allowance[[0, 2, 3]].all()


def test_a_flushed_input_may_be_lost_with_all_that_it_is_multiplied_by() -> None:
    precision = declared_precision({"flushes_subnormals": True, "reason": "a test"}, DType.FLOAT32)
    [b] = erring_classes(precision, assumed_backward(precision))
    tiny = np.full((1, 1, 1), 1e-39)
    plain, flushed = (exact_factor(tiny, REAL, each).error.item() for each in (classes(DType.FLOAT32)[0], b))
    assert (plain, flushed) == (0.0, 1e-39)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_sums_of_biases_in_the_dtype_must_be_declared(dtype: DType) -> None:
    entries = np.random.default_rng(5).uniform(0.5, 1, (2, 40, 3)).astype(numpy_dtype(dtype))
    total = np.zeros(3, entries.dtype)
    for row in entries.reshape(-1, 3):
        total = (total + row).astype(entries.dtype)
    for partial, is_within in ((0, False), (1, True)):
        b = classes(dtype, partial_biases=partial)
        found = gradient_of_bias(exact_factor(entries, REAL, b[0]), b)
        assert (np.abs(total.astype(float) - found.truth) <= found.allowance).all() == is_within


def test_a_looser_sum_of_biases_needs_a_reason() -> None:
    precision = declared_precision({"grade": "G0"}, DType.FLOAT16)
    with pytest.raises(ManifestError, match="partial_biases"):
        declared_backward({"partial_biases": 1}, precision)
    assert declared_backward({"partial_biases": 1, "reason": "so it is"}, precision).partial_biases == 1


def test_padded_columns_of_a_lost_head_are_lost_with_it() -> None:
    made = problem("", DType.FLOAT32, sizes="B2,H2,Hkv2,T5,S5,D2,Dv4")
    lowered = lower_problem(made, Limits(ties_value_width=True))
    claimed = np.ones((2, 2, 5, 2), bool)
    claimed[0, 1, 3, 0] = False
    found = spread_over_heads(lowered, "query", Factor(np.zeros(claimed.shape), np.zeros(claimed.shape), claimed))
    assert found.truth.shape == (2, 5, 8)
    assert not found.claimed[0, 3, 4:].any()
    assert found.claimed.sum() == found.claimed.size - 4


def test_what_is_remembered_counts_the_gradients_in_it() -> None:
    """Those of a layer's parameters are as many numbers as its model is wide, squared."""
    gradient = Gradient(np.zeros((64, 64)), np.zeros((64, 64)), np.ones((64, 64), bool))
    assert held_bytes(expect_gradients_alone({"w_query": gradient})) == 64 * 64 * 17
    assert held_bytes(SubjectAnswer(np.zeros(2), None,
                                    by_input={"params.w_query": np.zeros((64, 64))})) == 64 * 64 * 8 + 16
