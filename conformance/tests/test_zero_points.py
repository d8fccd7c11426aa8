"""Zero points: they are taken off codes before or behind their scales, in any order that the bound allows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised import mistakes_beside, mistakes_of_forms
from attnspec.aspects.quantised.arrays import ZEROS, hand_over, misfit, zero_points
from attnspec.aspects.quantised.faults import MISTAKES
from attnspec.aspects.quantised.gradient_faults import GRADIENT_FAULTS
from attnspec.aspects.quantised.keyword import ZERO_PATTERNS
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from helpers.codes import CONVENTIONS, SOUND, departs
from helpers.commands import Cli

SIZES = Sizes(2, 4, 2, 5, 7, 6, 3)
WHOLE = tuple(name for name, storage in STORAGES.items() if storage.is_whole)
RECIPE = "B2,H4,Hkv2,T{0},S7,D6,Dv3;mask={1};families=normal;with={2};{3};seed=5"


def posed(pattern: str, zero: str, *, queries: int = 5, mask: str = "none", more: str = "") -> Problem:
    """A problem with codes, scales and zero points for all three arrays, of one pattern each."""
    names = [f"{array}_{word}" for array in ("query", "key", "value") for word in ("scale", "zero")]
    values = ";".join(f"{name}={zero if name in ZEROS else pattern}" for name in names)
    keywords = "+".join(filter(None, [*names, more, "mask" if mask != "none" else ""]))
    return make_problem(Recipe.parse(RECIPE.format(queries, mask, keywords, values)), DType.FLOAT32)


def given_zero(problem: Problem, array: str) -> Array:
    """The zero points of an array (B,H,S,D)."""
    zero = getattr(problem, f"{array}_zero")
    assert isinstance(zero, np.ndarray)
    return zero


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("pattern", ["spread", "extreme", "none"])
def test_whole_zero_points_are_codes_of_their_storage(name: str, pattern: str) -> None:
    made = zero_points("value_zero", pattern, f"{name}/token/odd", 3, SIZES)
    assert made.shape == (2, 2, 7, 3)
    if pattern != "none":
        assert ((made >= STORAGES[name].lowest) & (made <= STORAGES[name].largest)).all()
        assert (made[:, :, 1:, 0] != made[:, :, :-1, 0]).all()  # neighbours differ
    np.testing.assert_array_equal(made, np.rint(made))


@pytest.mark.parametrize("name", WHOLE)
def test_zero_points_with_eighths_are_no_codes(name: str) -> None:
    made = zero_points("value_zero", "fraction", f"{name}/head/odd", 3, SIZES)
    assert (made != np.rint(made)).all()
    np.testing.assert_array_equal(made * 8, np.rint(made * 8))


@pytest.mark.parametrize("granularity", ["head", "token", "channel"])
def test_zero_points_have_the_granularity_of_the_scales(granularity: str) -> None:
    problem = posed(f"uint8/{granularity}/odd", "spread")
    for array in ("query", "key", "value"):
        scale, zero = getattr(problem, f"{array}_scale"), given_zero(problem, array)
        for axis in range(4):
            assert (scale != scale.take([0], axis)).any() == (zero != zero.take([0], axis)).any()


@pytest.mark.parametrize("name", WHOLE)
def test_numbers_of_either_sign_attend_where_codes_have_a_zero_point(name: str) -> None:
    problem = posed(f"{name}/token/odd", "spread")
    numbers = problem.value.astype(np.float64) - given_zero(problem, "value")
    assert (numbers > 0).any()
    assert (numbers < 0).any()


def test_the_truth_is_attention_of_codes_less_zero_points_times_scales() -> None:
    problem = posed("uint8/token/odd", "fraction").but(query_scale=None, query_zero=None)
    arrays = {array: (getattr(problem, array).astype(np.float64) - given_zero(problem, array))
              * getattr(problem, f"{array}_scale") for array in ("key", "value")}
    plain = problem.but(**arrays, **{f"{array}_{word}": None for array in arrays for word in ("scale", "zero")})
    quantised, written_out = (expect(each, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS)
                              for each in (problem, plain))
    np.testing.assert_array_equal(quantised.output, written_out.output)
    assert (quantised.output_allowance > written_out.output_allowance).all()
    assert problem.value_scale is not None
    assert quantised.output_allowance.max() < problem.value_scale.min() / 10  # next to nothing of a step of the codes


def test_code_less_zero_point_times_scale_is_exact_in_float64() -> None:
    problem = posed("uint8/token/odd", "fraction")
    assert problem.value_scale is not None
    for code, zero, scale in zip(*(array.ravel()[:100] for array in (
            problem.value, given_zero(problem, "value"), problem.value_scale)), strict=True):
        exact = (Fraction(float(code)) - Fraction(float(zero))) * Fraction(float(scale))
        assert Fraction((float(code) - float(zero)) * float(scale)) == exact


@pytest.mark.parametrize(("zeros", "dtype"), [("codes", "uint8"), ("float32", "float32")])
def test_zero_points_are_handed_over_in_the_declared_format(zeros: str, dtype: str) -> None:
    problem = posed("uint8/token/odd", "spread")
    limits = Limits(stored_key="uint8", key_scales="token", zeros=zeros)
    given = {"key_scale": problem.key_scale, "key_zero": problem.key_zero}
    _, keywords = hand_over({"key": problem.key}, given, limits)
    assert np.asarray(keywords["key_zero"]).dtype.name == dtype
    assert np.asarray(keywords["key_zero"]).shape == np.asarray(keywords["key_scale"]).shape == (2, 2, 7)


def test_zero_points_that_are_no_codes_are_not_put_where_they_are_to_be() -> None:
    problem = posed("uint8/token/odd", "fraction")
    limits = Limits(stored_key="uint8", key_scales="token", zeros="codes")
    assert misfit(problem, limits) == "uint8 cannot hold the zero points of its key"
    assert limits.misfit("key_zero", "fraction", causal=False) == "only zero points that are codes"
    assert not limits.misfit("key_zero", "spread", causal=False)


def test_zero_points_differ_only_as_the_scales_may() -> None:
    problem = posed("uint8/token/odd", "spread")
    assert problem.key_scale is not None
    alike = problem.but(key_scale=np.ones_like(problem.key_scale))
    assert misfit(alike, Limits(key_scales="head")) == "the zero points of its key differ not only by head"


# those that show in another form, or behind a past, are in test_codes_in_forms.py and test_quantised_cache.py
_ELSEWHERE = (*mistakes_beside.FAULTS, *mistakes_of_forms.FAULTS, *GRADIENT_FAULTS)
FAULTS = {fault.name: fault for keyword in ZEROS for fault in MISTAKES.about[keyword] if fault not in _ELSEWHERE}


def calls(name: str = "") -> Iterator[Problem]:
    """Problems of every whole storage with zero points of every kind, beside a mask and the causal flag, too."""
    few = ("head", "channel") if "channel" in name or "head" in name else ("token", "batch_head")
    for storage in WHOLE:
        for granularity in few:
            for zero in ZERO_PATTERNS:
                for queries, mask, more in ((5, "none", ""), (5, "random", "causal"), (1, "none", "")):
                    yield posed(f"{storage}/{granularity}/odd", zero, queries=queries, mask=mask, more=more)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_zero_points_departs_beyond_rounding(name: str) -> None:
    fault: Fault = FAULTS[name]
    attend = fault.function
    by_token = name.startswith("key_zero")  # what all keys share moves no weight
    assert any(departs(attend, problem) for problem in calls("" if by_token else name))


@pytest.mark.parametrize("formulation", SOUND, ids=lambda each: each.name)
def test_right_formulations_with_zero_points_stay_within_rounding(formulation: SoundFormulation) -> None:
    attend = formulation.make()
    assert not any(departs(attend, problem) for name in ("", "head") for problem in calls(name))


CODES = '''
import numpy as np

def attend(query, key, value, key_scale=None, value_scale=None, key_zero=None, value_zero=None):
    def heads(codes, scale, zero):
        numbers = codes.astype(np.float32)
        numbers = numbers if zero is None else {0}
        numbers = numbers if scale is None else numbers * scale[..., None]
        return np.repeat(numbers, query.shape[1] // codes.shape[1], axis=1)

    logits = query @ heads(key, key_scale, key_zero).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ heads(value, value_scale, value_zero)).astype(np.float32)

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "uint8"
attend.key_scales = attend.value_scales = "token"
attend.zeros = "codes"
'''


def test_a_function_of_unsigned_codes_conforms(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("numbers - zero[..., None].astype(np.float32)"), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 0, out


def test_a_zero_point_that_is_added_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("numbers + zero[..., None].astype(np.float32)"), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.value_zeros")
    assert code == 1
    assert "value_zero_added" in out


def test_a_format_of_zero_points_that_is_none_gets_those_that_are(cli: Cli, tmp_path: Path) -> None:
    wrong = CODES.format("numbers - zero[..., None]").replace('zeros = "codes"', 'zeros = "code"')
    (tmp_path / "mine.py").write_text(wrong, encoding="utf-8")
    code, out, err = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 2
    assert "'code' is not a known format of zero points. Did you mean 'codes'?" in out + err
