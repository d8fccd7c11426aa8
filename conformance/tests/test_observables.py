"""What is looked at: weights read out in blocks of the values' width, logits, parts joined, margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults import staged
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.problems.problem import Array, Problem
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary import observables
from attnspec.vocabulary.observables import MOST_BLOCKS, look_at, measure, observe, relative_logits
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Posed, Scene
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes
from helpers.subjects import ATTENTION_KEYWORDS, subject_of

B, H, T, S, D = 2, 2, 3, 7, 4


class Recorder:
    """A sound attention that keeps the shapes of the values it was asked with."""

    def __init__(self) -> None:
        self.widths: list[int] = []
        self.sound: Callable[..., object] = staged.staged()()

    def __call__(self, query: Array, key: Array, value: Array, **keywords: object) -> object:
        self.widths.append(value.shape[-1])
        return self.sound(query, key, value, **keywords)


def scene(Dv: int, *, limits: Limits | None = None, S: int = S, H: int = H,
          **changes: object) -> tuple[Scene, Recorder]:
    random = np.random.RandomState(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in ((B, H, T, D), (B, H, S, D), (B, H, S, Dv))]
    function = Recorder()
    subject = subject_of(function, ATTENTION_KEYWORDS, conventions=RECOMMENDED, limits=limits or Limits())
    evaluator = Evaluator(subject, DType.FLOAT32)
    posed = Posed((Problem(DType.FLOAT32, arrays[0], arrays[1], arrays[2]).but(**changes),), key="original")
    return Scene(subject, DType.FLOAT32, RECOMMENDED, {"original": posed}, evaluator), function


@pytest.mark.parametrize(("width", "calls"), [(1, 7), (2, 4), (3, 3), (7, 1), (9, 1)])
def test_weights_are_read_in_blocks_of_the_values_width(width: int, calls: int) -> None:
    case, subject = scene(width)
    seen = look_at(case, "original", "weights")
    assert seen.array.shape == (B, H, T, S)
    assert (np.abs(seen.array - seen.truth) <= seen.allowance).all()
    assert subject.widths == [width] * calls


def test_weights_are_read_of_a_subject_whose_widths_are_tied() -> None:
    case, subject = scene(D, limits=Limits(ties_value_width=True))
    seen = look_at(case, "original", "weights")
    assert (np.abs(seen.array - seen.truth) <= seen.allowance).all()
    assert set(subject.widths) == {D}


def test_a_read_out_that_takes_too_many_calls_says_nothing() -> None:
    case, _ = scene(1, S=MOST_BLOCKS + 1)
    with pytest.raises(NoClaim, match="too many calls"):
        observe(case, "original", "weights")


def test_a_run_is_looked_at_once_a_case() -> None:
    case, subject = scene(S)
    for name in ("weights", "weights", "logits", "output", "output"):
        look_at(case, "original", name)
    assert len(subject.widths) == 2  # the identity, and the values


def test_logits_are_read_relative_to_the_top_key() -> None:
    case, _ = scene(S)
    seen = look_at(case, "original", "logits")
    problem = case.problem("original")
    logits = problem.query.astype(float) @ problem.key.astype(float).swapaxes(-1, -2) / np.sqrt(D)
    np.testing.assert_allclose(seen.truth, logits - logits.max(axis=-1, keepdims=True), rtol=1e-12)
    assert seen.claimed.all()
    assert (np.abs(seen.array - seen.truth) <= seen.allowance).all()


def test_logits_of_hidden_keys_are_not_claimed_on() -> None:
    mask = np.arange(S) % 2 == 0
    case, _ = scene(S, mask=np.broadcast_to(mask, (B, H, T, S)).copy())
    np.testing.assert_array_equal(look_at(case, "original", "logits").claimed, np.broadcast_to(mask, (B, H, T, S)))


def test_a_weight_of_zero_has_an_infinitely_low_logit() -> None:
    found = relative_logits(np.array([[0.0, 0.5, 0.25]]), np.array([[-9.0, 0.0, -1.0]]))
    np.testing.assert_allclose(found, [[-np.inf, 0, -np.log(2)]])


def test_returned_weights_are_asked_for() -> None:
    case, _ = scene(2)
    seen = look_at(case, "original", "returned_weights")
    assert seen.array.shape == (B, H, T, S)
    assert (np.abs(seen.array - seen.truth) <= seen.allowance).all()


def test_parts_are_joined_in_their_order_and_read_back() -> None:
    case, _ = scene(3)
    whole = look_at(case, "original", "output")
    moved = replace(axes.split(axes.permute_batch(case.runs["original"], by=Drawn(3)), along="queries"), key="parts")
    parts = Scene(case.subject, case.dtype, RECOMMENDED, {"original": moved}, case.evaluator)
    apart = look_at(parts, "original", "output")
    np.testing.assert_allclose(apart.truth, whole.truth, rtol=1e-12)
    assert (np.abs(apart.array - whole.array) <= apart.allowance + whole.allowance).all()


def test_a_run_outside_the_declared_limits_says_so() -> None:
    case, _ = scene(3, limits=Limits(ties_value_width=True))
    with pytest.raises(OutsideLimits, match=r"takes only values as wide as keys \(Dv = D\)"):
        observe(case, "original", "output")


@pytest.mark.parametrize("at_once", [1, 10, 50])
def test_large_arrays_are_compared_part_by_part(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    random = np.random.default_rng(0)
    seen, truth = random.random((2, 3, 5, 7)), random.random((2, 3, 5, 7))
    allowance, claimed = random.random((2, 1, 5, 1)), random.random((2, 3, 5, 1)) < 0.8
    seen[1, 2, 4, 6] = np.nan
    whole = measure("is", seen, truth, allowance, claimed, what="x")
    monkeypatch.setattr(observables, "AT_ONCE", at_once)
    assert measure("is", seen, truth, allowance, claimed, what="x") == whole
