"""The rules by which attention over codes and scales is tested today: those of four libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from attnspec.aspects.quantised.arrays import NAMES
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array
from attnspec.subjects.subject import Subject

from evaluation.baselines import quantised_grids as grids
from evaluation.baselines.dealing import describe_dealing
from evaluation.baselines.grids import THREE, GridSource
from evaluation.baselines.quantised_suites import Allows, CodeReference, CodeTest, of_codes
from evaluation.baselines.references import Reference
from evaluation.baselines.rules import Rule, differs_beyond, twice_eager_and_noise

LEAST_COSINE, MOST_L1 = 0.99, 0.05
"""What the tests of Hugging Face's build of SageAttention allow."""


def close(absolute: float, relative: float) -> Allows:
    """Entry by entry, |answer - reference| at most absolute + relative·|reference|, as torch.testing.assert_close."""
    return lambda seen, reference: not differs_beyond(seen, reference.same, relative, absolute)


def close_to_answer(absolute: float, relative: float) -> Allows:
    """The same with the answer and the reference in each other's place, so that a large answer widens it."""
    return lambda seen, reference: bool(np.isfinite(seen.astype(np.float64)).all()) and not differs_beyond(
        reference.same, seen, relative, absolute)


def mean_square_below(limit: float) -> Allows:
    """The mean square of all differences from the reference is below a number."""
    return lambda seen, reference: bool(np.square(_wide(seen) - _wide(reference.same)).mean() < limit)


def alike(seen: Array, reference: CodeReference) -> bool:
    """Whether (B,H,T,Dv) is finite, its cosine with the reference is over 0.99, its relative L1 error below 0.05."""
    here, known = _wide(seen).ravel(), _wide(reference.wider).ravel()
    cosine = here @ known / (np.linalg.norm(here) * np.linalg.norm(known))
    return bool(np.isfinite(here).all() and cosine > LEAST_COSINE
                and np.abs(here - known).sum() / np.abs(known).sum() < MOST_L1)


def within_twice_eager(seen: Array, reference: CodeReference) -> bool:
    """Whether (B,H,T,Dv) is as near as flash-attention 3 asks for: see `twice_eager_and_noise`."""
    return not twice_eager_and_noise(seen, reference)


def _wide(array: Array) -> Array:
    """Of any shape, in float64."""
    return array.astype(np.float64)


def beyond_its_test(seen: Array, reference: Reference) -> bool:
    """Whether (B,H,T,Dv) is not within what the test allows from which the problem is."""
    assert isinstance(reference, CodeReference)  # all problems of these rules are CodeProblems
    return not reference.allows(seen, reference)


@dataclass(frozen=True, slots=True)
class CodeRule(Rule):
    """A rule that is put to subjects that take scales of codes."""

    def suits(self, subject: Subject) -> bool:
        """Whether the subject takes a scale."""
        return not NAMES.keys().isdisjoint(subject.declaration.keywords)


VLLM = (
    CodeTest(grids.VLLM_UNIFIED, close(0.15, 0.15), of_numbers=True),
    CodeTest(grids.VLLM_CACHE, close(0.15, 0.15), of_numbers=True),
    CodeTest(grids.VLLM_TOKENS, close(0.05, 0.05)),
    CodeTest(grids.VLLM_PAGES, close(1e-2, 1e-5)),
)
FLASHINFER = (
    CodeTest(grids.FLASHINFER_PREFILL, close_to_answer(1e-2, 0.2), of_numbers=True),
    CodeTest(grids.FLASHINFER_DECODE, close_to_answer(1e-2, 0.2), of_numbers=True),
    CodeTest(grids.FLASHINFER_ONE, close_to_answer(1e-2, 0.02), of_numbers=True),
    CodeTest(grids.FLASHINFER_HOPPER, mean_square_below(1.0), of_numbers=True),
    CodeTest(grids.FLASHINFER_PAGES, mean_square_below(1.0), of_numbers=True),
    CodeTest(grids.FLASHINFER_GROUPS, mean_square_below(1.0), of_numbers=True),
    CodeTest(grids.FLASHINFER_GROUPED_DECODE, mean_square_below(0.01), of_numbers=True),
)
FLASH_ATTENTION_3 = tuple(CodeTest(grid, within_twice_eager) for grid in grids.FLASH_ATTENTION_3)
SAGE_ATTENTION = tuple(CodeTest(grid, alike, of_numbers=True) for grid in grids.SAGE_ATTENTION)

