"""The references of rules on gradients, and gradcheck written anew, say what PyTorch's own say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.faults.backward import take
from attnspec.faults.staged_work import HandedOver
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Problem
from evaluation.baselines import gradcheck
from evaluation.baselines.gradient_grids import QKV
from evaluation.baselines.gradient_references import AUTOGRAD
from evaluation.baselines.gradient_rules import GRADIENT_RULES
from evaluation.baselines.gradient_suites import cases_of
from helpers.gradient_rules import Change, subject_with_change

pytestmark = pytest.mark.usefixtures("little_work_of_rules")

CHECK, FLASH = (GRADIENT_RULES[name] for name in ("gradcheck", "flash_attention_gradients"))


@pytest.mark.parametrize(("wrong", "change"), [
    (False, lambda found, _: found),
    (False, lambda found, _: {**found, "key": found["key"] * (1 + 0.9e-3)}),
    (True, lambda found, _: {**found, "key": found["key"] * (1 + 1e-2)}),
    (False, lambda found, call: {**found, "value": found["value"] + 0.9e-5 * (call > 0)}),
    (True, lambda found, _: {**found, "value": found["value"] + 0.9e-5}),  # zeros do not lead to zeros
    (True, lambda found, call: {**found, "query": found["query"] * (1 + 1e-9 * call)})])  # not the same twice
def test_gradcheck_has_its_tolerances_and_asks_twice(
    wrong: bool, change: Change,
) -> None:
    first = cases_of(CHECK.cases, DType.FLOAT64, 0)[0]
    assert gradcheck.fails_gradcheck(subject_with_change(change), first) is wrong


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "name"), [
    ("sound", "backward_eager"), ("sound", "backward_recomputed"), ("fault", "grad_key_one_thousandth"),
    ("fault", "grad_query_one_percent"), ("fault", "grad_causal_dropped"), ("fault", "grad_bias_dropped")])
def test_gradcheck_says_what_torch_says(kind: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    subject = f"{kind}/{name}"
    for each in cases_of(CHECK.cases, DType.FLOAT64, 0):
        ours = gradcheck.fails_gradcheck(own_subject(subject), each)
        assert ours is not _torch_accepts(torch, subject, each.posed.problem), str(each.posed.problem)


def _torch_accepts(torch: Any, name: str, problem: Problem) -> bool:  # noqa: ANN401  (a framework)
    """What torch.autograd.gradcheck makes of the subject, as a function with a backward pass of its own."""
    names = [name for name in (*QKV, "bias") if getattr(problem, name) is not None]

    class Attention(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:  # noqa: ANN401  (tensors)
            ctx.save_for_backward(*inputs)
            return torch.from_numpy(own_subject(name).answer(_with(inputs).but(grad_output=None)).output.copy())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:  # noqa: ANN401  (tensors)
            asked = _with(ctx.saved_tensors).but(grad_output=grad.numpy())
            found = own_subject(name).answer(asked).by_input
            return tuple(torch.from_numpy(found[each].copy()) for each in names)

    def _with(tensors: Any) -> Problem:  # noqa: ANN401  (tensors)
        return problem.but(**{each: tensor.detach().numpy() for each, tensor in zip(names, tensors, strict=True)})

    given = [torch.from_numpy(np.array(getattr(problem, each), order="K")).requires_grad_() for each in names]
    return bool(torch.autograd.gradcheck(Attention.apply, given, raise_exception=False))


def test_the_eager_gradients_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    cases = [each for each in cases_of(FLASH.cases, DType.BFLOAT16, 0) if each.posed.problem.sizes.T > 1]
    assert {"softcap", "bias", "window", "mask", "causal"} <= {
        word for each in cases for word in each.posed.problem.keywords}
    for each in cases:
        for name, theirs in _eager_of_torch(torch, each.posed.problem).items():
            alike = theirs == each.posed.gradients.eager[name].astype(np.float64)
            assert alike.mean() > 0.98, (str(each.posed.problem), name)  # but for the order of sums


def _eager_of_torch(torch: Any, problem: Problem) -> Mapping[str, Array]:  # noqa: ANN401  (a framework)
    """The formula in bfloat16, the key scaled before, differentiated by torch."""
    call = HandedOver(problem.query, problem.key, problem.value, **{**problem.given, "grad_output": None})
    seen = torch.from_numpy(np.ascontiguousarray(take(call, np.asarray(problem.grad_output), AUTOGRAD).visible))
    query, key, value, grad = (torch.from_numpy(np.asarray(getattr(problem, name), np.float32)).bfloat16()
                               for name in (*QKV, "grad_output"))
    given = [each.requires_grad_() for each in (query, key, value)]
    groups = problem.sizes.H // problem.sizes.Hkv
    logits = query @ (key.repeat_interleave(groups, 1) / math.sqrt(problem.sizes.D)).transpose(-1, -2)
    if problem.softcap is not None:
        logits = (logits / problem.softcap).tanh() * problem.softcap
    if problem.bias is not None:
        logits = logits + torch.from_numpy(np.asarray(problem.bias, np.float32)).bfloat16()
    weights = torch.softmax(logits.masked_fill(~seen, -math.inf), -1).masked_fill(~seen.any(-1, keepdim=True), 0)
    (weights @ value.repeat_interleave(groups, 1)).backward(grad)
    return {name: each.grad.double().numpy() for name, each in zip(QKV, given, strict=True)}
