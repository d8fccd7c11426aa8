"""Gradients beside codes: by definition, their bound, and what is asked of a backward pass that takes scales."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised.gradient_faults import GRADIENT_FAULTS, SOUND_GRADIENTS
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import SoundFormulation
from attnspec.numerics.expectation import expect
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.gradients import expect_gradients
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.roundings import declared_backward
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe
from attnspec.subjects.call import inputs_of
from helpers.commands import Cli

SHAPE = "B2,H4,Hkv2,T5,S37,D40,Dv3"
KEYS = "key_scale+value_scale"
PATTERNS = ("int8/token/odd", "int8/channel/powers", "float8_e4m3fn/head/odd", "float8_e5m2/batch_head/odd",
            "int4/block(16)/odd", "mxfp8/block(32)/powers", "nvfp4/channel_tokens(16)/odd")


def posed(features: str = KEYS, pattern: str = PATTERNS[0], dtype: DType = DType.FLOAT32, *, family: str = "normal",
          seed: int = 3, zeros: str = "") -> Problem:
    """A problem with the output's gradient beside codes by one pattern."""
    names = sorted({"grad_output", *features.split("+")})
    values = ";".join([*(f"{name}={pattern}" for name in names if name.endswith("_scale")),
                       *(f"{name}={zeros}" for name in names if name.endswith("_zero"))])
    return make_problem(Recipe.parse(f"{SHAPE};mask=none;families={family};with={'+'.join(names)};{values};"
                                     f"grad_output=normal;seed={seed}"), dtype)


def expected_of(problem: Problem) -> dict[str, Gradient]:
    """What the definition says of the gradients with respect to what is no code."""
    assert problem.grad_output is not None
    half = {"grade": "G0"} if problem.dtype in {DType.FLOAT16, DType.BFLOAT16} else None
    precision = declared_precision(half, problem.dtype)
    every = expect_gradients(problem, problem.grad_output, precision, declared_backward(None, precision),
                             conventions={})
    return {name: every[name] for name in inputs_of(problem, Limits())}


def worst_share(seen: Array, expected: Gradient) -> float:
    """The largest error of what is claimed, in units of what is allowed."""
    with np.errstate(all="ignore"):
        gap = np.abs(seen.astype(expected.truth.dtype) - expected.truth).astype(float)
        share = np.where(gap == 0, 0, gap / expected.allowance)
    return float(np.where(expected.claimed, np.where(np.isnan(share), np.inf, share), 0).max(initial=0))


def returned_by(formulation: SoundFormulation, problem: Problem) -> dict[str, Array]:
    """The gradients that a sound backward pass returns."""
    assert formulation.backward is not None
    given = {name: value for name, value in problem.given.items() if name != "grad_output"}
    found = formulation.backward()(problem.query, problem.key, problem.value, problem.grad_output, **given)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("features", "asked"), [
    ("key_scale", ("query", "value")), ("value_scale", ("query", "key")), (KEYS, ("query",)),
    ("query_scale", ("key", "value")), ("key_scale+key_zero+value_scale+bias", ("query", "bias"))])
def test_what_comes_as_codes_has_no_gradient(features: str, asked: tuple[str, ...]) -> None:
    assert inputs_of(posed(features, zeros="spread"), Limits()) == asked


def test_neither_has_a_past_of_codes() -> None:
    problem = posed("key_scale")
    problem = problem.but(past_key=problem.key, past_value=problem.value)
    assert inputs_of(problem, Limits()) == ("query", "value", "past_value")


@pytest.mark.parametrize(("features", "zeros"), [
    ("key_scale", ""), (KEYS, ""), ("key_scale+key_zero+value_scale+value_zero", "fraction"), ("query_scale", "")])