_CUT = ("A large case has fewer sequences, or heads, than published. Pages and packed sequences are put as dense ones, "
        "each length as a case. Diagonals start top-left, as attnspec recommends; a single query has none.")


def _describe_grids(tests: tuple[CodeTest, ...]) -> str:
    return describe_dealing([test.grid for test in tests])


def _read(tests: tuple[CodeTest, ...]) -> tuple[GridSource, ...]:
    return tuple(dict.fromkeys(test.grid.source for test in tests))


_ALL = (
    CodeRule(
        "vllm_codes", "vLLM's tests of quantised caches",
        "https://github.com/vllm-project/vllm/blob/main/tests/kernels/attention/test_triton_unified_attention.py",
        "Numbers from N(0,1) are divided by 0.75 (queries), 0.5 (keys) and 0.25 (values) and rounded to E4M3. The "
        "answer may differ from attention of the numbers by 0.15 + 15 %; also with a query of numbers. A scale for "
        "each token, INT8 and E4M3: by 0.05 + 5 % from attention of the dequantised cache. Codes in ±1/sqrt(d) with "
        f"the scales 0.5 and 0.25: by 0.01 from the same. {_describe_grids(VLLM)} {_CUT} "
        "Left out: windows, softcap, ALiBi, NVFP4.",
        of_codes(*VLLM), beyond_its_test, _read(VLLM), THREE),
    CodeRule(
        "flashinfer_codes", "FlashInfer's tests of FP8",
        "https://github.com/flashinfer-ai/flashinfer/blob/main/tests/attention/test_hopper_fp8_attention.py",
        "Keys and values from 0.05·N(0,1) or 0.1·N(0,1), one scale an array, so that the largest becomes 256, in E4M3 "
        "and E5M2: attention of the numbers may differ by 0.01 + 20 % of the answer itself (one sequence: 2 %). "
        "Queries, keys and values from N(0,1) with a scale a head: the mean square of the differences is below 1, for "
        f"a single query below 0.01. {_describe_grids(FLASHINFER)} {_CUT} Left out: masks of blocks, rotary embedding, "
        "and tests "
        "without scales.",
        of_codes(*FLASHINFER), beyond_its_test, _read(FLASHINFER), THREE),
    CodeRule(
        "flash_attention_3_codes", "flash-attention 3's rule, FP8",
        "https://github.com/Dao-AILab/flash-attention/blob/main/hopper/test_flash_attn.py",
        "E4M3 codes that are numbers from N(0,1), and scales drawn in [0, 2) for each head of a sequence. The largest "
        "error may be twice (with a softcap three times) that of an eager run in bfloat16 whose weights are rounded to "
        "E4M3, plus twice the rounding error of adding 0.3 to the reference and subtracting it again. Causal, windows, "
        f"softcap, grouped heads. {_describe_grids(FLASH_ATTENTION_3)} {_CUT} Left out: chunks, "
        "and the test of caches, which "
        "passes no scales.",
        of_codes(*FLASH_ATTENTION_3), beyond_its_test, _read(FLASH_ATTENTION_3), (DType.BFLOAT16,)),
    CodeRule(
        "sage_attention_codes", "SageAttention's cosine and L1",
        "https://github.com/thu-ml/SageAttention",
        "Numbers from N(0,1), B=1, T = S = 256. Queries and keys, less their mean, in INT8 with a scale a block of 128 "
        "and 64 tokens, values in E4M3 with a scale a feature, as its kernels code them. The answer is finite, its "
        "cosine with attention of the numbers is over 0.99, and its relative L1 error below 0.05. Its repository tests "
        "no answer of a kernel; these are the limits, sizes and options of the tests that Hugging Face's "
        "kernels-community has for its build (version 3), which calls them upstream's. Causal, grouped heads. "
        f"{_describe_grids(SAGE_ATTENTION)}",
        of_codes(*SAGE_ATTENTION), beyond_its_test, _read(SAGE_ATTENTION), THREE),
)

CODE_RULES: Mapping[str, CodeRule] = {rule.name: rule for rule in _ALL}
"""The rules on codes and scales by name, in the order in which tables show them."""
