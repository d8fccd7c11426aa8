"""MX and NV formats: codes and scales of their own types, blocks of their own length, and a second scale."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised.arrays import GLOBALS, global_scale, hand_over, misfit, scales, storage_dtype
from attnspec.aspects.quantised.keyword import PATTERNS
from attnspec.aspects.quantised.microscaling_faults import MICROSCALING_FAULTS
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe, Sizes
from helpers.codes import CONVENTIONS, SOUND, departs
from helpers.commands import Cli

SIZES = Sizes(2, 4, 2, 5, 40, 40, 40)
BLOCKED = tuple(name for name, storage in STORAGES.items() if storage.block)
OF_BLOCKS = tuple(pattern for pattern in PATTERNS if pattern.split("/")[0] in BLOCKED)


def posed(pattern: str, *, second: bool = False, sizes: str = "B1,H4,Hkv2,T5,S40,D40,Dv40") -> Problem:
    """A problem with codes for all three arrays, of one pattern, with second scales or without."""
    arrays = ("query", "key", "value")
    values = {f"{array}_scale": pattern for array in arrays}
    values |= {f"{array}_global_scale": "odd" for array in arrays} if second else {}
    text = f"{sizes};mask=none;families=normal;with={'+'.join(values)};"
    text += ";".join(f"{name}={value}" for name, value in values.items())
    return make_problem(Recipe.parse(f"{text};seed=5"), DType.FLOAT32)


@pytest.mark.parametrize("pattern", OF_BLOCKS)
def test_scales_are_numbers_of_the_type_that_stores_them(pattern: str) -> None:
    made = scales("value_scale", pattern, 3, SIZES)
    stored = made.astype(storage_dtype(STORAGES[pattern.split("/", maxsplit=1)[0]].scales))
    np.testing.assert_array_equal(stored.astype(np.float32), made)


def test_formats_with_exponents_for_scales_have_powers_of_two_alone() -> None:
    kinds = {name: {pattern.split("/")[2] for pattern in OF_BLOCKS if pattern.startswith(name)} for name in BLOCKED}
    assert kinds["mxfp8"] == kinds["mxfp4"] == {"powers", "ones"}
    assert kinds["nvfp4"] == {"powers", "odd", "ones", "with_zero"}


@pytest.mark.parametrize(("storage", "code", "scale", "shape"), [
    ("mxfp8", "float8_e4m3fn", "float8_e8m0fnu", (1, 2, 40, 2)),
    ("mxfp4", "float4_e2m1fn", "float8_e8m0fnu", (1, 2, 40, 2)),
    ("nvfp4", "float4_e2m1fn", "float8_e4m3fn", (1, 2, 40, 3))])
def test_codes_and_scales_are_handed_over_in_their_types(storage: str, code: str, scale: str,
                                                         shape: tuple[int, ...]) -> None:
    problem = posed(f"{storage}/block({STORAGES[storage].block})/powers", second=True)
    given = {"key_scale": problem.key_scale, "key_global_scale": problem.key_global_scale}
    arrays, keywords = hand_over({"key": problem.key}, given, Limits(stored_key=storage))
    assert arrays["key"].dtype.name == code
    assert (np.asarray(keywords["key_scale"]).dtype.name, np.asarray(keywords["key_scale"]).shape) == (scale, shape)
    assert np.asarray(keywords["key_global_scale"]).shape == ()
    np.testing.assert_array_equal(arrays["key"].astype(np.float32), problem.key)


def test_scales_that_the_format_cannot_hold_are_not_put() -> None:
    problem = posed("nvfp4/block(16)/odd")
    limits = Limits(stored_key="mxfp4", key_scales="channel_tokens(32)")
    assert misfit(problem, limits).startswith("the scales of its key differ")
    assert problem.key_scale is not None
    fine = problem.but(key_scale=np.full_like(problem.key_scale, 1.5))
    assert misfit(fine, limits) == "float8_e8m0fnu cannot hold the scales of its key"


def test_zero_points_are_not_put_beside_a_format_that_has_none() -> None:
    problem = posed("mxfp8/block(32)/powers")
    limits = Limits(stored_key="mxfp8")
    assert misfit(problem, limits) == ""
    beside = problem.but(key_zero=np.zeros((1, 1, 1, 1), np.float32))
    assert misfit(beside, limits) == "mxfp8 has no zero points, and its key would come with some"


@pytest.mark.parametrize("pattern", ["odd", "power"])
def test_a_second_scale_is_one_number_other_than_1(pattern: str) -> None:
    for keyword in GLOBALS:
        made = global_scale(keyword, pattern, 3, SIZES)
        assert (made == made.flat[0]).all()
        assert made.flat[0] != 1


def test_the_truth_is_code_times_scale_times_second_scale() -> None:
    problem = posed("nvfp4/block(16)/odd", second=True)
    arrays = {name: getattr(problem, name).astype(np.float64) * getattr(problem, f"{name}_scale")
              * getattr(problem, f"{name}_global_scale").astype(np.float64) for name in ("query", "key", "value")}
    plain = problem.but(**arrays, **{f"{name}_{word}": None for name in arrays for word in ("scale", "global_scale")})
    quantised, written_out = (expect(each, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS)
                              for each in (problem, plain))
    np.testing.assert_array_equal(quantised.output, written_out.output)
    assert (quantised.output_allowance > written_out.output_allowance).all()
    assert (quantised.output_allowance < 2 * written_out.output_allowance).all()


def test_code_times_both_scales_is_exact_in_float64() -> None:
    problem = posed("nvfp4/block(16)/odd", second=True)
    assert problem.value_scale is not None
    assert problem.value_global_scale is not None
    for code, scale, second in zip(problem.value.ravel()[:100], problem.value_scale.ravel(),
                                   problem.value_global_scale.ravel(), strict=False):
        exact = Fraction(float(code)) * Fraction(float(scale)) * Fraction(float(second))
        assert Fraction(float(code) * float(scale) * float(second)) == exact


def calls() -> Iterator[Problem]:
    """Problems of every microscaling format, with second scales and without."""
    for pattern in (each for each in OF_BLOCKS if each.endswith(("powers", "odd"))):
        for sizes in ("B1,H4,Hkv2,T5,S40,D40,Dv40", "B2,H2,Hkv2,T1,S33,D33,Dv48"):
            for second in (False, True):
                yield posed(pattern, second=second, sizes=sizes)


@pytest.mark.parametrize("fault", MICROSCALING_FAULTS, ids=lambda fault: fault.name)
def test_each_fault_of_microscaling_departs_beyond_rounding(fault: Fault) -> None:
    attend = fault.function
    assert any(departs(attend, problem) for problem in calls())


@pytest.mark.parametrize("formulation", SOUND, ids=lambda each: each.name)
def test_right_formulations_of_microscaling_stay_within_rounding(formulation: SoundFormulation) -> None:
    attend = formulation.make()
    assert not any(departs(attend, problem) for problem in calls())


CODES = '''
import numpy as np

def attend(query, key, value, key_scale=None, value_scale=None, key_global_scale=None, value_global_scale=None):
    def heads(codes, scale, second):
        numbers = codes.astype(np.float32)
        if scale is not None:
            numbers = numbers * np.repeat(scale.astype(np.float32), 16, axis=-1)[..., :codes.shape[-1]]
        numbers = numbers if second is None else numbers * {0}
        return np.repeat(numbers, query.shape[1] // codes.shape[1], axis=1)

    logits = query @ heads(key, key_scale, key_global_scale).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ heads(value, value_scale, value_global_scale)).astype(np.float32)

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "nvfp4"
attend.key_scales = "{1}"
'''


def test_a_function_of_nvfp4_conforms(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("second", "block(16)"), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 0, out


def test_a_second_scale_that_is_squared_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("second ** 2", "block(16)"), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.second_value_scale")
    assert code == 1
    assert "value_global_scale_twice" in out


def test_a_format_has_no_scales_by_head(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("second", "head"), encoding="utf-8")
    code, out, err = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 2
    assert "nvfp4 has a scale for each 16 neighbours: write block(16) or channel_tokens(16)." in out + err
