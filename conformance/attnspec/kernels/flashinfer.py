"""Puts attention kernels of FlashInfer-Bench to the clauses of attnspec before its own comparison.

https://github.com/flashinfer-ai/flashinfer-bench, flashinfer_bench/bench/evaluators/evaluator.py
https://bench.flashinfer.ai/docs/op-types/gqa-ragged and /gqa-paged
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnspec.core.errors import AttnspecError, TargetError, UsageError
from attnspec.core.nouns import Effort, Level, Verdict, does_gate_run
from attnspec.core.plan import Plan
from attnspec.record.outcome import Outcome
from attnspec.runner.gate import target_of
from attnspec.runner.judge import clause_of, distinct_items, format_violation, load_engine, pronounce_verdict
from attnspec.runner.session import one_thread

RAGGED_INPUTS = ("q", "k", "v", "qo_indptr", "kv_indptr", "sm_scale")
PREFILL_INPUTS = ("q", "k_cache", "v_cache", "qo_indptr", "kv_indptr", "kv_indices", "sm_scale")
DECODE_INPUTS = ("q", "k_cache", "v_cache", "kv_indptr", "kv_indices", "sm_scale")
LAST_PAGE = "kv_last_page_len"
"""An input of definitions with several slots a page: the keys in each entry's last page."""

_CONSTANT_AXES = ("num_qo_heads", "num_kv_heads", "head_dim")
_OUTPUT_NAMES = ("output", "lse")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of an attention kernel.

    inputs: their names in the order of the call.  outputs: `output`, and `lse` where it has one.
    heads, kv_heads, head_dim, page: its constants; `page` is 0 in a ragged definition.  dtype: of
    queries, keys, values and output.  is_causal: whether a query sees no later key, with the last
    of both at one place.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: int
    kv_heads: int
    head_dim: int
    page: int
    dtype: str
    is_causal: bool

    @property
    def is_decode(self) -> bool:
        """Says whether every entry has one query."""
        return "qo_indptr" not in self.inputs


def is_attention(told: Mapping[str, Any]) -> bool:
    """Says whether a definition, in JSON, has the inputs of `gqa_ragged` or `gqa_paged`."""
    return _plain_inputs(told) in (RAGGED_INPUTS, PREFILL_INPUTS, DECODE_INPUTS)


def read_definition(told: Mapping[str, Any]) -> Definition:
    """Reads a definition from JSON. Raises UsageError for inputs of no known attention."""
    name = str(told.get("name", ""))
    if not is_attention(told):
        given = ", ".join(told.get("inputs", ())) or "of nothing"
        raise UsageError(
            f"the definition {name!r} has the inputs {given}. Known are gqa_ragged "
            f"({', '.join(RAGGED_INPUTS)}) and gqa_paged ({', '.join(PREFILL_INPUTS)}; "
            "in decoding without qo_indptr).")
    constants = {axis: int(each["value"]) for axis, each in told["axes"].items()
                 if "value" in each}
    if missing := [axis for axis in _CONSTANT_AXES if axis not in constants]:
        raise UsageError(f"the definition {name!r} leaves {', '.join(missing)} open, which have "
                         "to be constant.")
    inputs, outputs = tuple(told["inputs"]), tuple(each for each in _OUTPUT_NAMES
                                                   if each in told["outputs"])
    heads, kv_heads, head_dim = (constants[axis] for axis in _CONSTANT_AXES)
    is_decode = "qo_indptr" not in inputs
    return Definition(name, inputs, outputs, heads, kv_heads, head_dim,
                      0 if _plain_inputs(told) == RAGGED_INPUTS else constants.get("page_size", 1),
                      str(told["inputs"]["q"]["dtype"]),
                      is_causal=not is_decode and "causal" in name)


def _plain_inputs(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in told.get("inputs", ()) if name != LAST_PAGE)


Theirs = Any
"""An object of FlashInfer-Bench's, which is imported only where it is asked for."""


def evaluator(*, effort: str = "quick", seed: int = 0) -> Theirs:
    """Makes a class that implements FlashInfer-Bench's `Evaluator` for gqa_ragged and gqa_paged.
    Where a clause fails, the evaluation is INCORRECT_NUMERICAL, or RUNTIME_ERROR where the kernel
    raised, with clause, case and line to replay in its log. Where all hold, FlashInfer-Bench's own
    evaluator decides, and takes the time. Raises ImportError where FlashInfer-Bench is not
    installed.
    """
    from flashinfer_bench.bench.evaluators.default import DefaultEvaluator  # noqa: PLC0415  (an optional package)
    from flashinfer_bench.bench.utils import make_eval  # noqa: PLC0415
    from flashinfer_bench.data import Correctness, EvaluationStatus  # noqa: PLC0415

    class AttnspecEvaluator(DefaultEvaluator):  # type: ignore[misc]  # it is not seen by mypy
        """Attention by its invariants."""

        @classmethod
        def can_evaluate(cls, definition: Theirs) -> bool:
            """Whether the definition is one of gqa_ragged or gqa_paged."""
            return is_attention(_definition_as_json(definition))

        @classmethod
        def check_correctness(cls, definition: Theirs, sol_runnable: Theirs, *args: Theirs,
                              **more: Theirs) -> Theirs:
            """Correctness and, if a clause or its comparison fails, an evaluation."""
            device, log = str(more.get("device", "cpu")), more.get("log_path")
            found = _judge_kernel(definition, sol_runnable, device, Effort(effort), seed)
            if found.failure is None:
                return super().check_correctness(definition, sol_runnable, *args, **more)
            if found.failure.verdict is not Verdict.VIOLATED:
                return None, make_eval(EvaluationStatus.RUNTIME_ERROR, device, log,
                                       extra_msg=found.told_text)
            correctness = Correctness(**_worst_errors(found),
                                      extra={"clause": found.failure.clause})
            return correctness, make_eval(EvaluationStatus.INCORRECT_NUMERICAL, device, log,
                                          correctness=correctness, extra_msg=found.told_text)

    return AttnspecEvaluator


