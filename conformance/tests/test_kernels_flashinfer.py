"""FlashInfer-Bench's attention definitions are judged by clauses, through its own evaluator's interface."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.nouns import Effort
from attnspec.kernels.flashinfer import (
    DECODE_INPUTS,
    LAST_PAGE,
    PREFILL_INPUTS,
    RAGGED_INPUTS,
    as_attention,
    evaluator,
    is_attention,
    judge_kernel,
    read_definition,
)

Tensor = Any
KINDS = {"gqa_ragged_prefill_causal_h4_kv2_d16": (RAGGED_INPUTS, 0),
         "gqa_paged_prefill_causal_h4_kv2_d16_ps1": (PREFILL_INPUTS, 1),
         "gqa_paged_decode_h4_kv2_d16_ps1": (DECODE_INPUTS, 1),
         "gqa_paged_decode_h4_kv2_d16_ps4": ((*DECODE_INPUTS[:-1], LAST_PAGE, DECODE_INPUTS[-1]), 4)}


def told(name: str, **axes: int | None) -> dict[str, Any]:
    """The JSON of a definition."""
    inputs, page = KINDS[name]
    constants = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 16, **({"page_size": page} if page else {}), **axes}
    tensor = {"shape": ["total_q"], "dtype": "float32"}
    return {"name": name, "op_type": name[:10],
            "axes": {"total_q": {"type": "var"}, **{axis: {"type": "const", "value": size}
                                                    for axis, size in constants.items() if size is not None}},
            "inputs": dict.fromkeys(inputs, tensor), "outputs": {"output": tensor, "lse": tensor}}


def one(query: Tensor, key: Tensor, value: Tensor, scale: float, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Query (T,H,D), key and value (S,Hkv,D) to (T,H,D), and the log-sum-exp (T,H) to the base two."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    logits = torch.einsum("thd,shd->hts", query, key) * scale
    T, S = logits.shape[1:]
    if is_causal:
        logits = logits.masked_fill(~torch.ones(T, S, dtype=torch.bool).tril(S - T), -torch.inf)
    output = torch.einsum("hts,shd->thd", logits.softmax(-1).nan_to_num(), value)
    return output, (logits.logsumexp(-1) / math.log(2)).T


def kernel_of(name: str, wrong: Callable[..., dict[str, Tensor]] = dict) -> Callable[..., tuple[Tensor, Tensor]]:
    """A stand-in for a kernel, on the CPU. wrong: what it makes of its inputs before."""
    inputs, _ = KINDS[name]

    def run(*given: Tensor) -> tuple[Tensor, Tensor]:
        named = wrong(**dict(zip(inputs, given, strict=True)))
        output, lse = torch.zeros_like(named["q"]), torch.full(named["q"].shape[:2], -torch.inf)
        for b in range(len(named["kv_indptr"]) - 1):
            rows = slice(*named["qo_indptr"][b:b + 2]) if "qo_indptr" in named else slice(b, b + 1)
            key, value = keys_of(named, b)
            if len(key) and len(named["q"][rows]):
                output[rows], lse[rows] = one(named["q"][rows], key, value, named["sm_scale"],
                                              is_causal="causal" in name)
        return output, lse

    return run


def keys_of(given: dict[str, Tensor], entry: int) -> tuple[Tensor, Tensor]:
    """Key and value (S,Hkv,D) of a batch entry."""
    part = slice(*given["kv_indptr"][entry:entry + 2])
    if "k" in given:
        return given["k"][part], given["v"][part]
    pages = given["kv_indices"][part].long()
    slots = given["k_cache"].shape[1]
    spare = slots - int(given[LAST_PAGE][entry]) if LAST_PAGE in given and len(pages) else 0
    key, value = (given[name][pages].flatten(0, 1) for name in ("k_cache", "v_cache"))
    return key[:len(key) - spare], value[:len(value) - spare]


def scaled_twice(**given: Tensor) -> dict[str, Tensor]:
    return {**given, "sm_scale": given["sm_scale"] ** 2}


def raises(**_: Tensor) -> dict[str, Tensor]:
    raise RuntimeError("illegal memory access")


@pytest.mark.family(1)
@pytest.mark.parametrize("name", KINDS)
def test_a_right_kernel_of_each_definition_keeps_every_clause(name: str) -> None:
    found = judge_kernel(as_attention(read_definition(told(name)), kernel_of(name), is_destination_passing=False),
                         effort=Effort.GLANCE)
    assert found.failure is None, found.told_text
    assert found.held_count >= 10


@pytest.mark.family(1)
@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_kernel_fails_with_the_clause(name: str) -> None:
    attend = as_attention(read_definition(told(name)), kernel_of(name, scaled_twice), is_destination_passing=False)
    found = judge_kernel(attend, effort=Effort.GLANCE)
    assert found.failure is not None
    assert found.failure.clause in found.told_text


@pytest.mark.nightly
def test_outputs_handed_over_are_read_and_what_is_not_written_is_seen() -> None:
    name = "gqa_ragged_prefill_causal_h4_kv2_d16"

    def fills(*given: Tensor) -> None:
        *inputs, output, lse = given
        output[...], lse[...] = kernel_of(name)(*inputs)

    def forgets(*given: Tensor) -> None:
        given[-2][1:] = kernel_of(name)(*given[:-2])[0][1:]

    definition = read_definition(told(name))
    assert judge_kernel(as_attention(definition, fills, is_destination_passing=True),
                        effort=Effort.GLANCE).failure is None
    found = judge_kernel(as_attention(definition, forgets, is_destination_passing=True), effort=Effort.GLANCE)
    assert found.failure is not None


def test_pages_of_several_slots_arrive_with_the_keys_of_the_last_one() -> None:
    name, seen = "gqa_paged_decode_h4_kv2_d16_ps4", []

    def kernel(*given: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(dict(zip(KINDS[name][0], given, strict=True)))
        return kernel_of(name)(*given)

    attend = as_attention(read_definition(told(name)), kernel, is_destination_passing=False)
    pool, query = torch.randn(3, 8, 2, 16), torch.randn(2, 4, 1, 16)
    output = attend(query, pool, pool, block_table=torch.tensor([[2, 0], [1, 1]]), key_lengths=torch.tensor([11, 4]))
    assert seen[0]["k_cache"].shape == (6, 4, 2, 16)
    indices = [seen[0][each].tolist() for each in ("kv_indptr", "kv_indices", LAST_PAGE)]
    assert indices == [[0, 3, 4], [4, 5, 0, 2], [3, 4]]
    assert output.shape == (2, 4, 1, 16)


def test_a_definition_that_is_no_attention_is_told() -> None:
    definition = {**told("gqa_paged_decode_h4_kv2_d16_ps1"), "name": "gemm", "inputs": {"A": {}, "B": {}}}
    assert not is_attention(definition)
    with pytest.raises(UsageError, match=r"the definition 'gemm' has the inputs A, B\. Known are gqa_ragged \(q, k, v"):
        read_definition(definition)


def test_a_definition_of_open_heads_is_told() -> None:
    definition = told("gqa_paged_decode_h4_kv2_d16_ps1", head_dim=None)
    with pytest.raises(UsageError, match="leaves head_dim open, which have to be constant"):
        read_definition(definition)


# The evaluator, on a stand-in for FlashInfer-Bench and, where it is installed, on itself


@pytest.fixture
def flashinfer_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the evaluator takes from FlashInfer-Bench, whose requirements do not install without a GPU."""
    class Default:
        @classmethod
        def check_correctness(cls, *_: Tensor, **__: Tensor) -> tuple[str, None]:
            return "theirs", None

    def make_eval(status: str, device: str, log_path: str, correctness: Tensor = None, extra_msg: str = "") -> Tensor:
        return SimpleNamespace(status=status, device=device, log=extra_msg, correctness=correctness, path=log_path)

    status = SimpleNamespace(INCORRECT_NUMERICAL="INCORRECT_NUMERICAL", RUNTIME_ERROR="RUNTIME_ERROR")
    contents: dict[str, dict[str, Any]] = {
        "bench.evaluators.default": {"DefaultEvaluator": Default}, "bench.utils": {"make_eval": make_eval},
        "data": {"Correctness": SimpleNamespace, "EvaluationStatus": status}}
    for name in ("", "bench", "bench.evaluators", *contents):
        module = ModuleType(".".join(filter(None, ("flashinfer_bench", name))))
        module.__dict__.update(contents.get(name, {}))
        monkeypatch.setitem(sys.modules, module.__name__, module)


