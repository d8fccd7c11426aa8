"""That numbers are too large for a function is told as such: which numbers, and from where on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.diagnosis.locate import NOTHING_SHOWS, locate_stage
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Recipe
from attnspec.record.outcome import MAGNITUDE_CAUSE
from attnspec.trials.evaluator import Evaluator
from helpers.subjects import softmax_of, subject_of

CASE = make_problem(Recipe.parse("B1,H1,Hkv1,T4,S6,D8,Dv8;mask=none;families=normal;seed=3"), DType.FLOAT32)


def clipped(query: Array, key: Array, value: Array) -> Array:
    """Logits above 40 are cut off."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    return np.asarray(softmax_of(np.clip(logits, -40, 40)) @ value)


def saturated(query: Array, key: Array, value: Array) -> Array:
    """Values beyond 1000 are cut off."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    return np.asarray(softmax_of(logits) @ np.clip(value, -1000, 1000))


def sound(query: Array, key: Array, value: Array) -> Array:
    """Nothing is wrong."""
    return np.asarray(softmax_of(query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)) @ value)


@pytest.mark.parametrize(("function", "factors", "name", "turn"), [
    (clipped, (64, 1), "logit", 40), (saturated, (1, 4096), "value", 1000), (sound, (64, 4096), "", 0)])
def test_the_magnitude_is_named_from_which_on_answers_are_wrong(
        function: Callable[..., Array], factors: tuple[float, float], name: str, turn: float) -> None:
    subject = subject_of(function, frozenset(), dtypes=(DType.FLOAT32,))
    evaluator = Evaluator(subject, DType.FLOAT32)
    failing = CASE.but(query=CASE.query * np.float32(factors[0]), value=CASE.value * np.float32(factors[1]))
    said = locate_stage(ComparisonStandard(subject, evaluator.precision, evaluator.conventions, Aspect.NONE),
                        DType.FLOAT32, [failing])
    if not name:
        assert said == NOTHING_SHOWS
        return
    assert said.startswith(f"{MAGNITUDE_CAUSE}{name} is ")
    told = float(said.removeprefix(f"{MAGNITUDE_CAUSE}{name} is ").split()[0])
    assert turn <= told * 1.001 <= 2 * turn


def test_numbers_far_larger_than_those_of_the_failing_case_are_no_reason() -> None:
    def truncated(query: Array, key: Array, value: Array) -> Array:
        return sound(query, key, np.clip(np.trunc(value), -12, 12))

    subject = subject_of(truncated, frozenset(), dtypes=(DType.FLOAT32,))
    evaluator = Evaluator(subject, DType.FLOAT32)
    said = locate_stage(ComparisonStandard(subject, evaluator.precision, evaluator.conventions, Aspect.NONE),
                        DType.FLOAT32, [CASE])
    assert np.abs(CASE.value).max() < 4
    assert MAGNITUDE_CAUSE not in said
