"""The rules of judgement in use today: each is a set of inputs and a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from attnspec.core.forms import KEY_COUNTS, QUERY_COUNTS
from attnspec.core.keywords import FROM_PLACE
from attnspec.core.nouns import DType
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.faults.size_family import SEEDED
from attnspec.faults.subject import own_ids, own_subject
from attnspec.problems.problem import Array, LayerProblem, Problem
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised, UnusableAnswer

from evaluation.baselines import grids
from evaluation.baselines.dealing import describe_dealing
from evaluation.baselines.grid_suites import FLASH_ATTENTION, FLASH_ATTENTION_3, FUSED_ATTENTION
from evaluation.baselines.grids import HALVES, NODE_CASES, OPERATOR_SAMPLES, THREE, GridSource, ParameterGrid
from evaluation.baselines.inputs import OPINFO, SHAPES, Suite, five_draws, normal, uniform
from evaluation.baselines.onnx_nodes import ONNX_NODES
from evaluation.baselines.references import Reference, ReferencedProblem

Comparison = Callable[[Array, Reference], bool]
Tolerance = tuple[float, float]  # relative, absolute

ASSERT_CLOSE: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-5), DType.BFLOAT16.value: (1.6e-2, 1e-5),
    DType.FLOAT32.value: (1.3e-6, 1e-5), DType.FLOAT64.value: (1e-7, 1e-7)}
"""torch.testing.assert_close, by the dtype of what is compared."""

KERNELBENCH: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-2, 1e-2), DType.BFLOAT16.value: (1e-2, 1e-2), DType.FLOAT32.value: (1e-4, 1e-4)}
"""KernelBench's tolerance by precision; torch.allclose takes it as rtol and atol alike."""

FUSED: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-3), DType.BFLOAT16.value: (1.6e-2, 1e-3), DType.FLOAT32.value: (1.3e-6, 1e-5)}
"""The least tolerances of PyTorch's tests of fused attention, before the fudge factor."""

FUDGE = 4
"""What PyTorch's tests of fused attention multiply the tolerance of the forward output by."""

ONNX: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-7), DType.BFLOAT16.value: (2**-6, 1e-7), DType.FLOAT32.value: (1e-3, 1e-7)}
"""ONNX's backend tests; its runner widens bfloat16 to two units in the last place."""


def close_to_same(tolerances: Mapping[str, Tolerance]) -> Comparison:
    """Within atol + rtol·|reference| of a library's answer in the same dtype, entry by entry."""
    def wrong(seen: Array, reference: Reference) -> bool:
        """Whether what is seen, such as (B,H,T,Dv), has another dtype or an entry too far off."""
        known = reference.same
        return seen.dtype != known.dtype or differs_beyond(seen, known, *tolerances[known.dtype.name])
    return wrong


def close_to_fused(seen: Array, reference: Reference) -> bool:
    """Whether (B,H,T,Dv) leaves the tolerances that a low-precision reference earns by its own largest deviations."""
    low = reference.same
    if low.dtype != seen.dtype:
        return True
    return differs_beyond(seen, reference.wider.astype(low.dtype),
                          *earn_tolerance(reference.wider.astype(np.float64), low))


def earn_tolerance(wide: Array, low: Array) -> Tolerance:
    """The tolerance that a low-precision reference earns by its deviations from the wide one, such as (B,H,T,Dv)."""
    rtol, atol = FUSED[low.dtype.name]
    deviation = np.abs(wide - low.astype(np.float64))
    with np.errstate(all="ignore"):  # 0/0 counts as the least tolerance
        relative = float(np.nan_to_num(deviation / np.abs(wide), nan=rtol, posinf=np.inf).max())
    scaled = FUDGE * max(relative, rtol)
    return rtol if scaled > 1e30 else scaled, FUDGE * max(float(deviation.max()), atol)


def twice_eager(seen: Array, reference: Reference) -> bool:
    """Whether the largest error in all of (B,H,T,Dv) is over twice that of an eager run in the inputs' dtype."""
    return beyond_eager(seen, reference, 2)


def twice_eager_and_noise(seen: Array, reference: Reference) -> bool:
    """As `twice_eager`, of (B,H,T,Dv), plus twice what adding 0.3 to the reference and taking it away costs.

    Three times the eager error under a softcap.
    """
    times = 3 if reference.is_capped else 2
    return beyond_eager(seen, reference, times, 2 * reference.noise)


def beyond_eager(seen: Array, reference: Reference, times: float, plus: float = 0) -> bool:
    """Whether the largest distance of an entry of (B,H,T,Dv) from the rounded reference is so many times over that of
    an eager run, and more.
    """
    error = float(np.abs(seen.astype(np.float64) - reference.rounded_output).max())
    return not error <= times * reference.eager_error + plus