def evaluated(name: str, wrong: Callable[..., dict[str, Tensor]] = dict) -> tuple[Any, Any]:
    kernel = kernel_of(name, wrong)

    class Runnable:
        metadata = SimpleNamespace(destination_passing_style=False)

        def __call__(self, *given: Tensor) -> tuple[Tensor, Tensor]:
            return kernel(*given)

    definition = SimpleNamespace(model_dump=lambda mode: told(name) if mode == "json" else None)
    judge = evaluator(effort="glance")
    assert judge.can_evaluate(definition)
    correctness, evaluation = judge.check_correctness(
        definition=definition, sol_runnable=Runnable(), inputs=[], ref_outputs=[], cfg=None, log_path="log",
        device="cpu")
    return correctness, evaluation


@pytest.mark.nightly
@pytest.mark.usefixtures("flashinfer_bench")
def test_where_all_clauses_hold_their_own_comparison_decides() -> None:
    assert evaluated("gqa_paged_decode_h4_kv2_d16_ps1") == ("theirs", None)


@pytest.mark.usefixtures("flashinfer_bench")
def test_a_failing_clause_is_an_incorrect_evaluation_with_its_case() -> None:
    correctness, evaluation = evaluated("gqa_paged_decode_h4_kv2_d16_ps1", scaled_twice)
    assert (evaluation.status, evaluation.device, evaluation.path) == ("INCORRECT_NUMERICAL", "cpu", "log")
    assert correctness.extra["clause"] in evaluation.log
    assert correctness.max_absolute_error > 0


