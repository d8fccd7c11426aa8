"""Rotary embeddings: how their problems are made, what the definition answers, and how far rounding may take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np
import pytest
from attnspec.aspects.rotary import words as rotary
from attnspec.aspects.rotary.formulations import FORMULATIONS
from attnspec.core.dtype import DTYPES
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.forms import FARTHEST, POSITION_PATTERNS, POSITIONS, WIDTH_PATTERNS, PositionPattern, width_of
from attnspec.core.nouns import DType
from attnspec.faults.subject import own_subject
from attnspec.numerics.precision import Precision, declared_precision
from attnspec.numerics.rotary import (
    EXP_ULPS,
    LOG_ULPS,
    ROTARY_PAIRS,
    angle_error,
    expect_rotary,
    frequency_error,
    norm_allowance,
    split_pairs,
)
from attnspec.problems.domain import domain
from attnspec.problems.make import RotaryProblem, make_rotary
from attnspec.problems.problem import Array, Recipe
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn

HALVES: Mapping[str, str] = {ROTARY_PAIRS: "halves"}
SIZES = "B3,H2,Hkv2,T5,S5,D8,Dv8"


def problem(positions: str = "scattered", more: str = "", dtype: DType = DType.FLOAT32, *, sizes: str = SIZES,
            width: str = "half", families: str = "normal", seed: int = 3) -> RotaryProblem:
    used = sorted({*more.split(), "positions"})
    values = {"positions": f"positions={positions};", "base": "base=500000.0;",
              "rotary_width": f"rotary_width={width};"}
    text = (f"{sizes};mask=none;families={families};with={'+'.join(used)};"
            f"{''.join(values.get(each, '') for each in used)}seed={seed}")
    return make_rotary(Recipe.parse(text), dtype)


def class_of(dtype: DType, **words: object) -> Precision:
    return declared_precision({"grade": "G0", "reason": "test", **words} if words else None, dtype)


# Problems


@pytest.mark.parametrize("pattern", POSITION_PATTERNS)
def test_places_are_int32_for_each_token_and_never_beyond_the_farthest(pattern: PositionPattern) -> None:
    made = problem(pattern).positions
    assert made.dtype == np.int32
    assert made.shape == (3, 5)
    assert 0 <= made.min() <= made.max() <= FARTHEST


def test_places_are_made_as_their_pattern_says() -> None:
    counted, offset, far, packed = (problem(name).positions for name in ("counted", "offset", "far", "packed"))
    assert (counted == np.arange(5)).all()
    assert (problem("zero").positions == 0).all()
    assert (np.diff(offset) == 1).all()
    assert len(set(offset[:, 0])) == 3
    assert (np.diff(far) == 1).all()
    assert far[0, -1] == FARTHEST
    assert far[1:, -1].min() > FARTHEST * 7 // 8
    assert all((np.diff(row) == 1).sum() >= 3 and row[0] == 0 for row in packed)
    assert (packed[:, 1:] == 0).any()


def test_the_angle_of_the_first_pair_is_that_of_the_definition() -> None:
    made = problem("counted")
    angle = np.broadcast_to(made.positions[:, None, :, None].astype(float), (3, 1, 5, made.width // 2))
    error = angle_error(made, angle, class_of(DType.FLOAT32))
    assert error[..., 0].max() < 1e-30  # what a subnormal number may lose
    assert (error[:, :, 1:, 1:] > 1e-9).all()


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_a_frequency_may_be_an_exponential_of_a_logarithm(base: float) -> None:
    precision = class_of(DType.FLOAT32)
    u = DTYPES[precision.angle].roundoff
    exponent = np.arange(0, 8, 2) / 8
    logarithm = np.log(base) * (1 + 2 * LOG_ULPS * u)
    worst = np.exp(exponent * (1 + u) * logarithm * (1 + u)) * (1 + 2 * EXP_ULPS * u)
    assert (worst[1:] / base ** exponent[1:] - 1 <= frequency_error(base, 8, precision)[1:]).all()


def test_scattered_places_are_in_no_order_and_differ_between_entries() -> None:
    made = problem("scattered").positions
    assert (np.diff(made) < 0).any()
    assert (made[0] != made[1]).all()


@pytest.mark.parametrize(("pattern", "widths"), [
    ("half", (2, 2, 2, 4)), ("two", (2, 2, 2, 2)), ("all_but_two", (2, 2, 4, 6)), ("all", (2, 4, 6, 8))])
def test_widths_are_even_and_as_their_pattern_says(pattern: str, widths: tuple[int, ...]) -> None:
    assert tuple(width_of(pattern, D) for D in (2, 4, 6, 8)) == widths
    assert pattern in WIDTH_PATTERNS


def test_a_keyword_that_is_not_in_use_is_not_given() -> None:
    assert problem().given.keys() == {POSITIONS}
    assert problem(more="base rotary_width interleaved").given == {
        POSITIONS: pytest.approx(problem().positions), "base": 500000.0, "rotary_width": 4, "interleaved": True}


@pytest.mark.parametrize(("lists", "message"), [
    ({"bases": [1.0]}, "a base is above 1, not 1"),
    ({"position_patterns": ["fa"]}, "'fa' is not a known pattern of positions")])
def test_a_clause_with_values_that_there_are_not_is_refused(lists: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        domain(kind="rotary", **lists)


def test_a_recipe_with_a_base_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"base should be a number above 1, not '0\.5'"):
        Recipe.parse(f"{SIZES};mask=none;families=normal;with=base+positions;base=0.5;positions=zero;seed=1")


def test_keywords_of_attention_and_of_rotary_embeddings_are_not_mixed() -> None:
    with pytest.raises(SpecError, match="mask"):
        domain(kind="rotary", sometimes=["mask"])
    with pytest.raises(SpecError, match="interleaved"):
        domain(sometimes=["interleaved"])


# The definition


def _in_fifty_digits(made: RotaryProblem, at: tuple[int, int, int], pair: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Both features of a pair of a token, turned."""
    with mpmath.workdps(50):
        b, h, t = at
        place, base = mpmath.mpf(int(made.positions[b, t])), mpmath.mpf(made.base or 10000.0)
        angle = place * mpmath.power(base, -mpmath.mpf(2 * pair) / made.width)
        one, two = ((2 * pair, 2 * pair + 1) if made.interleaved else (pair, pair + made.width // 2))
        first, second = (mpmath.mpf(float(made.x[b, h, t, each])) for each in (one, two))
        return (first * mpmath.cos(angle) - second * mpmath.sin(angle),
                second * mpmath.cos(angle) + first * mpmath.sin(angle))


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
@pytest.mark.parametrize("more", ["", "base interleaved", "rotary_width", "base interleaved rotary_width"])
@pytest.mark.parametrize("positions", ["scattered", "far"])
def test_the_truth_agrees_with_fifty_digits(positions: str, more: str, dtype: DType) -> None:
    made = problem(positions, more, dtype)
    # that of float32 is computed in float64, that of float64 in long double
    roundoff = float(np.finfo(np.float64 if dtype is DType.FLOAT32 else np.longdouble).eps)
    truth = expect_rotary(made, class_of(dtype), conventions=HALVES).output
    turned = split_pairs(truth, made.width, interleaved=made.interleaved)
    for at in np.ndindex(*truth.shape[:3]):
        for pair in range(made.width // 2):
            exact = _in_fifty_digits(made, at, pair)
            off = (abs(float(mpmath.mpf(str(got[at][pair])) - want)) for got, want in zip(turned, exact, strict=True))
            assert max(off) <= 8 * roundoff * max(1, int(made.positions.max()))


def test_what_is_beyond_the_width_is_returned_and_nothing_is_allowed() -> None:
    made = problem("far", "rotary_width")
    expected = expect_rotary(made, class_of(made.dtype), conventions=HALVES)
    np.testing.assert_array_equal(expected.output[..., made.width:], made.x[..., made.width:])
    assert not expected.output_allowance[..., made.width:].any()
    assert (expected.output_allowance[..., :made.width] > 0).all()


def test_pairs_lie_as_the_flag_or_the_convention_says() -> None:
    made = problem()
    asked = expect_rotary(made.but(interleaved=True), class_of(made.dtype), conventions=HALVES).output
    held = expect_rotary(made, class_of(made.dtype), conventions={ROTARY_PAIRS: "interleaved"}).output
    np.testing.assert_array_equal(asked, held)
    assert (asked != expect_rotary(made, class_of(made.dtype), conventions=HALVES).output).any()


def test_rows_that_may_overflow_are_not_claimed() -> None:
    made = problem(dtype=DType.FLOAT16)
    large = made.x.copy()
    large[0, 0, 0, 0] = 60000
    claimed = expect_rotary(made.but(x=large), class_of(made.dtype), conventions=HALVES).claimed
    assert not claimed[0, 0, 0]
    assert claimed.sum() == claimed.size - 1


# The bound


def worst(name: str, made: RotaryProblem, precision: Precision) -> float:
    """How much of the allowance a sound formulation takes."""
    expected = expect_rotary(made, precision, conventions=HALVES)
    error = np.abs(own_subject(f"sound/{name}").answer(made).output.astype(np.longdouble) - expected.output)
    off = error[expected.claimed], expected.output_allowance[expected.claimed]
    assert not off[0][off[1] == 0].any()
    return float(np.max(np.divide(*off, out=np.zeros_like(off[0]), where=off[1] > 0)))


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize(("name", "grade"), [(each.name, each.grade) for each in FORMULATIONS])
def test_sound_rotary_formulations_stay_within_the_bound(name: str, grade: str, dtype: DType) -> None:
    precision = declared_precision({"grade": grade} if dtype in {DType.FLOAT16, DType.BFLOAT16} else None, dtype)
    used = max(worst(name, problem(positions, more, dtype, sizes="B3,H2,Hkv2,T33,S33,D24,Dv24", seed=seed,
                                          families=families), precision)
               for seed, (positions, families) in enumerate((each, family) for each in POSITION_PATTERNS
                                                            for family in ("normal", "mixed_magnitudes"))
               for more in ("", "base interleaved", "rotary_width"))
    assert used <= 1


@pytest.mark.parametrize(("positions", "place"), [("counted", 4), ("far", FARTHEST)])
def test_the_allowance_grows_with_the_angle_and_its_format(positions: str, place: int) -> None:
    made = problem(positions)
    most = np.abs(made.x).max()
    narrow, wide = (expect_rotary(made, class_of(made.dtype, angle=angle), conventions=HALVES).output_allowance.max()
                    for angle in ("float32", "float64"))
    assert wide < narrow
    assert 2.0**-24 * place < narrow / most < 2.0**-17 * place


def test_at_place_zero_only_cosine_and_sine_cost_anything() -> None:
    made = problem("zero")
    allowance = expect_rotary(made, class_of(made.dtype), conventions=HALVES).output_allowance
    assert allowance.max() < 2.0**-19 * np.abs(made.x).max()


def test_the_first_pair_is_judged_as_sharply_far_away_as_near_by() -> None:
    made = problem("zero")
    near, far = (expect_rotary(made.but(positions=made.positions + place), class_of(made.dtype), conventions=HALVES)
                 .output_allowance.max(axis=(0, 1, 2)) for place in (1, FARTHEST))
    assert (far[[0, 4]] < 2 * near[[0, 4]]).all()
    assert (far[[1, 5]] > 1000 * near[[1, 5]]).all()


def test_of_a_far_angle_a_norm_costs_nothing() -> None:
    made = problem("far")
    of_norm = norm_allowance(made, class_of(made.dtype), HALVES).max()
    assert of_norm < 2.0**-18 * np.abs(made.x).max()
    assert of_norm == norm_allowance(made.but(positions=0 * made.positions), class_of(made.dtype), HALVES).max()


# The words


def test_shifting_moves_every_token_alike_and_none_too_far() -> None:
    made = problem("offset")
    after = rotary.shift_places(Posed((made,)), by=1021).one
    assert (after.positions - made.positions == 1021).all()
    with pytest.raises(NoClaim, match="a place would lie beyond the farthest that is put"):
        rotary.shift_places(Posed((problem("far"),)), by=1)


@pytest.mark.parametrize(("along", "count", "taken"), [
    ("batch", 3, lambda made, at: (made.x[at:at + 1], made.positions[at:at + 1])),
    ("heads", 2, lambda made, at: (made.x[:, at:at + 1], made.positions)),
    ("tokens", 5, lambda made, at: (made.x[:, :, at:at + 1], made.positions[:, at:at + 1]))])
def test_each_part_has_its_own_places(along: rotary.Along, count: int,
                                      taken: Callable[[RotaryProblem, int], tuple[Array, Array]]) -> None:
    made = problem()
    parts = rotary.one_at_a_time(Posed((made,)), along=along).parts
    assert len(parts) == count
    for at, part in enumerate(parts):
        x, positions = taken(made, at)
        np.testing.assert_array_equal(part.x, x)
        np.testing.assert_array_equal(part.positions, positions)


def test_tokens_in_another_order_take_their_places_along() -> None:
    made = problem()
    after = rotary.reorder(Posed((made,)), along="tokens", by=Drawn(5)).one
    order = [int(np.flatnonzero(made.positions[0] == place)[0]) for place in after.positions[0]]
    assert order != [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(after.x, made.x[:, :, order])
    np.testing.assert_array_equal(after.positions, made.positions[:, order])
