"""Codes that are packed, lie in pages, or are stored by a decoder: scales lie as their codes do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from attnspec.aspects.quantised import mistakes_of_forms
from attnspec.aspects.quantised.arrays import hand_over, misfit, scales
from attnspec.aspects.quantised.mistakes_of_forms import coded_decoder
from attnspec.core.declaration import Declaration, Limits
from attnspec.core.errors import FileLocation
from attnspec.core.forms import InputForm
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.faults.catalogue import FORMED
from attnspec.faults.subject import own_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.subjects.callee import InProcess
from attnspec.subjects.manifest import Library
from attnspec.subjects.subject import Subject

CONVENTIONS = {"grouped_heads": "repeat", "causal_alignment": "top_left"}
RECIPE = "B3,H4,Hkv2,T5,S11,D6,Dv3;mask=none;families=normal;with={0};seed=7;{1}"
OF_FORM = {InputForm.PACKED: ("key_lengths+query_lengths", ""), InputForm.PAGED: ("block_table+key_lengths", ""),
           InputForm.DECODER: ("past_key+past_value+cache", "past_key=half;")}
SCALED = "key_scale+value_scale+query_scale"


def posed(form: InputForm, pattern: str = "int8/token/odd", values: str = "") -> Problem:
    """A problem of codes, all of one pattern, that is put into a form."""
    features, own = OF_FORM[form]
    text = ";".join(f"{array}_scale={pattern}" for array in ("key", "value"))
    query = pattern if "page" not in pattern else "int8/head/odd"
    return make_problem(Recipe.parse(RECIPE.format(
        f"{features}+{SCALED}", f"{own}{text};query_scale={query}{values}")), DType.FLOAT32)


def departs(subject: Subject, problem: Problem) -> bool:
    """Whether an answer is off by more than an honest one may be."""
    truth = expect(problem, assumed_precision(DType.FLOAT32), conventions=CONVENTIONS)
    off = ~(np.abs(subject.answer(problem).output - truth.output) <= truth.output_allowance)
    return bool(off[truth.claimed].any())


def problems(form: InputForm) -> Iterator[Problem]:
    """Codes with a scale for each head, channel, batch entry, token and, of paged functions, page."""
    granularities = ("token", "batch_head", "head", "channel", *(("page",) if form is InputForm.PAGED else ()))
    values = {InputForm.PAGED: (";block_table=shuffled", ";block_table=odd", ";block_table=long_table"),
              InputForm.DECODER: (";cache=halves", ";cache=after_another", ";cache=growing")}.get(form, ("",))
    for granularity in granularities:
        for more in values:
            yield posed(form, f"int8/{granularity}/odd", more)


@pytest.mark.parametrize("name", ["packed_one_by_one", "packed_block_mask", "paged_side_by_side", "paged_one_by_one",
                                  "decoder_concatenating", "decoder_preallocated", "decoder_in_a_ring"])
def test_right_functions_of_a_form_are_right_with_codes(name: str) -> None:
    subject = own_subject(f"sound/{name}")
    assert not any(departs(subject, problem) for problem in problems(subject.declaration.form))


FAULTS = {fault.name: fault for fault in mistakes_of_forms.FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_a_form_departs(name: str) -> None:
    subject, form = own_subject(f"fault/{name}"), FAULTS[name].form
    ways = {InputForm.PAGED: (";block_table=shuffled",), InputForm.DECODER: (";cache=halves",)}.get(form, ("",))
    posed = [with_zeros(form, "token", each) for each in ways] if "_zero" in name else problems(form)
    assert any(departs(subject, problem) for problem in posed)


def seen(form: InputForm, limits: Limits, problem: Problem) -> dict[str, Array]:
    """The arrays that a function of a form gets, by position and by name."""
    got: dict[str, Array] = {}

    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a cache is among it)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), or as they lie in the form -> output (B,H,T,Dv)."""
        got.update({"query": query, "key": key, "value": value, **{
            name: each for name, each in keywords.items() if isinstance(each, np.ndarray)}})
        output = np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
        return (output, None) if form is InputForm.DECODER else output

    subject(form, attend, limits).answer(problem)
    return got


