"""Every shipped subject at every dtype: it runs, within its declared rounding, with the conventions it declares."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.problem import Array, Problem, Sizes, numpy_dtype
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.registry import load_target, registered_subjects
from attnspec.subjects.subject import Subject, SubjectRaised

SUBJECTS = {name: subject for name, subject in registered_subjects().items() if not subject.why_missing}
CASES = [(name, dtype) for name, subject in SUBJECTS.items() for dtype in subject.declaration.dtypes]
HALVES = (DType.FLOAT16, DType.BFLOAT16)
DEAR_TO_PROBE = ("jax/dot_product_attention_residual_eager", "torch/written_out")
# The flaw of the note that these layers follow: their scale is a float32 tensor that `.to(dtype)` leaves behind.
LEFT_BEHIND = ("torch/single_head", "torch/multi_head")
# Variants of PyTorch that take seconds to compile for each shape and dtype: the audit has time for them, this has not.
COMPILED = ("compiled", "traced")
SOUND = [(name, dtype) for name, dtype in CASES if name not in LEFT_BEHIND or dtype is DType.FLOAT32]


def problem_for(subject: Subject, dtype: DType) -> Problem:
    """A small problem with a mask that leaves every query a key, where masks are taken."""
    H = 1 if subject.declaration.limits.single_head else 4
    sizes = Sizes(2, H, H, 5, 5, 8, 8)
    draw, number = np.random.default_rng(11), numpy_dtype(dtype)

    def entries() -> Array:
        return draw.normal(size=(sizes.B, H, 5, 8)).astype(number)

    mask = (draw.random((sizes.B, H, 5, 5)) < 0.5) | np.eye(5, dtype=bool)
    takes = subject.declaration.keywords
    return Problem(dtype, entries(), entries(), entries(), mask=mask if "mask" in takes else None,
                   return_weights="return_weights" in takes)


def worst(subject: Subject, problem: Problem) -> float:
    """The largest gap to the definition over what rounding allows."""
    precision = declared_precision(subject.declaration.precision.get(problem.dtype), problem.dtype)
    expected = expect(problem, precision, conventions=subject.declaration.conventions,
                      scale_width=subject.scale_width(problem))
    gap = np.abs(subject.answer(problem).output.astype(expected.output.dtype) - expected.output)
    return float((gap / expected.output_allowance).max())


def with_variants(name: str, *, slow: bool = True) -> Iterator[Subject]:
    """The subject and its variants, those of JAX only where slowness is accepted (op by op it compiles every op)."""
    subject = load_target(name)
    names = [each for each in subject.declaration.variants
             if each not in COMPILED and (slow or not name.startswith("jax/"))]
    return itertools.chain([subject], map(subject.variant, names))


@pytest.mark.family(1, each="name")
@pytest.mark.parametrize(("name", "dtype"), SOUND, ids=[f"{name}-{dtype.value}" for name, dtype in SOUND])
def test_subjects_answer_within_their_declared_rounding_in_every_variant(name: str, dtype: DType) -> None:
    if name == "jax/dot_product_attention":
        pytest.skip("it is judged in a process of its own, with compiler flags that this one lacks")
    problem = problem_for(load_target(name), dtype)
    if reason := load_target(name).refuses(problem.but(return_weights=False)):
        pytest.skip(reason)
    for subject in with_variants(name, slow=dtype is DType.FLOAT32):
        asked = problem if "return_weights" in subject.declaration.keywords else problem.but(return_weights=False)
        assert worst(subject, asked) <= 1
        assert subject.answer(asked).mutated == ()
        assert subject.answer(asked).aliases == ()


@pytest.mark.family(4)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly) if name in DEAR_TO_PROBE else name for name in SUBJECTS])
def test_every_subject_does_what_it_declares_where_practice_is_divided(name: str) -> None:
    if name == "jax/dot_product_attention":
        pytest.skip("op by op a probe takes seconds; the same function is probed under jit")
    if name == "jax/pallas_gpu":
        pytest.skip("its causal answers with more queries than keys are NaN: a finding, told by the audit")
    if name == "torch/flex_compiled":
        pytest.skip("a probe takes seconds to compile; the same functions are probed as torch/flex")
    if name == "torch/sdpa_nested_lengths":
        pytest.skip("it raises where all sequences are empty, as a probe's are: a finding")
    for subject in with_variants(name, slow=False):
        found = probe_conventions(subject, subject.declaration.dtypes[0])
        declared = {key: answer for key, answer in subject.declaration.conventions.items() if answer != "undefined"}
        assert {key: found.get(key) for key in declared} == declared


@pytest.mark.parametrize("name", [name for name in LEFT_BEHIND if name in SUBJECTS])
def test_a_scale_outside_buffers_fails_in_halves_and_is_coarse_in_float64(name: str) -> None:
    subject = load_target(name)
    for dtype in HALVES:
        with pytest.raises(SubjectRaised):
            subject.answer(problem_for(subject, dtype))
    assert worst(subject, problem_for(subject, DType.FLOAT64)) > 1e6


def test_the_numpy_msa_promotes_as_its_note_does() -> None:
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 keeps float32 beside a float64 scalar")
    subject = load_target("numpy/msa")
    assert subject.answer(problem_for(subject, DType.FLOAT32)).output.dtype == np.float64


def test_the_numpy_msa_promises_no_dtype_and_is_held_to_that_of_its_inputs() -> None:
    declaration = load_target("numpy/msa").declaration
    assert declaration.output_dtype == "undefined"
    assert declaration.returned_dtype(DType.FLOAT16) is DType.FLOAT16


@pytest.mark.skipif("torch/mha" not in SUBJECTS, reason="PyTorch is not installed")
def test_the_averaged_weights_are_the_mean_over_heads() -> None:
    subject = load_target("torch/mha")
    problem = problem_for(subject, DType.FLOAT64)
    per_head, averaged = subject.answer(problem).weights, subject.variant("averaged").answer(problem).weights
    assert per_head is not None
    assert averaged is not None
    np.testing.assert_allclose(averaged, per_head.mean(axis=1), rtol=1e-14)