@pytest.mark.usefixtures("flashinfer_bench")
def test_a_kernel_that_raises_is_a_runtime_error() -> None:
    correctness, evaluation = evaluated("gqa_paged_decode_h4_kv2_d16_ps1", raises)
    assert (correctness, evaluation.status) == (None, "RUNTIME_ERROR")
    assert "illegal memory access" in evaluation.log


@pytest.mark.usefixtures("flashinfer_bench")
def test_a_definition_that_cannot_be_judged_is_named() -> None:
    name = "gqa_paged_decode_h4_kv2_d16_ps1"
    definition = SimpleNamespace(model_dump=lambda **_: {**told(name), "inputs": {
        **told(name)["inputs"], "q": {"shape": ["total_q"], "dtype": "float8_e4m3fn"}}})
    runnable = SimpleNamespace(metadata=SimpleNamespace(destination_passing_style=False))
    with pytest.raises(AttnspecError, match=f"the definition '{name}' cannot be judged: .*float8_e4m3fn"):
        evaluator().check_correctness(definition, runnable)


def test_the_evaluator_is_one_of_flashinfer_bench_s(tmp_path: Path) -> None:
    pytest.importorskip("flashinfer_bench", reason="FlashInfer-Bench is not installed")
    from flashinfer_bench.bench.evaluators.evaluator import Evaluator
    from flashinfer_bench.compile import Runnable
    from flashinfer_bench.compile.runnable import RunnableMetadata
    from flashinfer_bench.data import Definition

    name = "gqa_paged_decode_h4_kv2_d16_ps1"
    json = told(name)
    shape = {"q": ["total_q", "num_qo_heads", "head_dim"], "sm_scale": None}
    inputs = {each: {**tensor, "shape": shape.get(each, ["total_q"])} for each, tensor in json["inputs"].items()}
    reference = f"def run({', '.join(inputs)}):\n    return q\n"
    definition = Definition.model_validate({**json, "inputs": inputs, "reference": reference})
    runnable = Runnable(kernel_of(name, scaled_twice), RunnableMetadata(
        build_type="python", definition_name=name, solution_name="wrong", destination_passing_style=False))
    judge = evaluator(effort="glance")
    assert issubclass(judge, Evaluator)
    correctness, evaluation = judge.check_correctness(definition, runnable, [], [], None, str(tmp_path / "log"), "cpu")
    assert evaluation.status == "INCORRECT_NUMERICAL"
    assert correctness.extra["clause"] in evaluation.log
