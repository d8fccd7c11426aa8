"""Quantised attention: codes are what their storage holds, code times scale is the truth, and the bound is sharp."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from attnspec.aspects.quantised import mistakes_beside, mistakes_of_forms
from attnspec.aspects.quantised.arrays import (
    GLOBALS,
    NAMES,
    ZEROS,
    codes_of,
    hand_over,
    holds,
    misfit,
    round_to,
    scales,
    storage_dtype,
)
from attnspec.aspects.quantised.block_faults import BLOCK_FAULTS
from attnspec.aspects.quantised.faults import MISTAKES
from attnspec.aspects.quantised.gradient_faults import GRADIENT_FAULTS
from attnspec.aspects.quantised.keyword import PATTERNS, USUAL, parts_of
from attnspec.aspects.quantised.microscaling_faults import MICROSCALING_FAULTS
from attnspec.aspects.quantised.nibble_faults import NIBBLE_FAULTS
from attnspec.aspects.quantised.storage import GRANULARITIES, STORAGES, UNBLOCKED
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from helpers.codes import SOUND, departs
from helpers.commands import Cli
from helpers.places import CHECKOUT

SIZES = Sizes(2, 4, 2, 5, 7, 6, 3)
RECIPE = ("B2,H4,Hkv2,T5,S7,D6,Dv3;mask=none;families=normal;with=key_scale+value_scale;"
          "key_scale={0};value_scale={0};seed=11")


def posed(pattern: str, dtype: DType = DType.FLOAT32) -> Problem:
    """A problem with codes for keys and values, both of one pattern."""
    return make_problem(Recipe.parse(RECIPE.format(pattern)), dtype)


def given_scales(problem: Problem) -> tuple[Array, Array]:
    """The scales of keys (B,Hkv,S,D) and of values (B,Hkv,S,Dv)."""
    assert problem.key_scale is not None
    assert problem.value_scale is not None
    return problem.key_scale, problem.value_scale


@pytest.mark.parametrize("name", STORAGES)
def test_rounding_to_a_storage_is_what_ml_dtypes_does(name: str) -> None:
    random = np.random.RandomState(1)
    numbers = np.concatenate([random.randn(4000) * 10.0 ** random.randint(-6, 6, 4000), [0.0, 448, 464, 57344, -128]])
    numbers = np.clip(numbers.astype(np.float32), STORAGES[name].lowest, STORAGES[name].largest)
    whole = np.rint(numbers) if STORAGES[name].is_whole else numbers
    stored = whole.astype(storage_dtype(STORAGES[name].code_type)).astype(np.float64)
    np.testing.assert_array_equal(round_to(STORAGES[name], numbers.astype(np.float64)), stored)


@pytest.mark.parametrize("name", STORAGES)
def test_every_code_of_a_storage_is_held_and_its_neighbours_are_not(name: str) -> None:
    bits = np.arange(256, dtype=np.uint8)
    storage = STORAGES[name]
    codes = (bits[:16] if storage.is_nibble else bits).view(storage_dtype(storage.code_type)).astype(np.float64)
    finite = codes[np.isfinite(codes)]
    assert holds(STORAGES[name], finite)
    between = (np.unique(finite)[1:] + np.unique(finite)[:-1]) / 2
    assert not any(holds(STORAGES[name], each[None]) for each in between)
    assert not holds(STORAGES[name], np.array([STORAGES[name].largest * 2]))


def test_only_formats_of_floating_point_hold_nan() -> None:
    held = {name for name, storage in STORAGES.items() if holds(storage, np.array([np.nan, 1.0]))}
    assert held == {"float8_e4m3fn", "float8_e5m2", "mxfp8"}


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", STORAGES)
def test_codes_are_codes_in_every_dtype_and_reach_both_ends(name: str, dtype: DType) -> None:
    entries = np.random.RandomState(0).randn(60, 60)
    pattern = next(each for each in USUAL if parts_of(each)[0] == name)
    codes = codes_of(entries, pattern, 5, "key", dtype).astype(np.float64)
    assert holds(STORAGES[name], codes)
    assert (codes > 0).any()
    assert (codes < 0).any() != STORAGES[name].is_unsigned
    assert (codes.min(), codes.max()) == (STORAGES[name].lowest, STORAGES[name].largest)
    if not STORAGES[name].is_whole:
        assert np.abs(codes[codes != 0]).min() <= 2.0 ** (STORAGES[name].least + 2)


@pytest.mark.parametrize(("granularity", "axes"), [
    ("tensor", ()), ("batch", (0,)), ("head", (1,)), ("batch_head", (0, 1)), ("token", (0, 1, 2)), ("channel", (1, 3))])
def test_scales_differ_along_the_axes_of_their_granularity_alone(granularity: str, axes: tuple[int, ...]) -> None:
    made = scales("key_scale", f"int8/{granularity}/odd", 3, SIZES)
    assert made.shape == (2, 2, 7, 6)
    differing = tuple(axis for axis in range(4) if (made != made.take([0], axis)).any())
    assert differing == axes


@pytest.mark.parametrize("kind", ["powers", "odd"])
def test_neighbouring_heads_never_share_a_scale(kind: str) -> None:
    made = scales("key_scale", f"int8/head/{kind}", 3, Sizes(1, 8, 8, 1, 1, 1, 1))[0, :, 0, 0]
    assert all(one != other for one, other in itertools.pairwise(made))


def test_scales_of_powers_of_two_are_powers_of_two() -> None:
    assert set(np.frexp(scales("value_scale", "float8_e5m2/token/powers", 3, SIZES))[0].ravel()) == {0.5}


@pytest.mark.parametrize("pattern", ["int8/head/odd", "float8_e4m3fn/token/odd", "int4/channel/powers"])
def test_the_truth_is_attention_of_codes_times_scales(pattern: str) -> None:
    problem = posed(pattern)
    key_scale, value_scale = given_scales(problem)
    plain = problem.but(key=problem.key.astype(np.float64) * key_scale,
                        value=problem.value.astype(np.float64) * value_scale, key_scale=None, value_scale=None)
    conventions = {"grouped_heads": "repeat"}
    quantised, written_out = (expect(each, assumed_precision(DType.FLOAT32), conventions=conventions)
                              for each in (problem, plain))
    np.testing.assert_array_equal(quantised.output, written_out.output)
    assert (quantised.output_allowance > written_out.output_allowance).all()  # two roundings a scale more
    assert (quantised.output_allowance < 1.5 * written_out.output_allowance).all()


def test_code_times_scale_is_exact_in_float64() -> None:
    problem = posed("float8_e5m2/token/odd")
    for code, scale in zip(problem.key.ravel()[:200], given_scales(problem)[0].ravel(), strict=False):
        assert Fraction(float(code) * float(scale)) == Fraction(float(code)) * Fraction(float(scale))


def test_codes_are_handed_over_in_their_storage_and_scales_in_their_shape() -> None:
    problem = posed("int8/head/odd")
    limits = Limits(stored_key="int8", stored_value="int8", key_scales="head", value_scales="batch_head")
    arrays, keywords = hand_over({"query": problem.query, "key": problem.key, "value": problem.value},
                                 {"key_scale": problem.key_scale, "value_scale": problem.value_scale}, limits)
    assert [each.dtype.name for each in arrays.values()] == ["float32", "int8", "int8"]
    assert [np.asarray(each).shape for each in keywords.values()] == [(2,), (2, 2)]
    _, bare = hand_over({}, {"key_scale": problem.key_scale}, Limits())
    assert np.asarray(bare["key_scale"]).shape == (1, 2, 1, 1)


def test_what_a_storage_cannot_hold_is_not_put() -> None:
    problem = posed("float8_e4m3fn/head/odd")
    assert misfit(problem, Limits(stored_key="int8")) == "int8 cannot hold the entries of its key"
    assert misfit(problem, Limits(key_scales="tensor")) == "the scales of its key differ not only by tensor"
    assert not misfit(problem, Limits(stored_key="float8_e4m3fn", key_scales="head"))


def test_usual_patterns_have_every_storage_and_granularity() -> None:
    every = {(name, shared) for name, storage in STORAGES.items() for shared in storage.granularities}
    assert {parts_of(pattern)[:2] for pattern in USUAL} == every
    assert {shared for _, shared in every} == set(GRANULARITIES)
    assert set(USUAL) < PATTERNS.keys()


def test_there_are_sixty_faults_and_more_and_each_names_its_array() -> None:
    faults = [fault for table in MISTAKES.about.values() for fault in table]
    assert len(faults) >= 60
    assert {fault.stage for fault in faults} == {*NAMES, *ZEROS, *GLOBALS}
    assert len({fault.name for fault in faults}) == len(faults)


# these have tests of their own
_ELSEWHERE = (*BLOCK_FAULTS, *NIBBLE_FAULTS, *MICROSCALING_FAULTS, *mistakes_beside.FAULTS, *mistakes_of_forms.FAULTS,
              *GRADIENT_FAULTS)
FAULTS = {fault.name: fault for keyword in NAMES for fault in MISTAKES.about[keyword] if fault not in _ELSEWHERE}
CALLS = ("mask=none;families=normal;with={0};{1};seed=5", "mask=random;families=normal;with=mask+{0};{1};seed=6",
         "mask=none;families=normal;with=bias+causal+{0};bias=normal;{1};seed=7",
         "mask=none;families=normal;with=scale+{0};scale=0.3;{1};seed=8")


def calls(fault: Fault) -> Iterator[Problem]:
    """Problems of every storage and granularity that have the scale which a fault is about, with other keywords too."""
    both = {fault.stage, "key_scale", "value_scale"}
    for pattern in (f"{storage}/{granularity}/odd" for storage in STORAGES for granularity in UNBLOCKED
                    if not STORAGES[storage].block):
        for sizes in ("B2,H4,Hkv2,T5,S7,D6,Dv3", "B2,H4,Hkv2,T1,S7,D6,Dv3"):
            for text in CALLS:
                values = ";".join(f"{name}={pattern}" for name in sorted(both))
                recipe = Recipe.parse(f"{sizes};{text.format('+'.join(sorted(both)), values)}")
                yield make_problem(recipe, DType.FLOAT32)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_departs_beyond_rounding(name: str) -> None:
    attend = FAULTS[name].function
    assert any(departs(attend, problem) for problem in calls(FAULTS[name]))


@pytest.mark.parametrize("formulation", SOUND, ids=lambda each: each.name)
def test_right_formulations_stay_within_rounding(formulation: SoundFormulation) -> None:
    attend, fault = formulation.make(), FAULTS["query_scale_ignored"]
    assert not any(departs(attend, problem) for problem in calls(fault))


CODES = '''
import numpy as np

def attend(query, key, value, causal=False, key_scale=None, value_scale=None):
    def heads(codes, scale):
        scaled = codes.astype(np.float32) if scale is None else codes.astype(np.float32) * {0}
        return np.repeat(scaled, query.shape[1] // codes.shape[1], axis=1)

    logits = query @ heads(key, key_scale).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ heads(value, value_scale)).astype(np.float32)

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "{1}"
attend.key_scales = attend.value_scales = "head"
'''


@pytest.mark.parametrize("storage", [pytest.param(name, marks=[] if name == "int8" else pytest.mark.nightly)
                                     for name in STORAGES if not STORAGES[name].block])
def test_a_function_of_codes_conforms(cli: Cli, tmp_path: Path, storage: str) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("scale[:, None, None]", storage), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 0, out


def test_a_scale_of_the_first_head_is_named(cli: Cli, tmp_path: Path) -> None:
    wrong = CODES.format("scale[:, None, None]", "int8").replace(
        "heads(value, value_scale)", "heads(value, value_scale if value_scale is None else value_scale[:1])")
    (tmp_path / "mine.py").write_text(wrong, encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.values_by_head")
    assert code == 1
    assert "value_scale_of_first_head" in out


def test_a_storage_that_is_none_gets_the_nearest_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format("scale[0]", "float8_e4m3"), encoding="utf-8")
    code, out, err = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 2
    assert "float8_e4m3fn" in out + err


def test_ml_dtypes_knows_every_storage() -> None:
    types = {name for storage in STORAGES.values() for name in (storage.code_type, storage.scales)}
    assert all(name in {"int8", "uint8", "float32"} or hasattr(ml_dtypes, name) for name in types)


@pytest.mark.parametrize(("wrong", "name"), [
    ("numbers * scale[0]", "both_scales_of_first_head"), ("numbers", "both_scales_ignored"),
    ("numbers * scale[:, None, None] ** 2", "both_scales_twice")])
def test_a_mistake_in_a_helper_for_keys_and_values_is_named(wrong: str, name: str, cli: Cli, tmp_path: Path) -> None:
    right = "numbers * scale[:, None, None]"
    example = (CHECKOUT / "docs" / "quantised.md").read_text(encoding="utf-8")
    code = example.partition("```python\n")[2].partition("```")[0]
    assert right in code
    (tmp_path / "mine.py").write_text(code.replace(right, wrong), encoding="utf-8")
    exit_code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.values")
    assert exit_code == 1
    assert name in out
