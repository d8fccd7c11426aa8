"""The rules by which backward passes are tested today: each is a set of inputs and a comparison of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array
from attnspec.subjects.subject import NotDifferentiated, Subject, SubjectDied, SubjectRaised, UnusableAnswer

from evaluation.baselines import gradient_suites as suites
from evaluation.baselines.dealing import describe_dealing
from evaluation.baselines.gradcheck import fails_gradcheck
from evaluation.baselines.gradient_grids import (
    FLASH_GRADIENTS,
    FUSED_GRADIENTS,
    FUSED_LEAST,
    QKV,
    GradientTest,
    grids_of,
)
from evaluation.baselines.gradient_references import Gradients
from evaluation.baselines.gradient_suites import Cases, GradientCase, cases_of
from evaluation.baselines.grids import HALVES, OPERATOR_SAMPLES, THREE, GridSource
from evaluation.baselines.rules import ASSERT_CLOSE, by_another_convention, differs_beyond, renew_subject

Judge = Callable[[Subject, GradientCase], bool]


def comparing(wrong: Callable[[Gradients, GradientCase], bool]) -> Judge:
    """Of a comparison of the gradients of one call."""
    return lambda subject, case: wrong(subject.answer(case.posed.problem).by_input, case)


def times_eager(seen: Gradients, case: GradientCase) -> bool:
    """Whether the largest error of a gradient is so many times over that of an eager run in the inputs' dtype."""
    known = case.posed.gradients
    errors, allowed = (_largest(each, known.rounded_gradients) for each in (seen, known.eager))
    if case.is_packed:
        errors, allowed = (dict.fromkeys(QKV, float(np.max(list(each.values())))) for each in (errors, allowed))
    return any(not errors[name] <= factor * allowed[name] + case.plus for name, factor in case.factors.items())


def times_low(seen: Gradients, case: GradientCase) -> bool:
    """Whether the largest error of a gradient is so many times over that of a library's run in the inputs' dtype, and
    beyond the least that is allowed.
    """
    known = case.posed.gradients
    errors, allowed = (_largest(each, known.wider) for each in (seen, known.same))
    return any(not errors[name] <= max(FUSED_LEAST, factor * allowed[name]) for name, factor in case.factors.items())


def _largest(seen: Gradients, known: Gradients) -> Mapping[str, float]:
    """The largest distance of an entry, by gradient."""
    return {name: float(np.abs(seen[name].astype(np.float64) - known[name].astype(np.float64)).max())
            for name in known if name in seen}


def far_from_same(seen: Gradients, case: GradientCase) -> bool:
    """Whether some gradient has another dtype than a library's, or an entry beyond the defaults of assert_close."""
    return any(_far(seen[name], known) for name, known in case.posed.gradients.same.items())


def _far(seen: Array, known: Array) -> bool:
    """Whether a gradient of any shape has another dtype or an entry too far off."""
    return seen.dtype != known.dtype or differs_beyond(seen, known, *ASSERT_CLOSE[known.dtype.name])


@dataclass(frozen=True, slots=True)
class GradientRule:
    """A rule on gradients: what it puts to a subject that has some, and how it decides.

    The words are those of `Rule`.
    """

    name: str
    title: str
    source: str
    meaning: str
    cases: Cases
    is_wrong: Judge
    read: tuple[GridSource, ...]
    dtypes: tuple[DType, ...]

    def suits(self, subject: Subject) -> bool:
        """Whether the subject has gradients."""
        return GRAD in subject.declaration.keywords

    def judge(self, subject: Subject, dtype: DType, seed: int) -> Iterator[bool]:
        """Whether the subject's gradients are called wrong, case by case; lazily. What is left out and what counts as
        wrong without a comparison is as with other rules.
        """
        if dtype not in self.dtypes or not self.suits(subject):
            return
        subject = renew_subject(subject)
        for case in cases_of(self.cases, dtype, seed):
            if not subject.refuses(case.posed.problem) and not by_another_convention(subject, case.posed):
                yield self._calls_wrong(subject, case)

    def _calls_wrong(self, subject: Subject, case: GradientCase) -> bool:
        with np.errstate(all="ignore"):
            try:
                return self.is_wrong(subject, case)
            except (SubjectRaised, SubjectDied, UnusableAnswer, NotDifferentiated):
                return True


