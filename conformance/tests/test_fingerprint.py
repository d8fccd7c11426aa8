"""Precision grades are read off answers, and a class that does not explain them is a violation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.subject import own_subject
from attnspec.numerics.precision import GRADES, declared_precision, looser_words, precision_of_grade
from attnspec.numerics.width import Fit, ladder, tightest
from attnspec.problems.problem import Array
from attnspec.record.outcome import Outcome, Reading
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial
from helpers.law import checks

GRADE = checks()["numerics.precision_grade"]
HALF = (DType.FLOAT16, DType.BFLOAT16)


def judged(subject: Subject, dtype: DType) -> Outcome:
    return SubjectRun(subject, Plan((subject.id,), effort=Effort.QUICK), lambda _: None).try_clause(GRADE, dtype)


def read(subject: Subject, dtype: DType) -> Reading:
    [reading] = Trial(GRADE, Evaluator(subject, dtype), Effort.QUICK, 0, lambda _: None).hold().readings
    return reading


def stored(inside: type[np.floating], *, softmax: type[np.floating] | None = None) -> Subject:
    """Naive attention that computes in `inside`, and its softmax in `softmax`."""
    def attend(query: Array, key: Array, value: Array) -> Array:
        q, k, v = (array.astype(inside) for array in (query, key, value))
        logits = (q @ k.swapaxes(-1, -2) * inside(1 / np.sqrt(q.shape[-1]))).astype(softmax or inside)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights.astype(inside) @ v).astype(query.dtype)

    sound = own_subject("sound/naive")
    return replace(sound, callee=InProcess(attend), declaration=replace(sound.declaration, keywords=frozenset()))


@pytest.mark.parametrize("dtype", HALF, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize(("name", "grade"), [
    ("sound/naive", "G0"), ("sound/online_blocks", "G0"), ("sound/eager", "G2"),
    ("fault/inputs_float8", "none"), ("fault/output_zeros", "none")])
def test_the_grade_in_half_precision_is_read_off(name: str, grade: str, dtype: DType) -> None:
    assert read(own_subject(name), dtype).value == grade


@pytest.mark.parametrize(("make", "dtype", "value"), [
    (lambda: stored(np.float64), DType.FLOAT64, "float64"),
    (lambda: stored(np.float64, softmax=np.float32), DType.FLOAT64, "softmax in float32"),
    (lambda: stored(np.float32), DType.FLOAT64, "float32"),
    (lambda: stored(np.float32), DType.FLOAT32, "float32"),
    (lambda: own_subject("fault/inputs_tf32"), DType.FLOAT32, "inputs in TF32"),
    (lambda: own_subject("fault/inputs_bfloat16"), DType.FLOAT32, "inputs in bfloat16"),
    (lambda: own_subject("fault/values_int8"), DType.FLOAT32, "none")])
def test_a_coarser_class_that_explains_is_named(make: Callable[[], Subject], dtype: DType, value: str) -> None:
    assert read(make(), dtype).value == value


def test_a_class_that_does_not_explain_is_violated_and_says_by_how_much() -> None:
    outcome = judged(own_subject("fault/inputs_tf32"), DType.FLOAT32)
    assert outcome.verdict is Verdict.VIOLATED
    [reading] = outcome.readings
    assert reading.quantity == "precision grade"
    assert reading.sentence.startswith("inputs in TF32 explains all errors (the worst is 0.")
    assert "; float32 is exceeded by a factor of " in reading.sentence
    assert reading.sentence.endswith("; G0 is declared")


def test_a_subject_that_is_more_precise_than_it_declares_holds() -> None:
    sound = own_subject("sound/naive")
    modest = replace(sound, declaration=replace(sound.declaration, precision={DType.FLOAT16: {"grade": "G3"}}))
    outcome = judged(modest, DType.FLOAT16)
    assert outcome.verdict is Verdict.HELD
    [reading] = outcome.readings
    assert reading.value == "G0"
    assert reading.sentence.endswith("G3 is declared")


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_each_rung_of_the_ladder_is_looser_than_the_one_before(dtype: DType) -> None:
    rungs = list(ladder(precision_of_grade("G0", dtype)).values())
    for tight, loose in itertools.pairwise(rungs):
        assert looser_words(loose, tight)


@pytest.mark.parametrize("dtype", HALF, ids=lambda dtype: dtype.value)
def test_rungs_keep_what_says_nothing_of_rounding_points(dtype: DType) -> None:
    declared = declared_precision({"grade": "G2", "exp_ulps": 20, "flushes_subnormals": True, "reason": "documented"},
                                  dtype)
    rungs = ladder(declared)
    assert list(rungs) == list(GRADES)
    assert {(rung.exp_ulps, rung.flushes_subnormals) for rung in rungs.values()} == {(20, True)}


def test_the_tightest_is_the_first_that_explains() -> None:
    fits = (Fit("G0", 7.0), Fit("G1", 1.0), Fit("G2", 0.2))
    assert tightest(fits) == fits[1]
    assert tightest((Fit("G0", float("nan")),)) is None