def differs_beyond(seen: Array, known: Array, rtol: float, atol: float) -> bool:
    """Whether some entry of (B,H,T,Dv), or of weights, is further off than atol + rtol·|known|."""
    there, here = seen.astype(np.float64), known.astype(np.float64)
    return not bool((np.abs(there - here) <= atol + rtol * np.abs(here)).all())


def renew_subject(subject: Subject) -> Subject:
    """The same subject made anew where it is one of our own: a fault with a memory starts without one."""
    is_ours = subject.id.partition(SEEDED)[0] in own_ids()
    return replace(subject, callee=own_subject(subject.id).callee) if is_ours else subject


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it puts to a subject, and how it decides.

    source: where it is published.  meaning: what it does, and which of its sizes were cut.  read: where its sizes were
    read.  dtypes: where it is used.
    """

    name: str
    title: str
    source: str
    meaning: str
    inputs: Suite
    wrong: Comparison
    read: tuple[GridSource, ...]
    dtypes: tuple[DType, ...] = THREE

    def suits(self, subject: Subject) -> bool:  # noqa: ARG002  (rules on gradients do not suit every one)
        """Whether the rule is put to the subject."""
        return True

    def judge(self, subject: Subject, dtype: DType, seed: int) -> Iterator[bool]:
        """Whether the subject is called wrong, case by case in the suite's order; lazily.

        Nothing where the rule is not used at this dtype. What the subject does not take, or answers by another
        convention than the references, is left out. An exception or an answer of the wrong shape is wrong.
        """
        if dtype not in self.dtypes:
            return
        subject = renew_subject(subject)  # what another rule asked of a fault with a memory must not serve this one
        for posed in self.inputs.pose_problems(subject.declaration.kind, dtype, seed):
            if not subject.refuses(posed.problem) and not by_another_convention(subject, posed):
                yield self._calls_wrong(subject, posed)

    def _calls_wrong(self, subject: Subject, posed: ReferencedProblem) -> bool:
        with np.errstate(all="ignore"):
            try:
                answer = _answer(subject, posed)
            except (SubjectRaised, SubjectDied, UnusableAnswer):
                return True
            if answer.weights is not None and self._calls_weights_wrong(subject, answer, posed):
                return True
            return self.wrong(answer.output, posed.output)

    def _calls_weights_wrong(self, subject: Subject, answer: SubjectAnswer, posed: ReferencedProblem) -> bool:
        averaged = subject.declaration.limits.weights == "averaged"
        assert answer.weights is not None
        return self.wrong(answer.weights, posed.averaged_weights if averaged else posed.weights)


def _answer(subject: Subject, posed: ReferencedProblem) -> SubjectAnswer:
    problem = posed.problem
    return subject.answer(problem)


def by_another_convention(subject: Subject, posed: ReferencedProblem) -> bool:
    """Whether the subject's declared conventions ask for another answer here than the recommended ones."""
    return any(subject.declaration.conventions.get(name, RECOMMENDED[name]) != RECOMMENDED[name]
               for name in _conventions_at_stake(posed))


def _conventions_at_stake(posed: ReferencedProblem) -> Iterator[str]:
    problem, sizes = posed.problem, posed.problem.sizes
    if posed.has_hidden_rows:
        yield "hidden_row"
    if not _has_one_diagonal(problem):
        yield "causal_alignment"
    if QUERY_COUNTS in problem.given:
        yield "beyond_length"
    if problem.causal and (problem.mask is not None or problem.bias is not None):
        yield "mask_with_causal"
    if sizes.Hkv != sizes.H:
        yield "grouped_heads"


def _has_one_diagonal(problem: Problem | LayerProblem) -> bool:
    """Whether a query's own place, if anything counts from it, is the same under all conventions."""
    counts = not FROM_PLACE.isdisjoint(problem.given)
    return not counts or problem.has_past or (problem.sizes.T == problem.sizes.S and KEY_COUNTS not in problem.given)


def _describe_grids(published: Sequence[ParameterGrid]) -> str:
    """How much of the grids is put, and how large cases are cut."""
    return (f"{describe_dealing(published)} A large case has fewer sequences, or heads, than published. "
            "A layer gets eight cases.")


def _sources(published: Sequence[ParameterGrid]) -> tuple[GridSource, ...]:
    return tuple(dict.fromkeys(grid.source for grid in published))


def _put_sizes() -> str:
    """`level 1 problem 97 at B=1 H=2 …`, for each shape of KernelBench."""
    return ", ".join(f"{test} at {sizes}" for test, (sizes, _) in SHAPES.items())


_KERNELBENCH = "https://github.com/ScalingIntelligence/KernelBench/blob/main/src/kernelbench/eval.py"
_CUT = (f"Its shapes, with fewer sequences and heads so that a CPU can compute them: {_put_sizes()}. Left out: level 3 "
        "problem 31 (T = S = 16384), and attention inside whole networks. A layer gets the causal shape.")