def _describe_cases(tests: Sequence[GradientTest]) -> str:
    """How much of the grids is put, and how large cases are cut."""
    return (f"{describe_dealing(grids_of(tests))} A quarter of the work of the rule on outputs, "
            "since a case takes four times as "
            "long. A large case has fewer sequences, or heads, than published.")


def _sources(tests: Sequence[GradientTest]) -> tuple[GridSource, ...]:
    return tuple(dict.fromkeys(grid.source for grid in grids_of(tests)))


_MATH_CHECK = GridSource("pytorch/pytorch", "test/test_transformers.py", "6ac86627d419394fc77fd09392046a4bbd44ec9e")

_ALL = (
    GradientRule(
        "flash_attention_gradients", "flash-attention's 3x rule of gradients",
        "https://github.com/Dao-AILab/flash-attention/blob/main/tests/test_flash_attn.py",
        "The largest error of dQ, dK and dV may be at most 3 times that of an eager run in the dtype of the inputs; in "
        "tests of packed inputs twice, all three together; in causal ones twice, plus 1e-5; in split ones twice, with "
        "ALiBi 8 times, plus 2e-4; in that of overflows, in float16 alone, 5 times, plus 1e-3. Inputs and the output's "
        "gradient are Gaussian, in one test the latter is strided. It uses the lengths, widths, heads and options of "
        "its tests: causal, windows, ALiBi, softcap, key padding, grouped heads. Diagonals start top-left, as attnspec "
        f"recommends. {_describe_cases(FLASH_GRADIENTS)} Left out: dropout, padded queries, equal bits of two runs.",
        suites.FLASH, comparing(times_eager), _sources(FLASH_GRADIENTS), HALVES),
    GradientRule(
        "pytorch_fused_gradients", "PyTorch's fused tolerances of gradients",
        "https://github.com/pytorch/pytorch/blob/main/test/test_transformers.py",
        "torch.rand, also for the output's gradient. The largest error of a gradient may be 110 to 180 (dQ), 8 to 25 "
        "(dK), 3 to 8.5 (dV), 45 (float mask) times that of the formula in the same dtype, by the test, and 1e-5 at "
        "least. It uses the lengths, widths, heads and options of its tests: causal, scale 1/d, grouped heads, float "
        f"masks. {_describe_cases(FUSED_GRADIENTS)} Left out: dropout, TF32, ROCm's factors, and the tests of the CPU, "
        "which have "
        "fixed tolerances.",
        suites.FUSED, comparing(times_low), _sources(FUSED_GRADIENTS), THREE),
    GradientRule(
        "gradcheck", "torch.autograd.gradcheck, defaults",
        "https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html",
        "In float64, whole Jacobians: central differences of the subject's own forward pass (eps 1e-6) against the "
        "gradients of each entry of the output (rtol 1e-3, atol 1e-5). A second run must give the same gradients, and "
        "zeros must give zeros. Gaussian inputs at the sizes of PyTorch's own check of attention (B=4, H=2, T=S=4, "
        "d=16; contiguous and packed), and its operator samples (B=4, T=3, S=6, d=8: causal with one head and four, a "
        "float mask).",
        suites.CHECKED, fails_gradcheck, (_MATH_CHECK, OPERATOR_SAMPLES), (DType.FLOAT64,)),
    GradientRule(
        "assert_close_gradients", "torch.testing.assert_close of gradients, defaults",
        "https://docs.pytorch.org/docs/stable/testing.html",
        "The inputs that assert_close has for outputs (five Gaussian draws, the shapes and features of PyTorch's "
        "operator samples), with a Gaussian gradient of the output. Each gradient is compared with that of the same "
        "formula in the same dtype, rounded once.",
        suites.SAMPLES, comparing(far_from_same), (OPERATOR_SAMPLES,), (DType.FLOAT64, *THREE)),
)

GRADIENT_RULES: Mapping[str, GradientRule] = {rule.name: rule for rule in _ALL}
"""The rules on gradients by name, in the order in which tables show them."""