def _judge_kernel(definition: Theirs, runnable: Theirs, device: str, effort: Effort,
                  seed: int) -> KernelJudgement:
    told = read_definition(_definition_as_json(definition))
    attend = as_attention(told, runnable, device=device,
                          is_destination_passing=bool(runnable.metadata.destination_passing_style))
    try:
        return judge_kernel(attend, effort=effort, seed=seed)
    except AttnspecError as mistake:
        raise AttnspecError(f"the definition {told.name!r} cannot be judged: {mistake}") from None


def _definition_as_json(definition: Theirs) -> dict[str, Any]:
    told: dict[str, Any] = definition.model_dump(mode="json")
    return told


def _worst_errors(found: KernelJudgement) -> dict[str, float]:
    """Returns the worst error that the failing clause saw, as FlashInfer-Bench counts it."""
    evidence = found.failure.evidence if found.failure else None
    errors = {"max_absolute_error": math.inf, "max_relative_error": math.inf}
    if evidence and (measured := evidence.measured):
        errors["max_absolute_error"] = abs(measured.gap)
        if measured.expected:
            errors["max_relative_error"] = abs(measured.gap) / abs(measured.expected)
    return errors


# One function, judged in this process until it fails


@dataclass(frozen=True, slots=True)
class KernelJudgement:
    """What the clauses say of a kernel.  held_count: how many `must` clauses hold.  failure: the
    first that does not.  told_text: that in words.
    """

    held_count: int
    failure: Outcome | None = None
    told_text: str = ""


def judge_kernel(function: Callable[..., object], *, effort: Effort = Effort.QUICK,
                 seed: int = 0) -> KernelJudgement:
    """Judges a function by every `must` clause that applies, up to the first that it violates. It
    is called in this process, which it takes along if it crashes. Raises AttnspecError where its
    declarations make no sense.
    """
    target = target_of(function)
    plan = Plan((target,), effort=effort, seed=seed, in_process=(target,))
    judge, held = load_engine(plan), 0
    for item in distinct_items(judge):
        clause = clause_of(judge.spec, item.clause)
        if clause.level is not Level.MUST:
            continue
        with one_thread():
            outcome = pronounce_verdict(judge, item, plan=plan)
        if outcome.verdict is Verdict.NOT_RUN:
            raise TargetError(outcome.reason)
        if does_gate_run(outcome.verdict, outcome.level, strict=False):
            return KernelJudgement(held, outcome,
                                   format_violation(outcome, says=clause.says,
                                                    where=str(clause.where)))
        held += outcome.verdict is Verdict.HELD
    return KernelJudgement(held)


# A kernel of FlashInfer-Bench as a function that attnspec judges


Array = Any
Kernel = Callable[..., Any]

REFERENCE_CONVENTIONS = {"causal_alignment": "bottom_right", "hidden_row": "zeros",
                         "grouped_heads": "repeat", "lse_base": "two",
                         "lse_of_hidden_row": "minus_infinity"}
"""The conventions of the definitions' references."""


def as_attention(definition: Definition, kernel: Kernel, *, is_destination_passing: bool,
                 device: str = "cpu") -> Kernel:
    """Returns the kernel in the form that attnspec knows, with its constants declared.
    is_destination_passing: whether outputs are handed over, to be filled.  device: where its
    arrays must be.
    """
    def call_kernel(given: dict[str, Array], rows: int) -> tuple[Array, Array]:
        """Returns output (N,H,D) and log-sum-exp (N,H) of so many rows of queries."""
        values = [given[name] for name in definition.inputs]
        inputs = [value.to(device) if hasattr(value, "to") else value for value in values]
        if is_destination_passing:
            outputs = _allocate_outputs(definition, given["q"], rows, device)
            kernel(*inputs, *outputs)
        else:
            outputs = kernel(*inputs)
            if not isinstance(outputs, tuple | list):
                outputs = (outputs,)
        output, lse = (*outputs, None)[:2]
        return output.cpu(), None if lse is None else lse.cpu()

    if definition.inputs == RAGGED_INPUTS:
        attend = _make_ragged_kernel(call_kernel)
    else:
        attend = _make_paged_kernel(definition, call_kernel)
    return _declare_kernel(attend, definition)