def subject(form: InputForm, attend: Callable[..., Any], limits: Limits) -> Subject:
    """A function of a form, as attnspec calls it."""
    keywords = FORMED.get(form, frozenset(KEYWORDS))
    declared = Declaration(form=form, keywords=keywords, limits=replace(limits, grouped=True))
    return Subject("mine", "mine", InProcess(attend), declared, FileLocation("mine.py"), Library("mine", "mine", ""))


INT8 = {"stored_key": "int8", "stored_value": "int8"}


@pytest.mark.parametrize(("granularity", "shape"), [
    ("tensor", ()), ("batch", (3,)), ("head", (2,)), ("batch_head", (3, 2)), ("channel", (2, 6))])
def test_scales_that_tokens_share_have_the_shape_of_their_granularity(
        granularity: str, shape: tuple[int, ...]) -> None:
    limits = Limits(**INT8, key_scales=granularity)  # type: ignore[arg-type]  # by name
    for form in OF_FORM:
        assert seen(form, limits, posed(form, f"int8/{granularity}/odd"))["key_scale"].shape == shape


def test_scales_of_packed_tokens_are_packed_as_their_codes_are() -> None:
    problem = posed(InputForm.PACKED)
    got = seen(InputForm.PACKED, Limits(**INT8, key_scales="token", value_scales="token"), problem)  # type: ignore[arg-type]  # by name
    assert got["key"].dtype == np.int8
    assert got["key_scale"].shape == got["key"].shape[:2]
    assert problem.key_lengths is not None
    assert problem.key_scale is not None
    first = int(problem.key_lengths[0])
    np.testing.assert_array_equal(got["key_scale"][first], problem.key_scale[1, :, 0, 0])


@pytest.mark.parametrize("granularity", ["token", "page"])
def test_scales_lie_in_the_pages_of_their_codes(granularity: str) -> None:
    problem = posed(InputForm.PAGED, f"int8/{granularity}/odd", ";block_table=shuffled")
    got = seen(InputForm.PAGED, Limits(**INT8, key_scales=granularity), problem)  # type: ignore[arg-type]  # by name
    pages, slots = got["key"].shape[:2]
    assert got["key_scale"].shape == ((pages, slots, 2) if granularity == "token" else (pages, 2))
    assert problem.key_scale is not None
    page = got["block_table"][1, 1]  # keys 4 to 7 of the second entry
    np.testing.assert_array_equal(got["key"][page].swapaxes(0, 1), problem.key[1, :, 4:8])
    own = got["key_scale"][page] if granularity == "page" else got["key_scale"][page, 0]
    np.testing.assert_array_equal(own, problem.key_scale[1, :, 4, 0])


def test_scales_of_any_granularity_broadcast_to_codes_in_every_form() -> None:
    for form in (InputForm.PACKED, InputForm.PAGED):
        for granularity in ("tensor", "batch", "head", "batch_head", "channel", "token"):
            got = seen(form, Limits(), posed(form, f"int8/{granularity}/odd"))
            assert np.broadcast_to(got["key_scale"], got["key"].shape).shape == got["key"].shape


def test_a_call_of_a_decoder_gets_the_scales_of_its_own_codes() -> None:
    problem = posed(InputForm.DECODER, "int8/token/odd", ";cache=halves")
    got = seen(InputForm.DECODER, Limits(**INT8, key_scales="token", value_scales="token"), problem)  # type: ignore[arg-type]  # by name
    assert problem.key_scale is not None
    np.testing.assert_array_equal(got["key_scale"], problem.key_scale[:, :, problem.past:, 0])
    assert got["key"].dtype == np.int8


def test_scales_of_pages_that_differ_within_a_page_are_not_put() -> None:
    problem = posed(InputForm.PAGED, "int8/token/odd", ";block_table=shuffled")
    mine = subject(InputForm.PAGED, lambda *_, **__: None, Limits(key_scales="page"))
    assert mine.refuses(problem) == "the scales of its key differ within a page"
    assert not mine.refuses(posed(InputForm.PAGED, "int8/page/odd", ";block_table=shuffled"))


