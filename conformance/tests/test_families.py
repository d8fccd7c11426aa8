"""Value families keep the promises of their names, in every dtype."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.problems.domain import FamilyName
from attnspec.problems.families import FAMILIES, WORKED_WEIGHTS
from attnspec.problems.make import MASKS, make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes

SIZES = Sizes(2, 2, 1, 6, 9, 12, 5)
SMALLEST = {DType.FLOAT64: 2.0**-1022, DType.FLOAT32: 2.0**-126, DType.FLOAT16: 2.0**-14, DType.BFLOAT16: 2.0**-126}


def problem_of(family: str, dtype: DType = DType.FLOAT64, sizes: Sizes = SIZES, seed: int = 4) -> Problem:
    return make_problem(Recipe(sizes, (family,), "none", frozenset(), seed), dtype)


def logits(problem: Problem) -> Array:
    """Scaled logits (B,H,T,S) in float64."""
    query, key = problem.query.astype(np.float64), problem.key.astype(np.float64)
    scores: Array = query @ key.repeat(query.shape[1] // key.shape[1], axis=1).swapaxes(-1, -2)
    scaled: Array = scores / np.sqrt(query.shape[-1])
    return scaled


def test_the_names_of_families_are_those_of_the_spec() -> None:
    assert list(FAMILIES) == list(get_args(FamilyName))


@pytest.mark.family(40)
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("family", FAMILIES)
def test_entries_are_finite_at_every_width(family: str, dtype: DType) -> None:
    for sizes in (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(1, 1, 1, 1, 2, 3, 2), SIZES, Sizes(1, 2, 2, 3, 5, 80, 8)):
        for seed in range(3):
            problem = problem_of(family, dtype, sizes, seed)
            for array in (problem.query, problem.key, problem.value):
                assert np.isfinite(array.astype(np.float64)).all()


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if not family.overflows])
def test_raw_dot_products_fit_float16(family: str) -> None:
    for seed in range(5):
        problem = problem_of(family, DType.FLOAT16, Sizes(2, 2, 2, 9, 17, 80, 4), seed)
        query, key = np.abs(problem.query.astype(np.float64)), np.abs(problem.key.astype(np.float64))
        assert (query @ key.swapaxes(-1, -2)).max() <= 3e4 * 1.01  # rounding to float16 comes last


FROZEN = {
    DType.FLOAT64: "ce2e023cf5a6a908",
    DType.FLOAT32: "376c1a3255353a31",
    DType.FLOAT16: "a51a2553e5e259a1",
    DType.BFLOAT16: "cb3425f336c6e84a",
}


@pytest.mark.parametrize("dtype", DType)
def test_every_family_makes_the_bits_it_made_when_this_was_written(dtype: DType) -> None:
    digest = hashlib.blake2b(digest_size=8)
    for family in FAMILIES:
        problem = problem_of(family, dtype)
        for array in (problem.query, problem.key, problem.value):
            digest.update(array.tobytes())
    assert digest.hexdigest() == FROZEN[dtype]


def whole(array: Array) -> bool:
    return bool((array == np.rint(array)).all())


def rows_with_one_entry(array: Array, entry: float) -> bool:
    return bool(((array != 0).sum(-1) == 1).all() and (array.sum(-1) == entry).all())


PROMISES: dict[str, Callable[[Problem], object]] = {
    "integers": lambda p: whole(p.query) and whole(p.key) and whole(p.value) and np.abs(p.query).max() <= 2,
    "normal": lambda p: np.abs(p.query).max() < 6,
    "uniform": lambda p: min(p.query.min(), p.key.min(), p.value.min()) >= 0 and p.key.max() < 1,
    "student_t": lambda p: np.abs(p.query).max() > 6,
    "constant": lambda p: (p.key == p.key[:, :, :1]).all() and np.ptp(logits(p), axis=-1).max() == 0,
    "near_ties": lambda p: 0 < np.ptp(logits(p), axis=-1).max() < 1e-12,
    "huge_logits": lambda p: np.abs(logits(p)).max() > 100,
    "tiny_values": lambda p: 0 < np.abs(p.value).max() < 6 * SMALLEST[DType.FLOAT64],
    "one_hot": lambda p: rows_with_one_entry(p.query, 4) and rows_with_one_entry(p.key, 4),
    "alternating_values": lambda p: (np.abs(p.value) == 1e4).all() and (p.value[:, :, 1:] == -p.value[:, :, :-1]).all(),
    "duplicated_keys": lambda p: all(len(np.unique(head, axis=0)) < len(head) for head in p.key[:, 0]),
    "log_normal": lambda p: np.ptp(np.log2(np.abs(p.value))) > 8 and p.key.min() < 0 < p.key.max(),
    "offset": lambda p: logits(p).min() > 20,
    "tiny_query_key": lambda p: np.abs(logits(p)).max() < 1e-100,
    "one_hot_values": lambda p: rows_with_one_entry(p.value, 1),
    "mixed_magnitudes": lambda p: np.ptp(np.log10(np.abs(p.value).max(-1))) > 3,
    "extreme": lambda p: (np.abs(p.query).max() > 1e149 and np.abs(p.key).max() < 1e-149
                          and np.abs(logits(p)).max() < 20),
    "far_below_zero": lambda p: logits(p).max() < -150,
    "above_88": lambda p: logits(p).min() > 150,
    "cancellation": lambda p: np.abs(logits(p)).max() < 0.1 * magnitude(p).max(),
    "signed_zeros": lambda p: (np.signbit(p.value) & (p.value == 0)).any() and np.abs(p.value).max() == 1,
    "gaussian": lambda p: np.abs(p.query).max() < 7,
    "spread_logits": lambda p: 1.5 < logits(p).std() < 2.5,
    "scale_ladder": lambda p: (p.query[..., 0] == 16).all() and not p.query[..., 1:].any(),
    "faint_weights": lambda p: ((p.value[0, 0].max(-1) > 0) == (logits(p)[0, 0, 0] < -18)).all() and p.value.any(),
    "mask_attack": lambda p: attack_depth(p) == pytest.approx(2e4),
    "mask_attack_far": lambda p: attack_depth(p) == pytest.approx(2e9),
    "zero_query": lambda p: not p.query.any() and rows_with_one_entry(p.value, 1),
    "beyond_float16": lambda p: np.partition(np.abs(logits(p)), -2, axis=-1)[..., -2].min() > 65504,
    "worked_example": lambda p: set(np.unique(logits(p))) == {0, 4096 / np.sqrt(12)},
}


def magnitude(problem: Problem) -> Array:
    """The dot products of absolute entries, scaled as logits are."""
    return logits(problem.but(query=np.abs(problem.query), key=np.abs(problem.key)))


def attack_depth(problem: Problem) -> float:
    """How far the visible logits, all alike, lie below the hidden ones, which are 0."""
    visible = MASKS["attack"].make_array(0, problem.sizes)
    seen = logits(problem)
    assert not seen[~visible].any()
    assert np.ptp(seen[visible]) == 0
    return float(-seen[visible][0])


@pytest.mark.parametrize("family", FAMILIES)
def test_families_keep_their_promises(family: str) -> None:
    assert PROMISES[family](problem_of(family))


@pytest.mark.parametrize("dtype", DType)
def test_tiny_values_are_small_in_the_dtype(dtype: DType) -> None:
    value = np.abs(problem_of("tiny_values", dtype).value.astype(np.float64))
    assert 0 < value.max() < 6 * SMALLEST[dtype]
    assert ((value > 0) & (value < SMALLEST[dtype])).any()


@pytest.mark.parametrize("dtype", DType)
def test_hidden_values_of_the_attack_lie_outside_the_hull_of_visible_ones(dtype: DType) -> None:
    value = problem_of("mask_attack", dtype).value.astype(np.float64)
    visible = value[:, :, :5]
    assert (value[:, :, 5:].min(axis=2) > visible.max(axis=2) + 50).all()


@pytest.mark.parametrize("dtype", DType)
def test_visible_logits_of_the_attack_tie_and_are_far_below_hidden_ones(dtype: DType) -> None:
    # float16: raw dot products reach 2.5e4, whatever the width
    assert attack_depth(problem_of("mask_attack_far", dtype)) > (7e3 if dtype is DType.FLOAT16 else 1.9e9)


@pytest.mark.parametrize(("dtype", "span"), list(zip(DType, (700, 85, 9.5, 85), strict=True)))
def test_the_scale_ladder_spans_the_range_of_exp_and_stays_normal(dtype: DType, span: float) -> None:
    ladder = logits(problem_of("scale_ladder", dtype))
    assert ladder.max() == 0
    assert ladder.min() == pytest.approx(-span, rel=0.01)
    assert np.exp(ladder.min()) > SMALLEST[dtype]
    assert (np.diff(ladder, axis=-1) < 0).all()


@pytest.mark.parametrize("dtype", DType)
def test_the_worked_example_has_the_weights_of_the_note(dtype: DType) -> None:
    scores = logits(problem_of("worked_example", dtype, Sizes(1, 1, 1, 4, 4, 4, 4)))[0, 0]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    assert (weights / weights.sum(axis=-1, keepdims=True)).tolist() == [list(row) for row in WORKED_WEIGHTS]


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.generic])
def test_generic_families_have_full_mantissas(family: str) -> None:
    mantissas = np.frexp(np.abs(problem_of(family, DType.FLOAT32).value))[0] * 2**24
    assert np.count_nonzero(mantissas % 2) > mantissas.size / 4
