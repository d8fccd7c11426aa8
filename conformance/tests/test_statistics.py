"""The paper's variance argument: its law, its stated rate of false alarms, and its power."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.faults import staged
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.problems.choices import shapes_for
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Recipe
from attnspec.record.outcome import Measured
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary.chance import chernoff, has_variance
from attnspec.vocabulary.scene import Posed, Scene
from helpers.law import checks
from helpers.subjects import subject_of

RATES = (0.1, 1e-3, 1e-9)
FREEDOMS = (1, 7, 63, 1008, 4032)


def outside(freedom: int, ratio: float, side: int) -> float:
    """The exact probability that chi-squared / freedom lies beyond the ratio."""
    ends = (freedom * ratio / 2, mpmath.inf) if side > 0 else (0, freedom * ratio / 2)
    return float(mpmath.gammainc(freedom / 2, *ends, regularized=True))


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_limit_is_crossed_at_most_at_the_stated_rate(freedom: int, rate: float, side: int) -> None:
    ratio = chernoff(freedom, rate, side)  # type: ignore[arg-type]  # 1 or -1
    assert (ratio > 1) is (side > 0)
    assert outside(freedom, ratio, side) <= rate


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("freedom", [63, 1008, 4032])
def test_the_limit_is_at_most_an_eighth_beyond_the_exact_quantile(freedom: int, side: int) -> None:
    ratio = chernoff(freedom, 1e-9, side)  # type: ignore[arg-type]  # 1 or -1
    assert outside(freedom, 1 + (ratio - 1) / 1.125, side) > 1e-9


def test_the_rate_is_kept_where_it_can_be_seen() -> None:
    freedom, rate, draws = 63, 0.05, 200_000
    ratios = np.random.RandomState(5).chisquare(freedom, draws) / freedom
    low, high = (chernoff(freedom, rate / 2, side) for side in (-1, 1))
    alarms = ((ratios < low) | (ratios > high)).mean()
    assert 0.002 < alarms <= rate


# --- the law, put to real problems

def unit_variance() -> Check:
    return checks()["scale.unit_variance"]


def scaled_by(factor: float, power: float) -> Subject:
    """Attention that multiplies the dot products by factor * D ** power."""
    sound = staged.staged()()

    def attend(query: Array, key: Array, value: Array, *, scale: float | None = None) -> object:
        return sound(query, key, value, scale=factor * query.shape[-1] ** power if scale is None else scale)

    return subject_of(attend, {"scale"}, conventions=RECOMMENDED)


def measured(subject: Subject, seed: int, width: int, *, rate: float = 1e-9, dtype: DType = DType.FLOAT32) -> Measured:
    shapes = shapes_for(unit_variance().domain, subject.declaration.limits, Effort.DEFAULT)
    [sizes] = [sizes for sizes in shapes if width == sizes.D]
    problem = make_problem(Recipe(sizes, ("gaussian",), "none", frozenset(), seed), dtype)
    evaluator = Evaluator(subject, dtype)
    runs = {"original": Posed((problem,), conventions=evaluator.conventions)}
    return has_variance(Scene(subject, dtype, evaluator.conventions, runs, evaluator), value="one", false_alarm=rate)


@pytest.mark.parametrize(("width", "dtype"), [(width, dtype) for width in (4, 16, 64, 256) for dtype in DType
                                             if dtype is not DType.FLOAT16 or width > 16])  # there weights underflow
def test_right_logits_have_unit_variance_at_every_width(width: int, dtype: DType) -> None:
    found = measured(scaled_by(1, -0.5), 1, width, dtype=dtype)
    assert found.claimed == 1
    assert found.margin <= 1


@pytest.mark.family(1)
@pytest.mark.parametrize("width", [4, 16])
def test_right_logits_raise_alarms_at_most_at_the_stated_rate(width: int) -> None:
    """At a rate of 0.2 in 60 draws: more than 24 alarms would have a chance of less than 0.0001."""
    found = [measured(scaled_by(1, -0.5), seed, width, rate=0.2) for seed in range(60)]
    assert sum(each.margin > 1 for each in found) <= 24
    ratios = np.array([each.seen for each in found])
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.parametrize(("wrong", "widths"), [
    (scaled_by(1, -1), (4, 16, 64, 256)), (scaled_by(1, 0), (4, 16, 64, 256)), (scaled_by(0.5, -0.5), (4, 16, 64, 256)),
    (scaled_by(1.25, -0.5), (4, 16, 64, 256)), (scaled_by(1, -0.25), (4, 16, 64, 256))],
    ids=["1/d", "none", "half", "a quarter more", "fourth root"])
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_scale_is_found_at_every_width(wrong: Subject, widths: tuple[int, ...], seed: int) -> None:
    assert all(measured(wrong, seed, width).margin > 1 for width in widths)


def test_without_a_scale_the_variance_is_the_width() -> None:
    evaluator = Evaluator(scaled_by(1, -0.5), DType.FLOAT64)
    without = checks()["scale.variance_without"]
    from attnspec.trials.trial import Trial

    right = Trial(without, evaluator, Effort.DEFAULT, 0, lambda _: None).hold()
    assert right.failure is None
    assert right.cases > 0
    assert right.worst
    assert 0.9 < right.worst.seen < 1.1


def test_logits_that_cannot_be_read_are_not_claimed_on() -> None:
    """Queries and keys so large that most weights underflow."""
    subject = scaled_by(1, -0.5)
    problem = make_problem(Recipe(shapes_for(unit_variance().domain, subject.declaration.limits, Effort.DEFAULT)[0],
                                  ("gaussian",), "none", frozenset(), 0), DType.FLOAT32)
    evaluator = Evaluator(subject, DType.FLOAT32)
    runs = {"original": Posed((problem.but(query=problem.query * 256),), conventions=evaluator.conventions)}
    scene = Scene(subject, DType.FLOAT32, evaluator.conventions, runs, evaluator)
    assert has_variance(scene, value="one", false_alarm=1e-9).claimed == 0
