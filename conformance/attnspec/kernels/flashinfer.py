"""An evaluator for FlashInfer-Bench that puts attention kernels to the clauses of attnspec before its own comparison.

https://github.com/flashinfer-ai/flashinfer-bench, flashinfer_bench/bench/evaluators/evaluator.py
"""

from __future__ import annotations

import math
from typing import Any

from attnspec.core.errors import AttnspecError
from attnspec.core.nouns import Effort, Verdict
from attnspec.kernels.called import as_attention
from attnspec.kernels.definitions import is_attention, read
from attnspec.kernels.judged import KernelJudgement, judged

Theirs = Any
"""An object of FlashInfer-Bench's, whose classes this module imports only where they are asked for."""


def evaluator(*, effort: str = "quick", seed: int = 0) -> Theirs:
    """A class that implements FlashInfer-Bench's `Evaluator` for gqa_ragged and gqa_paged.

    Where a clause fails, the evaluation is INCORRECT_NUMERICAL, or RUNTIME_ERROR where the kernel raised, with clause,
    case and line to replay in its log. Where all hold, FlashInfer-Bench's own evaluator decides, which also takes the
    time. Raises ImportError where FlashInfer-Bench is not installed.
    """
    from flashinfer_bench.bench.evaluators.default import DefaultEvaluator  # noqa: PLC0415  (an optional package)
    from flashinfer_bench.bench.utils import make_eval  # noqa: PLC0415
    from flashinfer_bench.data import Correctness, EvaluationStatus  # noqa: PLC0415

    class AttnspecEvaluator(DefaultEvaluator):  # type: ignore[misc]  # it is not seen by mypy
        """Attention by its invariants."""

        @classmethod
        def can_evaluate(cls, definition: Theirs) -> bool:
            """Whether the definition is one of gqa_ragged or gqa_paged."""
            return is_attention(_told(definition))

        @classmethod
        def check_correctness(cls, definition: Theirs, sol_runnable: Theirs, *args: Theirs, **more: Theirs) -> Theirs:
            """A pair of correctness and, where a clause or FlashInfer-Bench's comparison fails, an evaluation."""
            device, log = str(more.get("device", "cpu")), more.get("log_path")
            found = _judged(definition, sol_runnable, device, Effort(effort), seed)
            if found.failure is None:
                return super().check_correctness(definition, sol_runnable, *args, **more)
            if found.failure.verdict is not Verdict.VIOLATED:
                return None, make_eval(EvaluationStatus.RUNTIME_ERROR, device, log, extra_msg=found.told)
            correctness = Correctness(**_errors(found), extra={"clause": found.failure.clause})
            return correctness, make_eval(EvaluationStatus.INCORRECT_NUMERICAL, device, log, correctness=correctness,
                                          extra_msg=found.told)

    return AttnspecEvaluator


def _judged(definition: Theirs, runnable: Theirs, device: str, effort: Effort, seed: int) -> KernelJudgement:
    told = read(_told(definition))
    attend = as_attention(told, runnable, device=device,
                          is_destination_passing=bool(runnable.metadata.destination_passing_style))
    try:
        return judged(attend, effort=effort, seed=seed)
    except AttnspecError as mistake:
        raise AttnspecError(f"the definition {told.name!r} cannot be judged: {mistake}") from None


def _told(definition: Theirs) -> dict[str, Any]:
    """The definition as its JSON has it."""
    told: dict[str, Any] = definition.model_dump(mode="json")
    return told


def _errors(found: KernelJudgement) -> dict[str, float]:
    """The worst error that the failing clause saw, as FlashInfer-Bench counts it."""
    measured = found.failure.evidence.measured if found.failure and found.failure.evidence else None
    gap = abs(measured.gap) if measured else math.inf
    expected = abs(measured.expected) if measured and measured.expected else 0.0
    return {"max_absolute_error": gap, "max_relative_error": gap / expected if expected else math.inf}
