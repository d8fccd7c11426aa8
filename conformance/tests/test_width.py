"""No declaration acquits what is plainly wrong: each mistake shows under each class, or the class is refused."""

from __future__ import annotations

import numpy as np
import pytest
from attnspec.core.declaration import Declaration
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.diagnosis.arithmetic import classes_for
from attnspec.numerics.precision import GRADES, Precision, declared_precision
from attnspec.numerics.width import MISTAKES, acquitted_by, define, is_detected, refuse_too_wide, slice_problem
from attnspec.subjects.attributes import check_width

EVERYTHING_LOST = {"logit_roundings": 64, "prescale_roundings": 64, "reason": "a test"}


def precision(dtype: DType, **words: object) -> Precision:
    return declared_precision({**words, "reason": "a test"}, dtype)


@pytest.mark.parametrize("dtype", DType)
def test_no_class_that_a_finding_offers_acquits_a_plain_mistake(dtype: DType) -> None:
    for words in ({}, *(each.words for each in classes_for(dtype))):
        assert not acquitted_by(precision(dtype, **words)), words


@pytest.mark.parametrize("grade", GRADES)
def test_no_grade_acquits_a_plain_mistake(grade: str) -> None:
    assert not acquitted_by(precision(DType.BFLOAT16, grade=grade))


def test_a_coarse_exponential_beside_a_half_softmax_acquits_nothing() -> None:
    """It did while ulps of float32 became ulps of the softmax."""
    for half in ("float16", "bfloat16"):
        assert not acquitted_by(precision(DType.FLOAT32, softmax=half, exp_ulps=940))


def test_a_class_that_acquits_a_mistake_is_refused_with_what_conforms() -> None:
    with pytest.raises(ManifestError, match=r"prescale_roundings 64\) is too wide: .+ conforms under it"):
        refuse_too_wide(precision(DType.BFLOAT16, prescale_roundings=64))


def test_a_function_s_class_is_looked_at_like_a_manifest_s() -> None:
    declaration = Declaration(precision={DType.BFLOAT16: EVERYTHING_LOST})
    with pytest.raises(ManifestError, match="is too wide"):
        check_width(declaration, None)


def test_where_entries_cannot_tell_a_gain_the_mean_of_all_does() -> None:
    """In bfloat16 throughout, sums too: a unit is 0.4 %, and many of them add up."""
    coarse = precision(DType.BFLOAT16, grade="G4", accumulate="bfloat16", row_sum="bfloat16")
    for mistake in MISTAKES:
        assert is_detected(mistake, coarse), mistake.name


def test_the_halves_that_are_exchanged_are_halves() -> None:
    [mistake] = [each for each in MISTAKES if each.name.startswith("halves")]
    problem = slice_problem(DType.FLOAT64, mistake.sizes)
    first, second = np.split(define(problem), 2, axis=-1)
    np.testing.assert_array_equal(mistake.answer(problem), np.concatenate([second, first], axis=-1))


def test_a_gain_is_of_one_percent() -> None:
    [mistake] = [each for each in MISTAKES if each.name.startswith("an output that is off by 1 %")]
    problem = slice_problem(DType.FLOAT64, mistake.sizes)
    np.testing.assert_allclose(mistake.answer(problem), 1.01 * define(problem), rtol=1e-15)
