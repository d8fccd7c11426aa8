"""Precision classes: what may be declared of an implementation's rounding points, and what is assumed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from attnspec.aspects.softcap.mathematics import softcap_roundings
from attnspec.core.dtype import DTYPES
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.numerics.precision import (
    GRADES,
    Precision,
    assumed_precision,
    declared_precision,
    looser_words,
    precision_of_grade,
)
from attnspec.numerics.roundings import exp_error, roundings


@pytest.mark.parametrize(("dtype", "roundoff", "subnormal", "normal", "largest"), [
    (DType.FLOAT64, 2.0**-53, 2.0**-1074, 2.0**-1022, (2 - 2.0**-52) * 2.0**1023),
    (DType.FLOAT32, 2.0**-24, 2.0**-149, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    (DType.FLOAT16, 2.0**-11, 2.0**-24, 2.0**-14, 65504.0),
    (DType.BFLOAT16, 2.0**-8, 2.0**-133, 2.0**-126, (2 - 2.0**-7) * 2.0**127)])
def test_units_are_those_of_the_formats(
    dtype: DType, roundoff: float, subnormal: float, normal: float, largest: float,
) -> None:
    found = DTYPES[dtype]
    assert (found.roundoff, found.subnormal, found.normal, found.largest) == (roundoff, subnormal, normal, largest)


def test_half_of_the_smallest_float64_is_never_taken_for_zero() -> None:
    assert DTYPES[DType.FLOAT64].underflow == np.nextafter(0, 1)


def test_nothing_declared_means_own_dtype_or_grade_3_in_half_precision() -> None:
    assert declared_precision(None, DType.FLOAT32) == precision_of_grade("G0", DType.FLOAT32)
    assert declared_precision(None, DType.BFLOAT16) == precision_of_grade("G3", DType.BFLOAT16)
    assert declared_precision({}, DType.FLOAT16) == assumed_precision(DType.FLOAT16)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_a_wide_dtype_has_one_grade(dtype: DType) -> None:
    assert len({roundings(precision_of_grade(grade, dtype)) for grade in GRADES}) == 1


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_each_grade_adds_roundings_to_the_one_before(dtype: DType) -> None:
    ladder = [precision_of_grade(grade, dtype) for grade in GRADES]
    for finer, coarser in itertools.pairwise(ladder):
        assert not looser_words(finer, coarser)
        assert looser_words(coarser, finer)


@pytest.mark.parametrize("dtype", DType)
def test_the_argument_of_the_exponential_is_rounded_three_times(dtype: DType) -> None:
    """The subtraction of the maximum, the product with log2(e), and that constant."""
    precision = assumed_precision(dtype)
    assert roundings(precision).argument == 3 * DTYPES[precision.softmax].roundoff


def test_the_grades_round_what_their_meaning_says() -> None:
    storage = ("weights", "prescale", "logits", "softmax")
    ladder = [precision_of_grade(grade, DType.FLOAT16) for grade in GRADES]
    narrow = [{word for word in storage if getattr(rung, word) is DType.FLOAT16} for rung in ladder]
    assert narrow == [set(), {"weights"}, {"weights", "prescale"}, {"weights", "prescale", "logits"}, set(storage)]


@pytest.mark.parametrize(("ulps", "units"), [(0.5, 1), (3, 6), (20, 42)])
def test_an_ulp_of_exp_is_two_roundoffs(ulps: float, units: float) -> None:
    declared = declared_precision({"exp_ulps": ulps, "reason": "documented"}, DType.FLOAT32)
    assert exp_error(declared) == units * DTYPES[DType.FLOAT32].roundoff


@pytest.mark.parametrize(("word", "read"), [
    ("exp_ulps", lambda precision: roundings(precision).exp),
    ("tanh_ulps", lambda precision: softcap_roundings(precision).tanh)], ids=["exp", "tanh"])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_declared_ulps_mean_the_same_whatever_another_word_says(
        word: str, read: Callable[[Precision], float], half: str) -> None:
    """They are documented of float32: a softmax stored in a half format adds its own error, and multiplies nothing."""
    def error(**more: object) -> float:
        declared = {"softmax": half, "accumulate": half, "reason": "documented", **more}
        return read(declared_precision(declared, DType.FLOAT32))

    added = error(**{word: 940}) - error()
    assert added == pytest.approx(2 * 940 * DTYPES[DType.FLOAT32].roundoff, rel=0.05)


def test_a_float32_softmax_in_float64_rounds_logits_weights_and_sums() -> None:
    """JAX 0.10 computes the softmax of float64 attention in float32."""
    declared = declared_precision({"softmax": "float32", "reason": "documented"}, DType.FLOAT64)
    assert {declared.softmax, declared.logits, declared.weights, declared.row_sum} == {DType.FLOAT32}
    assert declared.accumulate is DType.FLOAT64
    assert declared.logit_roundings == 1


def test_what_a_coarser_softmax_implies_can_be_declared_otherwise() -> None:
    declared = declared_precision({"softmax": "float32", "weights": "float64", "reason": "documented"}, DType.FLOAT64)
    assert declared.weights is DType.FLOAT64


@pytest.mark.parametrize("looser", [
    {"exp_ulps": 20}, {"block": 8}, {"flushes_subnormals": True}, {"accumulate": "bfloat16"}, {"prescale_roundings": 3},
    {"logits": "float16", "logit_roundings": 1}])
def test_a_looser_class_must_give_a_reason(looser: dict[str, object]) -> None:
    with pytest.raises(ManifestError, match="looser than the assumed one"):
        declared_precision(looser, DType.FLOAT32)
    assert declared_precision(looser | {"reason": "documented"}, DType.FLOAT32).reason == "documented"


@pytest.mark.parametrize("tighter", [{"grade": "G0"}, {"grade": "G1"}, {"block": 512}, {"exp_ulps": 1}])
def test_a_tighter_class_needs_no_reason(tighter: dict[str, object]) -> None:
    assert declared_precision(tighter, DType.BFLOAT16).reason == ""


@pytest.mark.parametrize(("declared", "message"), [
    ({"grad": "G1"}, "'grad' is not a known word of a precision class. Did you mean 'grade'?"),
    ({"grade": "G5"}, "'G5' is not a known grade."),
    ({"softmax": "float23"}, "'float23' is not a known dtype .* Did you mean 'float32'?"),
    ({"softmax": ["float32"]}, "is not a known dtype"),
    ({"grade": []}, "is not a known grade"),
    ({"exp_ulps": "3"}, "'exp_ulps' in a precision class must be a number, not negative, not '3'"),
    ({"exp_ulps": float("nan")}, "'exp_ulps' in a precision class must be a number, not negative, not nan"),
    ({"exp_ulps": float("inf")}, "'exp_ulps' in a precision class can be 1048576 at most, not inf: a larger one would"),
    ({"exp_ulps": -1}, "must be a number, not negative, not -1"),
    ({"weight_roundings": 10**29}, "'weight_roundings' in a precision class can be 64 at most"),
    ({"block": 10**29}, "'block' in a precision class can be 1073741824 at most"),
    ({"block": 0}, "'block' in a precision class must be a whole number, at least 1, not 0"),
    ({"block": True}, "'block' in a precision class must be a whole number"),
    ({"weight_roundings": -1}, "must be a whole number, not negative"),
    ({"flushes_subnormals": 1}, "must be true or false, not 1"),
    ({"reason": 3}, "'reason' in a precision class must be text")])
def test_a_word_or_value_that_makes_no_sense_is_refused(declared: dict[str, object], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        declared_precision(declared, DType.FLOAT32)


def test_a_class_says_its_grade_and_what_differs() -> None:
    declared = declared_precision({"grade": "G1", "exp_ulps": 20, "reason": "documented"}, DType.BFLOAT16)
    assert str(declared) == "G1, exp_ulps 20"
    assert str(declared_precision(None, DType.FLOAT64)) == "G0"