@pytest.mark.parametrize("slots", [1, 3, 4, 16])
def test_keys_of_one_page_share_a_scale(slots: int) -> None:
    made = scales("key_scale", "int8/page/odd", 3, Sizes(2, 2, 2, 1, 10, 4, 4), slots)[:, :, :, 0]
    blocks = [made[:, :, first:first + slots] for first in range(0, 10, slots)]
    assert all((block == block[:, :, :1]).all() for block in blocks)
    assert all((one[:, :, 0] != other[:, :, 0]).any() for one, other in pairwise(blocks))


def with_zeros(form: InputForm, granularity: str, values: str = "") -> Problem:
    """A problem of UINT8 codes with scales and zero points of keys and values, in a form."""
    features, own = OF_FORM[form]
    text = ";".join(f"{array}_scale=uint8/{granularity}/odd;{array}_zero=spread" for array in ("key", "value"))
    return make_problem(Recipe.parse(RECIPE.format(
        f"{features}+key_scale+value_scale+key_zero+value_zero", f"{own}{text}{values}")), DType.FLOAT32)


@pytest.mark.parametrize("name", ["packed_one_by_one", "paged_side_by_side", "decoder_concatenating"])
def test_right_functions_of_a_form_take_zero_points_off(name: str) -> None:
    subject = own_subject(f"sound/{name}")
    assert not any(departs(subject, with_zeros(subject.declaration.form, granularity))
                   for granularity in ("token", "head"))


def test_a_decoder_of_a_fault_keeps_zero_points_beside_its_codes() -> None:
    right = coded_decoder({})
    mine = subject(InputForm.DECODER, right(), Limits())
    for values in (";cache=halves", ";cache=growing"):
        assert not departs(mine, with_zeros(InputForm.DECODER, "token", values))


@pytest.mark.parametrize("form", OF_FORM)
def test_zero_points_lie_as_their_scales_do(form: InputForm) -> None:
    limits = Limits(stored_key="uint8", stored_value="uint8", key_scales="token", value_scales="token", zeros="codes")
    got = seen(form, limits, with_zeros(form, "token"))
    assert got["key_zero"].shape == got["key_scale"].shape
    assert got["key_zero"].dtype == np.uint8


def test_zero_points_of_a_page_are_one() -> None:
    problem = with_zeros(InputForm.PAGED, "page", ";block_table=shuffled")
    limits = Limits(stored_key="uint8", stored_value="uint8", key_scales="page", value_scales="page")
    got = seen(InputForm.PAGED, limits, problem)
    assert got["key_zero"].shape == (len(got["key"]), 2)


@pytest.mark.parametrize("form", OF_FORM)
def test_nibbles_share_bytes_along_the_features_in_any_form(form: InputForm) -> None:
    limits = Limits(stored_key="int4", packed_key="low_first", key_scales="head")
    problem = posed(form, "int4/head/odd")
    got, apart = seen(form, limits, problem), seen(form, replace(limits, packed_key=""), problem)
    assert got["key"].dtype == np.uint8
    assert got["key"].shape == (*apart["key"].shape[:-1], 3)
    np.testing.assert_array_equal(got["key"] & 15, apart["key"][..., ::2].view(np.uint8) & 15)


def test_past_nibbles_are_packed_as_new_ones() -> None:
    problem = make_problem(Recipe.parse(RECIPE.format(
        "past_key+past_value+key_scale", "past_key=half;key_scale=int4/head/odd")), DType.FLOAT32)
    got = seen(InputForm.DENSE, Limits(stored_key="int4", packed_key="halves", key_scales="head"), problem)
    assert got["past_key"].dtype == np.uint8
    assert got["past_key"].shape == (3, 2, 5, 3)
    assert got["key"].shape == (3, 2, 6, 3)


def test_exponents_of_blocks_are_numbers_in_unused_slots() -> None:
    recipe = ("B2,H2,Hkv2,T2,S40,D70,Dv6;mask=none;families=normal;with=block_table+key_lengths+key_scale;"
              "key_scale=mxfp8/block(32)/powers;seed=3")
    limits = Limits(stored_key="mxfp8")
    got = seen(InputForm.PAGED, limits, make_problem(Recipe.parse(recipe), DType.FLOAT32))
    assert got["key_scale"].shape == (*got["key"].shape[:3], 3)
    assert got["key_scale"].dtype.name == "float8_e8m0fnu"
    assert np.isfinite(got["key_scale"].astype(np.float32)).all()