def test_a_gradient_beside_codes_is_the_slope_of_the_definition(features: str, zeros: str) -> None:
    problem = posed(features, dtype=DType.FLOAT64, zeros=zeros)
    random, step, precision = np.random.default_rng(5), 2.0**-14, declared_precision(None, DType.FLOAT64)
    for name, gradient in expected_of(problem).items():
        direction = random.standard_normal(getattr(problem, name).shape)
        ends = [(expect(problem.but(grad_output=None, **{name: getattr(problem, name) + sign * step * direction}),
                        precision, conventions={}, parts=frozenset({"output"})).output * problem.grad_output).sum()
                for sign in (-1, 1)]
        slope = float((ends[1] - ends[0]) / (2 * step))
        assert float((gradient.truth * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def problems(dtype: DType) -> Iterator[Problem]:
    """By storage, granularity and family."""
    families = ("normal", "log_normal+huge_logits", "tiny_values+integers", "mixed_magnitudes", "student_t")
    for seed, pattern in enumerate(PATTERNS):
        yield posed(KEYS, pattern, dtype, family=families[seed % len(families)], seed=seed)
        yield posed("query_scale", pattern, dtype, family=families[(seed + 1) % len(families)], seed=seed)
    for seed, zeros in enumerate(("spread", "fraction", "extreme")):
        yield posed("key_scale+key_zero+value_scale+value_zero", "uint8/token/odd", dtype, seed=seed, zeros=zeros)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("formulation", SOUND_GRADIENTS, ids=lambda each: each.name)
def test_sound_passes_beside_codes_stay_within_the_bound(formulation: SoundFormulation, dtype: DType) -> None:
    claimed, shares = [], []
    for problem in problems(dtype):
        found = returned_by(formulation, problem)
        for name, gradient in expected_of(problem).items():
            shares.append(worst_share(found[name], gradient))
            claimed.append(gradient.claimed.mean())
    assert max(shares) <= 1
    assert max(shares) > 0.01
    assert np.mean(claimed) > 0.8


def test_scales_of_one_change_no_gradient() -> None:
    problem = posed(KEYS, "int8/tensor/ones")
    scaled, plain = (expected_of(each)["query"] for each in (problem, problem.but(key_scale=None, value_scale=None)))
    np.testing.assert_array_equal(scaled.truth, plain.truth)
    assert (scaled.allowance >= plain.allowance).all()  # the roundings of scales are allowed, whatever they are


def test_faults_of_backward_passes_have_a_name_of_their_own() -> None:
    assert len(GRADIENT_FAULTS) >= 12
    assert all(fault.backward is not None and fault.name.startswith("backward_") for fault in GRADIENT_FAULTS)


MINE = """
import numpy as np

def attend(query, key, value, causal=False, key_scale=None, value_scale=None):
    return _passed(query, key, value, causal, key_scale, value_scale)[0]

def _passed(query, key, value, causal, key_scale, value_scale):
    def heads(codes, scale):
        numbers = codes.astype(np.float32)
        numbers = numbers if scale is None else numbers * scale[:, None, None]
        return np.repeat(numbers, query.shape[1] // codes.shape[1], axis=1)
    keys, values = heads(key, key_scale), heads(value, value_scale)
    logits = query @ keys.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ values, weights, keys, values

def attend_backward(query, key, value, grad_output, causal=False, key_scale=None, value_scale=None):
    output, weights, keys, values = _passed(query, key, value, causal, key_scale, value_scale)
    products = grad_output @ values.swapaxes(-1, -2)
    scores = weights * (products - (weights * products).sum(-1, keepdims=True))
    return {"query": scores @ KEYS / np.float32(np.sqrt(query.shape[-1]))}

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "int8"
attend.key_scales = attend.value_scales = "head"
"""


@pytest.mark.parametrize(("keys", "code", "told"), [
    ("keys", 0, "Conforms"),
    ("np.repeat(key, query.shape[1] // key.shape[1], axis=1)", 1, "backward_key_scale_left_out")])
def test_a_backward_pass_of_ones_own_is_judged_beside_codes(
        cli: Cli, tmp_path: Path, keys: str, code: int, told: str) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("KEYS", keys))
    seen, out, err = cli("check", str(tmp_path / "mine.py"), "--clause", "quantised.gradients*", "--effort", "quick",
                         "--no-record")
    assert seen == code, out + err
    assert told in out