_GAUSSIAN, _UNIFORM = five_draws(normal), five_draws(uniform)
_LOOSE = {dtype.value: (1e-2, 1e-2) for dtype in THREE}

_ALL = (
    Rule("gaussian_1e-2", "Five Gaussian draws, allclose 1e-2", _KERNELBENCH,
         "torch.randn: five draws without and five with the causal flag. The answer may differ by atol = rtol = 1e-2 "
         "from the same formula in the same dtype. Benchmarks of generated kernels used this rule at first. " + _CUT,
         _GAUSSIAN, close_to_same(_LOOSE), _sources(grids.KERNELBENCH)),
    Rule("gaussian_1e-4", "Five Gaussian draws, allclose 1e-4", _KERNELBENCH,
         "The same draws with the tolerance that is used today: atol = rtol = 1e-4 in float32, 1e-2 in half dtypes. "
         + _CUT,
         _GAUSSIAN, close_to_same(KERNELBENCH), _sources(grids.KERNELBENCH)),
    Rule("kernelbench", "KernelBench", _KERNELBENCH,
         "torch.rand, as in its attention problems: entries in [0, 1), with the tolerance that it uses today. " + _CUT,
         _UNIFORM, close_to_same(KERNELBENCH), _sources(grids.KERNELBENCH)),
    Rule("assert_close", "torch.testing.assert_close, defaults",
         "https://docs.pytorch.org/docs/stable/testing.html",
         "Five Gaussian draws of common sizes (B=2, H=2, T=S=128, d=64), and the shapes and features of PyTorch's "
         "operator samples (B=4, H=4, T=3, S=6, d=8: plain, causal, broadcast, one float mask). Those are Gaussian, "
         "too: PyTorch's own entries in [-9, 9) need a looser tolerance. A layer is tested like "
         "nn.MultiheadAttention: self-attention, memory, causal, padding, weights. All of these cases are used.",
         OPINFO, close_to_same(ASSERT_CLOSE), (OPERATOR_SAMPLES,)),
    Rule("flash_attention", "flash-attention's 2x rule",
         "https://github.com/Dao-AILab/flash-attention/blob/main/tests/test_flash_attn.py",
         "The largest error may be at most twice that of an eager run in the dtype of the inputs. It uses the lengths, "
         "widths, heads and options of its tests, with one Gaussian draw for each combination: causal, windows, ALiBi, "
         "softcap, key padding, filled caches, grouped heads. Diagonals start top-left, as attnspec recommends. "
         + _describe_grids(grids.FLASH_ATTENTION)
         + " Left out: dropout, gradients, paged caches, rotary embedding, padded queries.",
         FLASH_ATTENTION, twice_eager, _sources(grids.FLASH_ATTENTION), HALVES),
    Rule("flash_attention_3", "flash-attention 3's rule",
         "https://github.com/Dao-AILab/flash-attention/blob/main/hopper/test_flash_attn.py",
         "Like the 2x rule (with a softcap, three times the eager error), plus twice the rounding error of adding 0.3 "
         "to the reference and subtracting it again. It uses the lengths, widths, heads and options of its tests: "
         "causal, windows, softcap, key padding, filled caches, grouped heads, values wider and narrower than keys. "
         + _describe_grids(grids.FLASH_ATTENTION_3)
         + " Left out: chunks, float8, a second query, gradients.",
         FLASH_ATTENTION_3, twice_eager_and_noise, _sources(grids.FLASH_ATTENTION_3), HALVES),
    Rule("pytorch_fused", "PyTorch's fused tolerances",
         "https://github.com/pytorch/pytorch/blob/main/test/test_transformers.py",
         "torch.rand. The tolerances are 4 times the largest absolute and relative deviation of a low-precision "
         "reference, and at least 4 times the defaults; also at the sizes of the CPU tests, which have fixed ones. It "
         "uses the lengths, widths, heads and options of its tests: causal, scale 1/d, grouped heads, float and "
         "boolean masks. "
         + _describe_grids(grids.FUSED_ATTENTION) + " Left out: dropout, gradients, nested tensors.",
         FUSED_ATTENTION, close_to_fused, _sources(grids.FUSED_ATTENTION)),
    Rule("onnx_nodes", "ONNX's fixed cases",
         "https://github.com/onnx/onnx/blob/main/onnx/backend/test/case/node/attention.py",
         "The node cases of its Attention operator that attnspec's functions can take, at their own sizes: entries in "
         "[0, 1), B=2, T=4, S=6, d=8; float and boolean masks, causal, scale, grouped heads, wider values, rows that "
         "see no key, heads side by side, weights. rtol 1e-3 (bfloat16 2^-6), atol 1e-7. Cases that are published in "
         "float32 are also used in the half dtypes, with a reference that is rounded once. Left out: caches, windows "
         "and softcap.",
         ONNX_NODES, close_to_same(ONNX), (NODE_CASES,)),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
"""Every rule by name, in the order in which tables show them."""
