"""Gradients of functions in other forms: packed ones, layers, and those that serve a model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from attnspec.core.declaration import Declaration, Limits
from attnspec.core.forms import AS_DECLARED, InputForm
from attnspec.core.nouns import DType, Effort, Kind, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.core.sizes import Refusal
from attnspec.engine.engine import Engine
from attnspec.engine.summon import with_requested_features
from attnspec.numerics.expectation import expect_gradients_alone
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.gradients import expect_gradients
from attnspec.subjects.registry import load_target
from attnspec.trials.evaluator import Evaluator, rows_without_gradient
from attnspec.vocabulary.observables import OF_INPUT, define_gradient
from attnspec.vocabulary.scene import Scene
from helpers.gradients import grad, problem, verdicts

COUNTER = itertools.count()
OBSERVED = {of: name for name, (of, _) in OF_INPUT.items()}

PACKED = """
import torch

def attend(query, key, value, *, cu_query, cu_key, causal=False, scale=None):
    return torch.cat([one(query[i:j], key[k:l], value[k:l], causal, scale)
                      for i, j, k, l in zip(cu_query[:-1], cu_query[1:], cu_key[:-1], cu_key[1:])])

def one(query, key, value, causal, scale):
    query, key, value = (each.transpose(0, 1).double() for each in (query, key, value))
    key, value = (each.repeat_interleave(len(query) // len(key), 0) for each in (key, value))
    logits = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        logits = logits.masked_fill(~torch.ones(logits.shape[1:], dtype=torch.bool).tril(), -torch.inf)
    return (logits.softmax(-1) @ value).transpose(0, 1).to({dtype})

class Neighbour(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, borders):
        ctx.save_for_backward(query, key, value)
        ctx.borders = borders
        return attend(query, key, value, **borders)

    @staticmethod
    def backward(ctx, grad):
        inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        borders = dict(ctx.borders)
        borders["cu_key"] = torch.cat([borders["cu_key"][:1], borders["cu_key"][1:].add(1).clamp(max=len(inputs[1]))])
        with torch.enable_grad():
            found = torch.autograd.grad(attend(*inputs, **borders), inputs, grad, allow_unused=True)
        return *found, None

def wrong(query, key, value, *, cu_query, cu_key):
    return Neighbour.apply(query, key, value, {{"cu_query": cu_query, "cu_key": cu_key}})

attend.lift = wrong.lift = "torch"
"""


def packed(folder: Path, function: str, dtype: str = "torch.float32") -> str:
    path = folder / f"packed{next(COUNTER)}.py"
    path.write_text(PACKED.format(dtype=dtype), encoding="utf-8")
    return f"{path}:{function}"


@pytest.mark.parametrize("more", ["", "causal", "key_lengths", "query_lengths key_lengths"])
def test_gradients_of_packed_functions_are_spread_out_again(tmp_path: Path, more: str) -> None:
    pytest.importorskip("torch")
    subject = load_target(packed(tmp_path, "attend", "torch.float64")).with_gradients
    made = problem(more, DType.FLOAT64)
    evaluator = Evaluator(subject, DType.FLOAT64)
    found = expect_gradients(made, grad(made), evaluator.precision, evaluator.backward_precision,
                             conventions={**evaluator.conventions, "beyond_length": "zeros"},
                             settled=rows_without_gradient(made, {"beyond_length": "zeros"}))
    answer = subject.answer(made)
    assert answer.output.shape == grad(made).shape
    for name, gradient in found.items():
        np.testing.assert_allclose(answer.by_input[name], gradient.truth.astype(float), rtol=1e-12, atol=1e-14)


@pytest.mark.nightly
def test_a_packed_backward_pass_that_reads_a_neighbours_key_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    engine = Engine(Plan((packed(tmp_path, "wrong"),), clauses=("gradients.of_value",), dtypes=(DType.FLOAT32,),
                         effort=Effort.QUICK))
    [outcome] = map(engine.try_item, engine.items())
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence
    assert "B=2" in outcome.evidence.case


@pytest.mark.nightly
def test_a_right_packed_backward_pass_holds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert verdicts(packed(tmp_path, "attend"), "gradients.of_value") == {"gradients.of_value": Verdict.HELD}


@pytest.mark.parametrize(("variants", "claims", "are_asked"), [
    ((AS_DECLARED,), ("gradients",), True), ((AS_DECLARED,), (), False), ((), ("gradients",), True)])
def test_an_audit_asks_for_claimed_gradients_and_any_run_for_all(
    variants: tuple[str, ...], claims: tuple[str, ...], *, are_asked: bool,
) -> None:
    subject = load_target("numpy/attention")
    subject = replace(subject, declaration=replace(subject.declaration, lift="torch", claims=claims))
    asked = with_requested_features(subject, Plan((subject.id,), variants=variants))
    assert ("grad_output" in asked.declaration.keywords) is are_asked


@pytest.mark.nightly
def test_claimed_gradients_are_judged_in_any_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    target = packed(tmp_path, "attend")
    with Path(target.partition(":")[0]).open("a", encoding="utf-8") as file:
        file.write("attend.claims = ('gradients',)\n")
    outcome = Engine(Plan((target,), effort=Effort.GLANCE)).try_item(Item(target, "gradients.of_value", "float32"))
    assert outcome.verdict is Verdict.HELD


def test_a_packed_function_is_not_asked_how_its_outputs_gradient_lies(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    subject = load_target(packed(tmp_path, "attend")).with_gradients
    made = problem()
    assert subject.refuses(made) == ""
    assert subject.refuses(made.but(grad_output=np.broadcast_to(np.float32(1), grad(made).shape))) == (
        "a packed function's inputs are made by packing, so it is not asked about their layout")


LAYER = """import torch


def attend(query, key, value, *, params, heads, mask=None, causal=False):
    return _layer(query, key, value, params, heads, mask, causal)


def wrong(query, key, value, *, params, heads, mask=None, causal=False):  # no gradient flows through the keys
    return _layer(query, key.detach(), value, params, heads, mask, causal)


def _layer(query, key, value, params, heads, mask, causal):
    query, key, value = (array @ params["w_" + name] for name, array in zip(PARTS, (query, key, value)))
    query, key, value = (array.unflatten(-1, (heads, -1)).transpose(1, 2) for array in (query, key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    allowed = torch.ones(scores.shape, dtype=torch.bool) if mask is None else mask
    scores = scores.masked_fill(~(allowed.tril() if causal else allowed), float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2) @ params["w_out"]


PARTS = ("query", "key", "value")
for function in (attend, wrong):
    function.lift = "torch"
    function.grouped, function.has_biases = False, False
    function.conventions = {"causal_alignment": "top_left", "hidden_row": "nan"}
"""


def layer(folder: Path, function: str = "attend") -> str:
    """A layer of PyTorch in a new file."""
    path = folder / f"layer{next(COUNTER)}.py"
    path.write_text(LAYER, encoding="utf-8")
    return f"{path}:{function}"


@pytest.mark.parametrize("target", ["torch/mha", "torch/multi_head_output", "jax/multi_head_output"])
def test_gradients_of_a_layers_inputs_are_those_of_its_heads(target: str) -> None:
    pytest.importorskip(target.partition("/")[0])
    subject, made = load_target(target).with_gradients, problem(dtype=DType.FLOAT64, sizes="B2,H2,Hkv2,T3,S3,D4,Dv4")
    evaluator = Evaluator(subject, DType.FLOAT64)
    found = expect_gradients(made, grad(made), evaluator.precision, evaluator.backward_precision,
                             conventions=evaluator.conventions, scale_width=subject.scale_width(made))
    answer = subject.answer(made)
    for name, gradient in found.items():
        np.testing.assert_allclose(answer.by_input[name], gradient.truth.astype(float), rtol=1e-12, atol=1e-14)


@pytest.mark.nightly
def test_a_layer_through_whose_keys_no_gradient_flows_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    clauses = "gradients.of_value", "gradients.of_key"
    assert verdicts(layer(tmp_path, "wrong"), *clauses) == {clauses[0]: Verdict.HELD, clauses[1]: Verdict.VIOLATED}


@pytest.mark.nightly
def test_a_layer_through_whose_keys_gradients_flow_holds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    clauses = "gradients.of_value", "gradients.of_key"
    assert verdicts(layer(tmp_path), *clauses) == dict.fromkeys(clauses, Verdict.HELD)


@pytest.mark.parametrize(("of", "one_input", "is_spoiled"), [
    ("key", False, True), ("value", False, True), ("query", False, False), ("query", True, True)])
def test_one_heads_nan_spoils_a_place_of_a_layers_input(of: str, one_input: bool, is_spoiled: bool) -> None:
    """Its projections mix heads; key and value may lie in one memory, and one input may be all three."""
    limits = Limits(self_attention_only=one_input)
    declared = Declaration(kind=Kind.LAYER, limits=limits)
    scene = SimpleNamespace(subject=SimpleNamespace(declaration=declared))
    zeros = np.zeros((1, 2, 3, 4))
    claims = {name: np.ones(zeros.shape, bool) for name in ("query", "key", "value")}
    claims["key"][0, 1, 2] = False
    expected = expect_gradients_alone({name: Gradient(zeros, zeros, claimed) for name, claimed in claims.items()})
    _, _, claimed = define_gradient(OBSERVED[of], expected, cast("Scene", scene))
    assert claimed[:, :, :2].all()
    assert claimed[:, :, 2].any() != is_spoiled


@pytest.mark.parametrize(("form", "noun"),
                         [(InputForm.PAGED, "functions that read pages"), (InputForm.DECODER, "decoders")])
def test_what_serves_a_model_is_not_asked_for_gradients(form: InputForm, noun: str) -> None:
    declared = Declaration(lift="torch", form=form)
    subject = replace(load_target("numpy/attention"), declaration=declared)
    assert subject.lacks(frozenset({"grad_output"})) == f"gradients of {noun} are not judged"


def test_what_has_no_backward_pass_says_so() -> None:
    says = "numpy/attention has no backward pass"
    assert load_target("numpy/attention").with_gradients.lacks(frozenset({"grad_output"})) == says


def test_who_declares_to_give_no_gradients_is_not_asked() -> None:
    subject = load_target("numpy/attention")
    limits = replace(subject.declaration.limits, refuses=(Refusal(keywords=frozenset({"grad_output"})),))
    subject = replace(subject, declaration=replace(subject.declaration, lift="torch", limits=limits)).with_gradients
    assert subject.lacks(frozenset({"grad_output"})) == "numpy/attention gives no gradients, as it declares"


def test_gradients_that_are_refused_are_told_in_its_words() -> None:
    subject = replace(load_target("numpy/attention"), id="mine:attend", declaration=Declaration(lift="torch"),
                      refused_words={"grad_output": "no backward on CPU"})
    assert subject.lacks(frozenset({"grad_output"})) == "mine:attend refuses grad_output (no backward on CPU)"


def test_a_mistake_of_the_backward_pass_alone_is_told_by_its_name() -> None:
    plan = Plan(("fault/grad_bias_mean",), clauses=("gradients.of_bias_that_is_broadcast",), dtypes=(DType.FLOAT32,),
                effort=Effort.QUICK)
    [item] = Engine(plan).items()
    outcome = Engine(plan).try_item(item)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert "grad_bias_mean" in {each.fault for each in outcome.evidence.like}
