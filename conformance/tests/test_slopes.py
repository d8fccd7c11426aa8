"""Slopes: the bias that they stand for, its bound, how they are made, and the words that speak of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from attnspec.aspects.slopes import words
from attnspec.aspects.slopes.keyword import SLOPE_PATTERNS, USUAL_SLOPES
from attnspec.aspects.slopes.words import QUESTIONS
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.diagnosis.inputs import features_that_matter
from attnspec.faults.sound import DENSE, declaration_of_sound, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.bound import screening_allowance
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import compute_truth, cut_blocks
from attnspec.numerics.roundings import roundings
from attnspec.problems.domain import domain
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.questions.asker import Asker, reply_to
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.registry import load_target
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes

SIZES = Sizes(2, 3, 3, 4, 5, 4, 4)
HALVES = (DType.FLOAT16, DType.BFLOAT16)
DTYPES = (DType.FLOAT64, DType.FLOAT32, *HALVES)
FAMILIES = ("normal", "log_normal+huge_logits", "above_88", "far_below_zero", "integers", "offset+tiny_query_key")
MORE = ("", "mask", "bias", "causal", "softcap", "window", "past_key+past_value", "key_lengths", "sinks bias")
TOP_LEFT = {"causal_alignment": "top_left", "mask_with_causal": "both"}
BOTTOM_RIGHT = {**TOP_LEFT, "causal_alignment": "bottom_right"}


def problem(pattern: str = "of_entries", more: str = "", family: str = "normal", dtype: DType = DType.FLOAT32, *,
            seed: int = 3, sizes: str = "B2,H3,Hkv3,T4,S5,D4,Dv4") -> Problem:
    used = sorted({*more.replace("+", " ").split(), "alibi_slopes"})
    values = {"window": "window=2+0;", "softcap": "softcap=2.0;", "past_key": "past_key=half;",
              "key_lengths": "key_lengths=ragged;", "sinks": "sinks=spread;"}
    text = (f"{sizes};mask={'with_empty_rows' if 'mask' in more else 'none'};families={family};with={'+'.join(used)};"
            f"{''.join(values.get(each, '') for each in used)}alibi_slopes={pattern};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def output_of(made: Problem, conventions: dict[str, str] | None = None) -> Array:
    return expect(made, declared_precision(None, DType.FLOAT32), conventions=conventions or TOP_LEFT).output


def exactly(made: Problem, b: int, h: int, i: int, first: int) -> list[mpmath.mpf]:
    """One row of the output with fifty digits; `first` is the place of the first query."""
    assert made.alibi_slopes is not None
    slope = float(np.broadcast_to(made.alibi_slopes, (2, 3))[b, h])
    with mpmath.workdps(50):
        scale = 1 / mpmath.sqrt(made.sizes.D)
        grown = [mpmath.exp(scale * mpmath.fdot(zip(made.query[b, h, i].tolist(), key, strict=True))
                            - slope * abs(first + i - j)) for j, key in enumerate(made.key[b, h].tolist())]
        total = mpmath.fsum(grown)
        return [mpmath.fdot(zip(grown, column, strict=True)) / total for column in made.value[b, h].T.tolist()]


@pytest.mark.parametrize(("conventions", "first"), [(TOP_LEFT, 0), (BOTTOM_RIGHT, 1)], ids=["top_left", "bottom_right"])
@pytest.mark.parametrize("pattern", SLOPE_PATTERNS)
def test_the_truth_is_that_of_fifty_digits(pattern: str, conventions: dict[str, str], first: int) -> None:
    made = problem(pattern)
    output = output_of(made, conventions)
    for b, h, i in product(range(2), range(3), range(4)):
        np.testing.assert_allclose(output[b, h, i], [float(each) for each in exactly(made, b, h, i, first)],
                                   rtol=1e-12, atol=1e-60)


def written_out(made: Problem, places: Array) -> Problem:
    """The same with a bias in float64, of queries (T,) or (B,1,T) that stand at these places."""
    assert made.alibi_slopes is not None
    slopes = np.broadcast_to(made.alibi_slopes, (2, 3)).astype(np.float64)
    far = np.abs(np.arange(made.sizes.S) - places[..., None])
    bias = np.broadcast_to(-slopes[..., None, None] * far, (2, 3, made.sizes.T, made.sizes.S))
    return made.but(alibi_slopes=None, bias=bias if made.bias is None else bias + made.bias.astype(np.float64))


@pytest.mark.parametrize(("more", "places"), [
    ("bias", [0, 1, 2, 3]), ("causal mask", [0, 1, 2, 3]), ("past_key+past_value", [2, 3, 4, 5]),
    ("past_key+past_value causal bias", [2, 3, 4, 5])])
@pytest.mark.parametrize("pattern", USUAL_SLOPES)
def test_slopes_are_the_bias_written_out(pattern: str, more: str, places: list[int]) -> None:
    made = problem(pattern, more)
    np.testing.assert_allclose(output_of(made), output_of(written_out(made, np.array(places))), rtol=1e-14)


def test_with_lengths_the_distance_counts_from_the_place_in_the_entry() -> None:
    made = problem("of_entries", "key_lengths").but(key_lengths=np.array([5, 3], np.int32))
    places = np.arange(4) + np.array([[[1]], [[-1]]])
    np.testing.assert_allclose(output_of(made, BOTTOM_RIGHT), output_of(written_out(made, places), BOTTOM_RIGHT),
                               rtol=1e-14)


@pytest.mark.family(2, each="dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DENSE)
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound = sound_named(name)
    precision = declared_precision(declaration_of_sound(sound).precision.get(dtype), dtype)
    for index, (pattern, more) in enumerate(product(SLOPE_PATTERNS, MORE)):
        family = FAMILIES[index % len(FAMILIES)]
        made = problem(pattern, more, family, dtype, seed=index, sizes="B2,H4,Hkv2,T5,S19,D8,Dv4")
        expected = expect(made, precision, conventions=TOP_LEFT,
                          parts=frozenset({"output", "weights", "logits", "lse"}))
        assert expected.lse is not None
        assert expected.lse_allowance is not None
        with np.errstate(all="ignore"):
            output, weights, lse = sound.function(made.query, made.key, made.value, **made.given, return_weights=True,
                                                  return_lse=True)
        for seen, truth, allowance in ((output, expected.output, expected.output_allowance),
                                       (weights, expected.weights, expected.weights_allowance),
                                       (lse, expected.lse, expected.lse_allowance)):
            error = np.abs(seen.astype(np.longdouble) - np.where(np.isfinite(truth), truth, 0))
            assert (error <= allowance)[expected.claimed].all()


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_counting_from_the_first_key_stays_within_the_bound(dtype: DType) -> None:
    """Behind the causal flag a row of slope·j is a row of -slope·(p - j) but for a constant, as kernels know."""
    naive = sound_named("naive")
    for seed, pattern in enumerate(SLOPE_PATTERNS):
        made = problem(pattern, "causal", dtype=dtype, seed=seed, sizes="B2,H4,Hkv2,T300,S300,D8,Dv4")
        assert made.alibi_slopes is not None
        expected = expect(made,
                          declared_precision({"grade": "G0"} if dtype in HALVES else None, dtype), conventions=TOP_LEFT)
        wide = np.dtype(np.float64 if dtype is DType.FLOAT64 else np.float32)
        rows = made.alibi_slopes.astype(wide)[..., None, None] * np.arange(300, dtype=wide)
        bias = np.broadcast_to(rows, (2, 4, 300, 300))
        output = naive.function(made.query, made.key, made.value, bias=bias, causal=True)
        assert isinstance(output, np.ndarray)
        error = np.abs(output.astype(np.longdouble) - expected.output)
        assert (error <= expected.output_allowance)[expected.claimed].all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_sees_a_slope_that_is_a_little_off(dtype: DType) -> None:
    made = problem("powers", dtype=dtype, sizes="B2,H3,Hkv3,T4,S9,D4,Dv4")
    found = expect(made, declared_precision({"grade": "G0"} if dtype in HALVES else None, dtype), conventions=TOP_LEFT)
    assert made.alibi_slopes is not None
    moved = output_of(made.but(alibi_slopes=made.alibi_slopes + made.alibi_slopes.dtype.type(2.0**-5)))
    assert (np.abs(moved - found.output) > found.output_allowance)[found.claimed].any()


def test_the_screening_bound_is_never_below_the_sharp_one() -> None:
    for pattern in SLOPE_PATTERNS:
        made, precision = problem(pattern, "bias causal"), declared_precision(None, DType.FLOAT32)
        sharp = expect(made, precision, conventions=TOP_LEFT)
        (block,) = cut_blocks(made, TOP_LEFT)
        screened = screening_allowance(block.operands, compute_truth(block.operands, np.float64), roundings(precision))
        assert screened is not None
        assert (screened[0] >= sharp.output_allowance)[sharp.claimed].all()


def test_the_law_of_roundings_allows_for_slopes() -> None:
    made, precision = problem("geometric"), declared_precision(None, DType.FLOAT32)
    parts = frozenset({"output", "typical"})
    sloped, plain = (expect(each, precision, conventions=TOP_LEFT, parts=parts)
                     for each in (made, made.but(alibi_slopes=None)))
    assert (sloped.typical_sure > plain.typical_sure).all()


@pytest.mark.parametrize("pattern", SLOPE_PATTERNS)
def test_slopes_are_float32_or_float64_beside_float64(pattern: str) -> None:
    for dtype in DTYPES:
        made = keyword_array("alibi_slopes", pattern, 1, SIZES, dtype)
        assert made.shape == ((2, 3) if pattern == "of_entries" else (3,))
        assert made.dtype == (np.float64 if dtype is DType.FLOAT64 else np.float32)
        assert (made >= 0).all()
        np.testing.assert_array_equal(made, keyword_array("alibi_slopes", pattern, 1, SIZES))


def test_patterns_of_slopes_are_what_they_are_called() -> None:
    eight = replace(SIZES, H=8, Hkv=8)
    halves = [2.0**-n for n in range(1, 9)]
    assert keyword_array("alibi_slopes", "powers", 1, eight).tolist() == halves
    assert keyword_array("alibi_slopes", "geometric", 1, eight).tolist() == halves
    assert keyword_array("alibi_slopes", "steep", 1, SIZES).tolist() == [1, 2, 3]
    assert not keyword_array("alibi_slopes", "zero", 1, SIZES).any()
    assert len(set(keyword_array("alibi_slopes", "of_entries", 1, eight).ravel().tolist())) > 5


def test_zero_slopes_are_drawn_only_where_a_clause_asks_for_them() -> None:
    assert domain(always=["alibi_slopes"]).values["alibi_slopes"] == USUAL_SLOPES
    assert "zero" not in USUAL_SLOPES


def test_unknown_patterns_of_slopes_are_told() -> None:
    with pytest.raises(UsageError, match=r"alibi_slopes=steap names no pattern\. Did you mean 'steep'\?"):
        problem("steap")
    with pytest.raises(SpecError, match=r"'steap' is not a known pattern of slopes\. Did you mean 'steep'\?"):
        domain(slope_patterns=["steap"])  # type: ignore[list-item]  # that is the mistake


@pytest.mark.parametrize("more", ["", "bias causal", "past_key+past_value"])
@pytest.mark.parametrize("pattern", ["powers", "steep"])
def test_slopes_as_a_bias_give_the_same_output(pattern: str, more: str) -> None:
    made = problem(pattern, more, family="integers")
    made = made if made.bias is None else made.but(bias=np.round(made.bias))
    after = words.slopes_as_bias(Posed((made,), conventions=TOP_LEFT)).one
    assert after.alibi_slopes is None
    assert after.bias is not None
    assert after.bias.dtype == np.float32
    np.testing.assert_array_equal(output_of(after), output_of(made))


@pytest.mark.parametrize(("made", "why"), [
    (problem().but(alibi_slopes=None), "there are no slopes"),
    (problem("geometric", dtype=DType.BFLOAT16, sizes="B2,H3,Hkv3,T4,S9,D4,Dv4"),
     "the change is not exact in the dtype")])
def test_what_is_no_bias_makes_no_claim(made: Problem, why: str) -> None:
    with pytest.raises(NoClaim, match=why):
        words.slopes_as_bias(Posed((made,), conventions=TOP_LEFT))


def test_slopes_of_zero_are_handed_over() -> None:
    after = words.with_slopes(Posed((problem(),)), to="zero").one
    assert after.alibi_slopes is not None
    np.testing.assert_array_equal(after.alibi_slopes, [0, 0, 0])


@pytest.mark.parametrize("pattern", ["steep", "of_entries"])
def test_permuted_heads_and_entries_keep_their_slopes(pattern: str) -> None:
    start = problem(pattern)
    for change, axis in ((axes.permute_batch, 0), (axes.permute_heads, 1)):
        after = change(Posed((start,), conventions=TOP_LEFT), by=Drawn(5))
        order = np.argsort(after.back[0].index)
        full = [np.broadcast_to(np.asarray(each.alibi_slopes), (2, 3)) for each in (start, after.one)]
        np.testing.assert_array_equal(full[1], np.take(full[0], order, axis=axis))


def test_the_alignment_matters_to_slopes_unless_there_is_a_past() -> None:
    head = "B2,H1,Hkv1,T5,S7,D8,Dv8;mask=none;families=normal;with=alibi_slopes"
    assert features_that_matter(Recipe.parse(f"{head};alibi_slopes=steep;seed=1")) == ("causal_alignment",)
    recipe = Recipe.parse(f"{head}+past_key+past_value;alibi_slopes=steep;past_key=half;seed=1")
    assert features_that_matter(recipe) == ()


def test_a_function_is_recognised_by_its_parameter(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def attend(query, key, value, *, alibi_slopes=None):\n"
                    "    return query * alibi_slopes[..., None, None]\n", encoding="utf-8")
    subject, made = load_target(f"{path}:attend", Surroundings()), problem()
    assert made.alibi_slopes is not None
    assert subject.declaration.keywords == {"alibi_slopes"}
    np.testing.assert_array_equal(subject.answer(made).output, made.query * made.alibi_slopes[..., None, None])


def test_other_names_of_slopes_are_known() -> None:
    assert set(KEYWORDS["alibi_slopes"].other_names) <= set(KEYWORDS["alibi_slopes"].parameters)


@pytest.mark.parametrize(("target", "alignment"), [
    ("sound/naive", "top_left"), ("fault/slopes_from_the_end", "bottom_right"), ("fault/slopes_ignored", "undefined")])
def test_without_a_causal_flag_slopes_tell_the_alignment(target: str, alignment: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    declared = replace(subject.declaration, conventions={}, keywords=frozenset({"alibi_slopes"}))
    assert probe_conventions(replace(subject, declaration=declared), DType.FLOAT32)["causal_alignment"] == alignment


ANSWERS = {
    "sound/naive": {"slopes.form": "distance", "slopes.longer_keys": "top_left", "slopes.longer_queries": "top_left"},
    "fault/slopes_ignored": {"slopes.form": "ignored", "slopes.longer_keys": "everything"},
    "fault/slopes_negated": {"slopes.form": "raised"},
    "fault/slopes_signed": {"slopes.form": "signed"},
    "fault/slopes_of_first_head": {"slopes.form": "of_first"},
    "fault/slopes_by_row": {"slopes.form": "by_row"},
    "fault/slopes_scaled": {"slopes.form": "scaled"},
    "fault/slopes_in_base_two": {"slopes.form": "base_two"},
    "fault/slopes_of_the_root": {"slopes.form": "other"},
    "fault/slopes_from_the_end": {"slopes.longer_keys": "bottom_right", "slopes.longer_queries": "bottom_right"},
}


@pytest.mark.parametrize(("target", "question"), [
    (target, name) for target, known in ANSWERS.items() for name in known])
def test_a_probe_says_what_slopes_add(target: str, question: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    ask = next(each.ask for each in QUESTIONS if each.name == question)
    reply = reply_to(lambda: ask(Asker(subject, DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == ANSWERS[target][question]
