"""Sinks: the definition with one more key, its bound, how they are made, and the words that speak of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from attnspec.aspects.sinks import words
from attnspec.aspects.sinks.keyword import SINK_PATTERNS, USUAL_SINKS
from attnspec.aspects.sinks.words import QUESTIONS
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.faults.sound import DENSE, declaration_of_sound, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import attended_hull
from attnspec.problems.domain import domain
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.questions.asker import Asker, reply_to
from attnspec.subjects.registry import load_target
from attnspec.vocabulary.scene import NoClaim, Posed

SIZES = Sizes(2, 3, 3, 4, 5, 4, 4)
HALVES = (DType.FLOAT16, DType.BFLOAT16)
DTYPES = (DType.FLOAT64, DType.FLOAT32, *HALVES)
FAMILIES = ("normal", "log_normal+huge_logits", "above_88", "far_below_zero", "integers", "offset+tiny_query_key")
MORE = ("", "mask", "bias", "causal", "softcap", "window")


def problem(pattern: str = "spread", more: str = "", family: str = "normal", dtype: DType = DType.FLOAT32, *,
            seed: int = 3, sizes: str = "B2,H3,Hkv3,T4,S5,D4,Dv4") -> Problem:
    features = "+".join(sorted(filter(None, (*more.split(), "sinks"))))
    values = {"window": "window=2+0;", "softcap": "softcap=2.0;"}
    text = (f"{sizes};mask={'with_empty_rows' if 'mask' in more else 'none'};families={family};with={features};"
            f"{''.join(values.get(each, '') for each in more.split())}sinks={pattern};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def expected_of(made: Problem, grade: str = "G0") -> tuple[Array, Array, Array]:
    """Output, its allowance, and where it is claimed."""
    declared = {"grade": grade} if made.dtype in HALVES else None
    found = expect(made, declared_precision(declared, made.dtype), conventions={})
    return found.output, found.output_allowance, found.claimed


def exactly(made: Problem, b: int, h: int, i: int) -> list[mpmath.mpf]:
    """One row of the output, with fifty digits."""
    with mpmath.workdps(50):
        scale = 1 / mpmath.sqrt(made.sizes.D)
        logits = [scale * mpmath.fdot(zip(made.query[b, h, i].tolist(), key, strict=True))
                  for key in made.key[b, h].tolist()]
        grown = [mpmath.exp(logit) for logit in logits]
        assert made.sinks is not None
        total = mpmath.fsum(grown) + mpmath.exp(float(made.sinks[h]))
        return [mpmath.fdot(zip(grown, column, strict=True)) / total for column in made.value[b, h].T.tolist()]


@pytest.mark.parametrize("pattern", SINK_PATTERNS)
def test_the_truth_is_that_of_fifty_digits(pattern: str) -> None:
    made = problem(pattern)
    output = expected_of(made)[0]
    for b, h, i in product(range(2), range(3), range(4)):
        np.testing.assert_allclose(output[b, h, i], [float(each) for each in exactly(made, b, h, i)], rtol=1e-12,
                                   atol=1e-60)


@pytest.mark.family(2, each="dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DENSE)
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound = sound_named(name)
    declared = declaration_of_sound(sound).precision.get(dtype)
    for index, (pattern, family) in enumerate(product(SINK_PATTERNS, FAMILIES)):
        made = problem(pattern, MORE[index % len(MORE)], family, dtype, seed=index, sizes="B2,H4,Hkv2,T5,S19,D8,Dv4")
        expected = expect(made, declared_precision(declared, dtype), conventions={})
        with np.errstate(all="ignore"):
            output, weights = sound.function(made.query, made.key, made.value, **made.given, return_weights=True)
        for seen, truth, allowance in ((output, expected.output, expected.output_allowance),
                                       (weights, expected.weights, expected.weights_allowance)):
            error = np.abs(seen.astype(np.longdouble) - truth)
            assert (error <= allowance)[expected.claimed].all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_sees_a_sink_that_is_a_little_off(dtype: DType) -> None:
    made = problem(dtype=dtype)
    output, allowance, claimed = expected_of(made)
    assert made.sinks is not None
    moved = expected_of(made.but(sinks=made.sinks + made.sinks.dtype.type(2.0**-5)))[0]
    assert (np.abs(moved - output) > allowance)[claimed].any()


@pytest.mark.parametrize("more", ["", "bias", "causal"])
def test_a_sink_of_minus_infinity_changes_nothing(more: str) -> None:
    made = problem("minus_infinity", more)
    without = expected_of(made.but(sinks=None))[0]
    np.testing.assert_allclose(expected_of(made)[0], without, rtol=1e-15, atol=1e-300)


def test_a_row_without_keys_is_claimed_to_be_zeros() -> None:
    made = problem("spread", "mask")
    output, allowance, claimed = expected_of(made)
    assert made.mask is not None
    empty = ~made.mask.any(axis=-1)
    assert empty.any()
    assert claimed[empty].all()
    assert (output[empty] == 0).all()
    assert (allowance[empty] < 1e-30).all()


def test_weights_and_logits_are_those_of_the_keys() -> None:
    made = problem("rising")
    found = expect(made, declared_precision(None, DType.FLOAT32), conventions={})
    assert found.weights.shape == found.logits.shape == found.visible.shape == (2, 3, 4, 5)
    assert (found.weights.sum(axis=-1) < 1).all()
    np.testing.assert_array_equal(found.logits.max(axis=-1), 0)


def test_the_hull_has_the_value_zero() -> None:
    made = problem()
    low, high = attended_hull(made, {})
    assert (low <= 0).all()
    assert (high >= 0).all()


@pytest.mark.parametrize("pattern", SINK_PATTERNS)
def test_sinks_are_float32_or_float64_beside_float64(pattern: str) -> None:
    for dtype in DTYPES:
        made = keyword_array("sinks", pattern, 1, SIZES, dtype)
        assert made.shape == (3,)
        assert made.dtype == (np.float64 if dtype is DType.FLOAT64 else np.float32)
        np.testing.assert_array_equal(made, keyword_array("sinks", pattern, 1, SIZES))


def test_only_ordinary_sinks_are_drawn_unless_a_clause_asks() -> None:
    assert domain(always=["sinks"]).values["sinks"] == USUAL_SINKS
    assert {"hundred", "minus_infinity"}.isdisjoint(USUAL_SINKS)


def test_an_unknown_pattern_of_sinks_is_told() -> None:
    with pytest.raises(UsageError, match="sinks=spred names no pattern"):
        problem("spred")


def test_a_sink_as_a_key_gives_the_same_output() -> None:
    made = problem("spread", "causal mask bias")
    after = words.sinks_as_keys(Posed((made,), conventions={})).one
    assert after.keywords == {"mask", "bias"}
    assert after.sizes.S == made.sizes.S + 1
    np.testing.assert_allclose(expected_of(after)[0], expected_of(made)[0], rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize(("made", "why"), [
    (problem().but(sinks=None), "there are no sinks"),
    (problem("normal", dtype=DType.BFLOAT16), "the change is not exact in the dtype")])
def test_what_is_no_key_makes_no_claim(made: Problem, why: str) -> None:
    with pytest.raises(NoClaim, match=why):
        words.sinks_as_keys(Posed((made,), conventions={}))


def test_sinks_of_minus_infinity_are_handed_over() -> None:
    after = words.with_sinks(Posed((problem(),)), to="minus infinity").one
    assert after.sinks is not None
    np.testing.assert_array_equal(after.sinks, [-np.inf] * 3)


def test_a_function_is_recognised_by_its_parameter(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def attend(query, key, value, *, sinks=None):\n    return query * sinks[:, None, None]\n",
                    encoding="utf-8")
    subject, made = load_target(f"{path}:attend", Surroundings()), problem()
    assert made.sinks is not None
    assert subject.declaration.keywords == {"sinks"}
    np.testing.assert_array_equal(subject.answer(made).output, made.query * made.sinks[:, None, None])


@pytest.mark.parametrize(("target", "answer"), [
    ("sound/naive", "joins"), ("fault/sinks_ignored", "ignored"), ("fault/sinks_of_first_head", "of_first"),
    ("fault/sinks_by_row", "by_row"), ("fault/sinks_scaled", "scaled"), ("fault/sinks_in_base_two", "base_two"),
    ("fault/sinks_negated", "other")])
def test_a_probe_says_what_a_sink_does(target: str, answer: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    reply = reply_to(lambda: QUESTIONS[0].ask(Asker(subject, DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == answer