def _make_ragged_kernel(call_kernel: Callable[..., tuple[Array, Array]]) -> Kernel:
    """Makes a function of packed queries (N,H,D) and keys (N,Hkv,D)."""
    def attend(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array,
               causal: bool = True, scale: float | None = None,
               return_lse: bool = False) -> Any:  # noqa: ANN401  (a pair with `return_lse`)
        """Query (Nq,H,D), key, value (Nk,Hkv,D), borders (B+1,) -> (Nq,H,D), with lse (Nq,H)."""
        del causal  # as the definition says
        output, lse = call_kernel({"q": query, "k": key, "v": value, "qo_indptr": cu_query,
                              "kv_indptr": cu_key, "sm_scale": _scale_or_default(query, scale)},
                             len(query))
        if return_lse:
            return (output, lse)
        return output

    return attend


def _make_paged_kernel(definition: Definition,
                       call_kernel: Callable[..., tuple[Array, Array]]) -> Kernel:
    """Makes a function of queries (B,H,T,D), with keys and values in pages."""
    def attend(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array,
               causal: bool = True, scale: float | None = None,
               return_lse: bool = False) -> Any:  # noqa: ANN401  (a pair with `return_lse`)
        """Query (B,H,T,D), pools (pages,page,Hkv,D), table (B,N) -> (B,H,T,D), (B,H,T)."""
        del causal  # as the definition says
        B, H, T, D = query.shape
        slots = definition.page
        output, lse = call_kernel({"q": query.swapaxes(1, 2).reshape(B * T, H, D),
                              "k_cache": key.reshape(-1, slots, *key.shape[2:]),
                              "v_cache": value.reshape(-1, slots, *value.shape[2:]),
                              "qo_indptr": _cumulative_counts(key_lengths, [T] * B),
                              **_page_indices(block_table, key_lengths, slots,
                                              key.shape[1] // slots),
                              "sm_scale": _scale_or_default(query, scale)}, B * T)
        spread = output.reshape(B, T, H, D).swapaxes(1, 2)
        if return_lse:
            return (spread, lse.reshape(B, T, H).swapaxes(1, 2))
        return spread

    return attend


def _page_indices(block_table: Array, key_lengths: Array, slots: int,
                  parts: int) -> dict[str, Array]:
    """Returns FlashInfer's arrays for a table (B,N) of `parts` pages each, and lengths (B,)."""
    used, last = [], []
    for row, length in zip(block_table.tolist(), key_lengths.tolist(), strict=True):
        used.append([row[page // parts] * parts + page % parts
                     for page in range(-(-length // slots))])
        last.append((length - 1) % slots + 1 if length else 0)
    return {"kv_indptr": _cumulative_counts(key_lengths, [len(each) for each in used]),
            LAST_PAGE: key_lengths.new_tensor(last),
            "kv_indices": key_lengths.new_tensor([page for each in used for page in each])}


def _cumulative_counts(like: Array, counts: Sequence[int]) -> Array:
    """Returns the cumulative counts (B+1,), in the dtype of another tensor."""
    return like.new_tensor([sum(counts[:end]) for end in range(len(counts) + 1)])


def _scale_or_default(query: Array, scale: float | None) -> float:
    """Returns the scale, by default that of the last axis of (N,H,D)."""
    return query.shape[-1] ** -0.5 if scale is None else scale


def _allocate_outputs(definition: Definition, query: Array, rows: int,
                      device: str) -> tuple[Array, ...]:
    """Allocates output (N,H,D) and log-sum-exp (N,H) full of NaN: unwritten entries show."""
    import torch  # noqa: PLC0415  (weight: who looks the definitions up needs none)

    shape = (rows, definition.heads, definition.head_dim)
    output = torch.full(shape, torch.nan, dtype=query.dtype, device=device)
    lse = torch.full(shape[:2], torch.nan, dtype=torch.float32, device=device)
    return (output, lse)[:len(definition.outputs)]


def _declare_kernel(attend: Any, definition: Definition) -> Kernel:  # noqa: ANN401  (a function is given attributes)
    """Sets the attributes that declare the kernel: see docs/writing-an-adapter.md."""
    group = definition.heads // definition.kv_heads
    attend.lift, attend.dtypes, attend.grouped = "torch", [definition.dtype], True
    attend.causal_only, attend.ties_value_width = definition.is_causal, True
    attend.conventions = dict(REFERENCE_CONVENTIONS)
    attend.refuses = [f"H != {definition.heads}", f"G != {group}", f"D != {definition.head_dim}"]
    if definition.is_decode:
        attend.refuses.append("T != 1")
    elif not definition.is_causal:
        attend.refuses.append("causal")
    if definition.page:
        attend.page_multiple = definition.page
    return attend  # type: ignore[no-any-return]  # the function that came