def test_pages_of_the_same_codes_and_other_scales_are_two() -> None:
    problem = posed(InputForm.PAGED, "int8/token/odd", ";block_table=shared")
    alike = problem.but(key=np.ones_like(problem.key), value=np.ones_like(problem.value))
    ones = {name: np.ones_like(getattr(problem, name)) for name in ("key_scale", "value_scale")}
    limits = Limits(**INT8, key_scales="token", value_scales="token")  # type: ignore[arg-type]  # by name
    full = np.s_[:, :5]  # of pages of two slots; the last key has a page of its own
    assert len(np.unique(seen(InputForm.PAGED, limits, alike.but(**ones))["block_table"][full])) == 1
    apart = seen(InputForm.PAGED, limits, alike)
    assert len(np.unique(apart["block_table"][full])) == 15
    assert problem.key_scale is not None
    np.testing.assert_array_equal(apart["key_scale"][apart["block_table"][2, 1], 0], problem.key_scale[2, :, 2, 0])


@pytest.mark.parametrize(("granularity", "shape"), [
    ("head", (2,)), ("tensor", ()), ("token", (0, 2, 4)), ("", (0, 1, 1, 1))])
def test_scales_of_no_entries_have_their_shape_all_the_same(granularity: str, shape: tuple[int, ...]) -> None:
    empty = {"key": np.zeros((0, 2, 4, 8), np.float32)}
    scale = {"key_scale": np.ones((0, 2, 4, 8), np.float32)}
    _, keywords = hand_over(empty, scale, Limits(stored_key="int8", key_scales=granularity))
    assert np.asarray(keywords["key_scale"]).shape == shape


BLOCKS = {"stored_key": "int8", "key_scales": "tokens(16)"}
NIBBLES = {"stored_key": "int4", "packed_key": "low_first_tokens"}


BY_BLOCKS = "its key has scales by tokens(16), and "
OF_A_BYTE = "it packs neighbouring tokens of its key, and two of a byte may belong to "


@pytest.mark.parametrize(("form", "limits", "reason"), [
    (InputForm.PACKED, BLOCKS, f"{BY_BLOCKS}a sequence may begin within a block (declare token)"),
    (InputForm.PAGED, BLOCKS, f"{BY_BLOCKS}a page may end within a block (declare page or token)"),
    (InputForm.DECODER, BLOCKS, f"{BY_BLOCKS}a call may begin within a block (declare token)"),
    (InputForm.PACKED, NIBBLES, f"{OF_A_BYTE}two sequences (declare a layout along the features)"),
    (InputForm.PAGED, NIBBLES, f"{OF_A_BYTE}two pages (declare a layout along the features)"),
    (InputForm.DECODER, NIBBLES, f"{OF_A_BYTE}two calls (declare a layout along the features)"),
    (InputForm.PACKED, {"key_scales": "page"},
     "scales of its key are declared by page, and its keys lie in none (declare token, or another)"),
])
def test_what_has_no_meaning_in_a_form_is_refused_with_a_reason(form: InputForm, limits: dict[str, str],
                                                                reason: str) -> None:
    mine = subject(form, lambda *_, **__: None, Limits(**limits))  # type: ignore[arg-type]  # by name
    assert mine.refuses(posed(form, "int4/tensor/ones")) == reason


def test_tokens_of_a_byte_are_neither_past_nor_new_alone() -> None:
    recipe = RECIPE.format("past_key+past_value+key_scale", "past_key=half;key_scale=int4/head/odd")
    limits = Limits(**NIBBLES, grouped=True)  # type: ignore[arg-type]  # by name
    problem = make_problem(Recipe.parse(recipe), DType.FLOAT32)
    assert misfit(problem, limits) == f"{OF_A_BYTE}past and new keys (declare a layout along the features)"
