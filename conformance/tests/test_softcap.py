"""A softcap in the truth and in the bounds: against fifty digits, and against honest ways to compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mpmath
import numpy as np
import pytest
from attnspec.aspects.softcap.mathematics import Softcap
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import Precision, assumed_precision, declared_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe

OUTPUT = frozenset({"output", "typical"})
SHAPE = "B2,H2,Hkv2,T5,S9,D8,Dv4"
WIDE = "B1,H2,Hkv2,T4,S130,D24,Dv16"


def capped(families: str, cap: float, dtype: DType, *, seed: int = 1, shape: str = SHAPE, more: str = "") -> Problem:
    features = "+".join(["softcap", *filter(None, more.split())])
    text = f"{shape};mask=none;families={families};with={features};softcap={cap};seed={seed}"
    return make_problem(Recipe.parse(text), dtype)


# The truth


def test_the_truth_is_that_of_fifty_digits() -> None:
    problem = capped("normal", 0.5, DType.FLOAT32, more="bias")
    found = expect(problem, assumed_precision(DType.FLOAT32), conventions={}).output
    with mpmath.workdps(50):
        for at in ((0, 0, 0, 0), (1, 1, 4, 3)):
            assert abs(found[at] - _in_fifty_digits(problem, at)) < 1e-15


def _in_fifty_digits(problem: Problem, at: tuple[int, ...]) -> float:
    """One entry of the output, by the definition."""
    b, h, i, c = at
    cap, root, bias = mpmath.mpf(problem.softcap or 0), mpmath.sqrt(problem.sizes.D), problem.bias
    assert bias is not None
    dots = [mpmath.fdot(zip(map(mpmath.mpf, problem.query[b, h, i].tolist()), map(mpmath.mpf, key.tolist()),
                            strict=True)) for key in problem.key[b, h]]
    grown = [mpmath.exp(cap * mpmath.tanh(dot / root / cap) + mpmath.mpf(float(added)))
             for dot, added in zip(dots, bias[b, h, i], strict=True)]
    value = [mpmath.mpf(float(entry)) for entry in problem.value[b, h, :, c]]
    return float(mpmath.fdot(zip(grown, value, strict=True)) / mpmath.fsum(grown))


def test_hidden_keys_are_hidden_after_the_cap() -> None:
    problem = capped("normal", 2.0, DType.FLOAT32, more="causal")
    expected = expect(problem, assumed_precision(DType.FLOAT32), conventions={})
    assert (expected.weights[~expected.visible] == 0).all()
    assert (expected.weights[expected.visible] > 0).all()


def test_capped_logits_are_no_further_apart_than_twice_the_cap() -> None:
    expected = expect(capped("huge_logits", 0.5, DType.FLOAT32), assumed_precision(DType.FLOAT32), conventions={})
    assert expected.logits.min() >= -1.0


# The slope


@pytest.mark.parametrize("cap", [0.5, 8.0])
@pytest.mark.parametrize("error", [0.0, 1e-6, 0.1, 5.0])
def test_no_step_of_this_size_climbs_more_than_the_slope_allows(cap: float, error: float) -> None:
    x = np.concatenate([np.linspace(0, 12, 97), [300.0, 1e6]]).astype(np.longdouble)
    steepest = Softcap(cap).steepest(np.asarray(x, float), error)
    for step in np.linspace(-error, error, 9).astype(np.longdouble):
        climbed = np.abs(cap * np.tanh((x + step) / cap) - cap * np.tanh(x / cap))
        assert (climbed <= steepest * abs(step) * (1 + 1e-12) + 1e-17).all()


def test_a_logit_far_above_the_cap_hands_no_error_on() -> None:
    assert Softcap(2.0).steepest(np.array([100.0]), 1e-3)[0] < 1e-40
    assert Softcap(2.0).steepest(np.array([0.0]), 1e-3)[0] == 1.0


# Honest ways to compute it


def attention(problem: Problem, cap: Callable[[Array, np.floating], Array], *, stored: bool = False) -> Array:
    """The formula in float32 (float64 for float64); with `stored`, everything up to the logits is kept in the dtype."""
    wide = np.dtype(np.float64 if problem.dtype is DType.FLOAT64 else np.float32)
    io = problem.query.dtype if stored else wide
    query, key, value = (array.astype(wide) for array in (problem.query, problem.key, problem.value))
    logits = ((query @ key.swapaxes(-1, -2)).astype(io).astype(wide) * wide.type(problem.sizes.D ** -0.5)).astype(io)
    logits = cap(logits, np.asarray(problem.softcap).astype(io)[()]).astype(io)  # type: ignore[arg-type]  # a scalar
    if problem.bias is not None:
        logits = (logits + problem.bias.astype(io)).astype(io)
    logits = logits.astype(wide)
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = (grown / grown.sum(axis=-1, keepdims=True)).astype(io).astype(wide)
    output: Array = (weights @ value).astype(problem.query.dtype)
    return output


def divided(x: Array, cap: np.floating) -> Array:
    quotient: Array = (x / cap).astype(x.dtype)
    bent: Array = np.tanh(quotient).astype(x.dtype) * cap
    return bent


def by_reciprocal(x: Array, cap: np.floating) -> Array:
    bent: Array = np.tanh(x * (x.dtype.type(1) / cap)).astype(x.dtype) * cap
    return bent


def by_exponential(x: Array, cap: np.floating) -> Array:
    one = x.dtype.type(1)
    with np.errstate(over="ignore"):  # then the quotient is 0, and the tanh 1
        bent: Array = (one - 2 * one / (np.exp(2 * (x / cap)) + one)) * cap
    return bent


def uncapped(x: Array, cap: np.floating) -> Array:  # noqa: ARG001  (as the others)
    return x


def clipped(x: Array, cap: np.floating) -> Array:
    return np.clip(x, -cap, cap)


FAMILIES = ("normal", "huge_logits", "integers", "log_normal", "tiny_query_key", "near_ties", "offset")
WAYS: Mapping[str, tuple[Callable[[Array, np.floating], Array], Mapping[str, object]]] = {
    "divided": (divided, {}), "by reciprocal": (by_reciprocal, {}),
    "by exponential": (by_exponential, {"tanh_by_exp": True, "reason": "tanh is 1 - 2 / (exp(2x) + 1)"})}


def excess(problem: Problem, output: Array, precision: Precision, false_alarm: float = 0.0) -> float:
    """The worst error over what is allowed: over D, or over S at a rate of false alarms."""
    expected = expect(problem, precision, conventions={}, parts=OUTPUT)
    allowed = expected.typical_allowance(false_alarm) if false_alarm else expected.output_allowance
    claimed = np.broadcast_to(expected.claimed[..., None], output.shape)
    assert claimed.any()
    return float((np.abs(output.astype(np.longdouble) - expected.output) / allowed)[claimed].max())


@pytest.mark.parametrize("cap", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("way", WAYS)
def test_an_honest_softcap_lies_within_the_worst_case(way: str, dtype: DType, cap: float) -> None:
    compute, declared = WAYS[way]
    precision = declared_precision({"grade": "G0", **declared}, dtype)
    for seed, family in enumerate(FAMILIES):
        for more in ("", "bias"):
            problem = capped(family, cap, dtype, seed=seed, more=more)
            assert excess(problem, attention(problem, compute), precision) <= 1, (family, more)


@pytest.mark.parametrize("cap", [0.5, 30.0])
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=lambda dtype: dtype.value)
def test_steps_stored_in_half_precision_are_paid_for_by_g3_not_by_g0(dtype: DType, cap: float) -> None:
    worst = {"G3": 0.0, "G0": 0.0}
    for seed, family in enumerate(FAMILIES):
        problem = capped(family, cap, dtype, seed=seed, more="bias")
        output = attention(problem, divided, stored=True)
        worst = {grade: max(ratio, excess(problem, output, declared_precision({"grade": grade}, dtype)))
                 for grade, ratio in worst.items()}
    assert worst["G3"] <= 1 < worst["G0"]


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_independent_roundings_add_up_under_a_cap_too(dtype: DType) -> None:
    precision, half = declared_precision({"grade": "G0"}, dtype), 0.5
    for seed in range(6):
        problem = capped("normal+student_t", 8.0, dtype, seed=seed, shape=WIDE)
        assert excess(problem, attention(problem, divided), precision, half) <= 1


def test_the_law_of_chance_is_the_sharper_one_on_long_rows() -> None:
    problem = capped("normal", 8.0, DType.FLOAT32, shape=WIDE)
    expected = expect(problem, assumed_precision(DType.FLOAT32), conventions={}, parts=OUTPUT)
    assert np.median(expected.output_allowance / expected.typical_allowance(1e-6)) > 5


# What is no softcap


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("wrong", [clipped, uncapped, lambda x, cap: np.tanh(x / cap)],
                         ids=["clipped", "ignored", "not multiplied back"])
def test_what_is_no_softcap_lies_beyond(wrong: Callable[[Array, np.floating], Array], dtype: DType) -> None:
    problem = capped("normal", 0.5, dtype)
    assert excess(problem, attention(problem, wrong), assumed_precision(dtype)) > 2


def test_a_tanh_of_eleven_bits_must_be_declared() -> None:
    def rough(x: Array, cap: np.floating) -> Array:
        bent: Array = np.tanh(x / cap) * cap * x.dtype.type(1 + 2.0**-11)
        return bent

    problem = capped("normal", 2.0, DType.FLOAT32)
    declared = declared_precision({"tanh_ulps": 2**13, "reason": "the documented error of a GPU's tanh"}, DType.FLOAT32)
    output = attention(problem, rough)
    assert excess(problem, output, assumed_precision(DType.FLOAT32)) > 1 >= excess(problem, output, declared)


@pytest.mark.parametrize("words", [{"tanh_ulps": 8}, {"tanh_by_exp": True}])
def test_a_looser_tanh_gives_a_reason(words: dict[str, object]) -> None:
    with pytest.raises(ManifestError, match="give a reason"):
        declared_precision(words, DType.FLOAT32)


def test_a_quotient_that_would_overflow_is_no_claim() -> None:
    """X / c is larger than x where c is below 1."""
    problem = capped("normal", 0.5, DType.FLOAT16)
    huge = problem.but(query=np.full_like(problem.query, 60.0), key=np.full_like(problem.key, 100.0))
    stored = declared_precision({"grade": "G3"}, DType.FLOAT16)
    conventions: Mapping[str, str] = {}
    assert not expect(huge, stored, conventions=conventions).claimed.any()
    assert expect(huge.but(softcap=2.0), stored, conventions=conventions).claimed.all()
