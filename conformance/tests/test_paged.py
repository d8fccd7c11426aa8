"""Keys and values in pages: how they are put there, who takes them so, and the words that speak of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.pages import words as pages
from attnspec.aspects.pages.faults import MISTAKES
from attnspec.aspects.pages.keyword import PAGE_PATTERNS, USUAL_PAGES
from attnspec.core.errors import SpecError, TargetError, UsageError
from attnspec.core.forms import InputForm
from attnspec.core.keyword import PagePattern
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.sound import SOUND, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.domain import domain
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe
from attnspec.spec.load import load_spec
from attnspec.subjects.serving_forms import LARGE_FILLER, PagedProblem, in_pages
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial, describe_case
from attnspec.vocabulary.scene import NoClaim, Posed
from helpers.subjects import load_source

HALVES = (DType.FLOAT16, DType.BFLOAT16)
TOP_LEFT = {"causal_alignment": "top_left", "mask_with_causal": "both"}
PAGED_SOUND = [name for name, sound in SOUND.items() if sound.form is InputForm.PAGED]


def problem(more: str = "", dtype: DType = DType.FLOAT32, *, pages: str = "shuffled", lengths: str = "ragged",
            sizes: str = "B3,H4,Hkv2,T4,S9,D4,Dv3", seed: int = 3) -> Problem:
    used = sorted({*more.split(), "block_table"})
    values = {"key_lengths": f"key_lengths={lengths};", "window": "window=2+0;", "softcap": "softcap=2.0;"}
    text = (f"{sizes};mask=none;families=normal;with={'+'.join(used)};"
            f"{''.join(values.get(each, '') for each in used)}block_table={pages};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def read(paged: PagedProblem, entry: int, key: int) -> tuple[Array, Array]:
    """The key (Hkv,D) and the value (Hkv,Dv) of a batch entry, by the table."""
    slots = paged.key.shape[1]
    page = paged.table[entry, key // slots]
    return paged.key[page, key % slots], paged.value[page, key % slots]


def unused(paged: PagedProblem) -> Array:
    """(pages,slots) bool: the slots in which no key of any entry stands."""
    most, slots = paged.key.shape[:2]
    is_free = np.ones((most, slots), bool)
    for row, length in zip(paged.table, paged.lengths, strict=True):
        for key in range(length):
            is_free[row[key // slots], key % slots] = False
    return is_free


# How they are put there


@pytest.mark.family(48)
@pytest.mark.parametrize("lengths", ["ragged", "full", "with_zero"])
@pytest.mark.parametrize("keys", [1, 2, 4, 9, 12])
@pytest.mark.parametrize("pattern", PAGE_PATTERNS)
def test_every_key_is_found_where_the_table_says(pattern: PagePattern, keys: int, lengths: str) -> None:
    made = problem("key_lengths", lengths=lengths, sizes=f"B3,H4,Hkv2,T4,S{keys},D4,Dv3")
    paged = in_pages(made, pattern)
    assert paged.table.dtype == paged.lengths.dtype == np.int32
    for entry, length in enumerate(paged.lengths):
        for key in range(length):
            found = read(paged, entry, key)
            np.testing.assert_array_equal(found[0], made.key[entry, :, key])
            np.testing.assert_array_equal(found[1], made.value[entry, :, key])


def test_without_lengths_every_entry_has_all_keys() -> None:
    assert in_pages(problem(), "shuffled").lengths.tolist() == [9, 9, 9]


@pytest.mark.parametrize(("pattern", "slots"), [("shuffled", 4), ("odd", 3), ("one_slot", 1), ("one_page", 9),
                                                ("shared", 2)])
def test_pages_have_as_many_slots_as_a_pattern_says(pattern: PagePattern, slots: int) -> None:
    assert in_pages(problem(), pattern).key.shape[1] == slots


@pytest.mark.parametrize("pattern", PAGE_PATTERNS)
def test_a_subject_gets_pages_of_the_lengths_that_it_takes(pattern: PagePattern) -> None:
    assert in_pages(problem(), pattern, 16).key.shape[1] % 16 == 0


@pytest.mark.parametrize(("keys", "slots"), [(8, 4), (9, 3), (10, 2), (11, 1), (1, 1)])
def test_pages_with_content_beyond_are_filled_by_all_keys(keys: int, slots: int) -> None:
    assert in_pages(problem(sizes=f"B3,H4,Hkv2,T4,S{keys},D4,Dv3"), "large_beyond").key.shape[1] == slots


def test_pages_in_order_lie_entry_by_entry() -> None:
    assert in_pages(problem(), "in_order").table.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert in_pages(problem(), "backwards").table.tolist() == [[8, 7, 6], [5, 4, 3], [2, 1, 0]]


@pytest.mark.parametrize("pattern", ["shuffled", "one_slot", "odd", "one_page"])
def test_shuffled_pages_do_not_lie_in_order(pattern: PagePattern) -> None:
    table = in_pages(problem(), pattern).table.reshape(-1)
    assert len(set(table)) == len(table)
    assert (np.diff(table) < 0).any()


@pytest.mark.parametrize("lengths", ["ragged", "with_zero"])
@pytest.mark.parametrize("pattern", ["long_table", "large_beyond", "nan_beyond", "no_page_beyond"])
def test_long_tables_have_more_columns_than_are_needed(pattern: PagePattern, lengths: str) -> None:
    paged = in_pages(problem("key_lengths", lengths=lengths), pattern)
    assert paged.table.shape[1] == -(-paged.lengths.max() // paged.key.shape[1]) + 3


def test_beyond_the_keys_a_long_table_names_page_zero() -> None:
    paged = in_pages(problem("key_lengths"), "long_table")
    assert set(paged.table[:, -3:].reshape(-1)) == {0}


def test_beyond_the_keys_a_table_may_name_no_page() -> None:
    paged = in_pages(problem("key_lengths"), "no_page_beyond")
    assert set(paged.table[:, -2:].reshape(-1)) == {-1, len(paged.key) + 7}


@pytest.mark.parametrize(("pattern", "content"),
                         [("shuffled", 1.0), ("large_beyond", LARGE_FILLER), ("nan_beyond", np.nan)])
def test_unused_slots_hold_what_the_pattern_says(pattern: PagePattern, content: float) -> None:
    paged = in_pages(problem(), pattern)
    is_free = unused(paged)
    assert is_free.all(axis=1).sum() == 2
    np.testing.assert_array_equal(np.abs(paged.key[is_free]), np.full_like(paged.key[is_free], content))
    np.testing.assert_array_equal(np.abs(paged.value[is_free]), np.full_like(paged.value[is_free], content))


def test_where_large_numbers_lie_beyond_a_length_no_key_does() -> None:
    made = problem("key_lengths", lengths="shortest")
    paged = in_pages(made, "large_beyond")
    assert (np.abs(paged.key[unused(paged)]) == LARGE_FILLER).all()


def test_pages_with_the_same_content_are_shared() -> None:
    made = pages.share_prefix(Posed((problem(),)), along="batch").one
    own, shared = in_pages(made, "odd"), in_pages(made, "shared")
    assert len(set(own.table.reshape(-1))) == own.table.size
    assert (shared.table[:, :2] == shared.table[:1, :2]).all()
    assert (shared.table[:, 3:] != shared.table[[1, 2, 0], 3:]).all()


def test_a_pattern_of_pages_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match=r"block_table=shufled names no pattern\. Did you mean 'shuffled'"):
        problem(pages="shufled")
    with pytest.raises(SpecError, match="'od' is not a known pattern of pages"):
        domain(page_patterns=["od"])  # type: ignore[list-item]  # what YAML may hold


# The words


def test_entries_that_share_a_prefix_begin_alike_and_end_apart() -> None:
    made = problem()
    after = pages.share_prefix(Posed((made,)), along="batch").one
    assert (after.key[:, :, :5] == made.key[:1, :, :5]).all()
    assert (after.value[:, :, :5] == made.value[:1, :, :5]).all()
    np.testing.assert_array_equal(after.key[:, :, 5:], made.key[:, :, 5:])


def test_one_entry_alone_shares_nothing() -> None:
    with pytest.raises(NoClaim, match="there is one batch entry only"):
        pages.share_prefix(Posed((problem(sizes="B1,H4,Hkv2,T4,S9,D4,Dv3"),)), along="batch")


def test_large_numbers_that_would_overflow_are_not_put() -> None:
    made = problem(dtype=DType.FLOAT16)
    loud = made.but(query=np.full_like(made.query, 100))
    assert pages.with_pages(Posed((made,)), to="large_beyond").one.block_table == "large_beyond"
    assert pages.with_pages(Posed((loud,)), to="nan_beyond").one.block_table == "nan_beyond"
    with pytest.raises(NoClaim, match="a dot product with the content of unused slots would overflow"):
        pages.with_pages(Posed((loud,)), to="large_beyond")


def test_a_case_says_how_its_pages_lie() -> None:
    case = Recipe.parse("B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=integers;with=block_table+window;window=2+0;"
                        "block_table=odd;seed=0")
    check = compile_spec(load_spec())["paged.definition"]
    trial = Trial(check, Evaluator(fault_subject("fault/pages_in_order"), DType.FLOAT32), Effort.QUICK, 0,
                  lambda _: None)
    assert " float32 block_table=odd window, entries integers" in describe_case(trial, case)


# Who takes them


GATHERS = """
import numpy as np

def attend(query, key, value, *, block_table, key_lengths, causal=False, scale=None):
    output = np.zeros((*query.shape[:3], value.shape[-1]), query.dtype)
    for entry, length in enumerate(key_lengths):
        pages = block_table[entry, : -(-length // key.shape[1])]
        both = (array[pages].reshape(-1, *array.shape[2:])[:length] for array in (key, value))
        own_key, own_value = (array.swapaxes(0, 1) for array in both)
        logits = query[entry] @ own_key.swapaxes(1, 2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if causal:
            logits = np.where(np.tri(*logits.shape[1:], dtype=bool), logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-1e30))
        output[entry] = weights @ own_value / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    return output

attend.dtypes = ["float64"]
attend.grouped = False
"""


def test_a_paged_function_is_recognised_by_its_parameters(tmp_path: Path) -> None:
    declared = load_source(tmp_path, GATHERS).declaration
    assert declared.form is InputForm.PAGED
    assert declared.keywords == {"block_table", "key_lengths", "causal", "scale"}


@pytest.mark.parametrize("more", ["", "causal", "key_lengths"])
def test_a_paged_function_answers_dense_problems(tmp_path: Path, more: str) -> None:
    made = problem(more, DType.FLOAT64, sizes="B3,H2,Hkv2,T4,S9,D4,Dv3")
    expected = expect(made, declared_precision(None, made.dtype), conventions=TOP_LEFT).output
    for asked in (made, made.but(block_table=None), made.but(block_table="odd")):
        np.testing.assert_allclose(load_source(tmp_path, GATHERS).answer(asked).output, expected, rtol=1e-12)


@pytest.mark.parametrize(("parameters", "message"), [
    ("block_table", r"attend takes 'block_table' but not 'key_lengths'; a paged function takes both"),
    ("block_table, key_lengths, mask=None", r"attend is paged \(it takes block_table\) and takes 'mask', which has no "
                                            r"place beside pages\. A paged function may take alibi_slopes, causal, "),
    ("block_table, key_lengths, cu_query, cu_key", "takes 'cu_query', which has no place beside pages")])
def test_what_has_no_place_beside_pages_is_refused(tmp_path: Path, parameters: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        load_source(tmp_path, f"def attend(query, key, value, *, {parameters}):\n    return query\n")


def test_a_paged_function_is_not_asked_about_the_layout_of_its_arrays(tmp_path: Path) -> None:
    made = problem("", DType.FLOAT64, sizes="B3,H2,Hkv2,T4,S9,D4,Dv3")
    turned = made.but(query=np.asfortranarray(made.query))
    assert load_source(tmp_path, GATHERS).refuses(turned).endswith("so it is not asked about their layout")
    assert not load_source(tmp_path, GATHERS).refuses(made)


def test_keys_and_values_of_unlike_number_do_not_share_pages(tmp_path: Path) -> None:
    made = problem("", DType.FLOAT64, sizes="B3,H2,Hkv2,T4,S9,D4,Dv3")
    refused = load_source(tmp_path, GATHERS).refuses(made.but(value=made.value[:, :, :8].copy()))
    assert "a page holds a value for every key" in refused


def test_who_takes_pages_of_certain_lengths_is_given_no_others(tmp_path: Path) -> None:
    source = GATHERS.replace("    output =", "    assert key.shape[1] % 16 == 0, key.shape\n    output =")
    subject = load_source(tmp_path, f"{source}attend.page_multiple = 16\n")
    assert subject.declaration.limits.page_multiple == 16
    for pattern in USUAL_PAGES:
        subject.answer(problem("", DType.FLOAT64, pages=pattern, sizes="B3,H2,Hkv2,T4,S9,D4,Dv3"))


def test_a_dense_function_is_not_given_pages() -> None:
    assert sound_subject("naive").refuses(problem()) .endswith("naive takes no block_table")


# Sound formulations and faults


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", PAGED_SOUND)
def test_sound_paged_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    subject, sound = sound_subject(name), sound_named(name)
    precision = declared_precision({"grade": sound.grade} if dtype in HALVES else None, dtype)
    for seed, pattern in enumerate(PAGE_PATTERNS):
        more = ("", "causal", "key_lengths", "window key_lengths", "softcap causal")[seed % 5]
        made = problem(more, dtype, pages=pattern, seed=seed)
        expected = expect(made, precision, conventions=TOP_LEFT)
        error = np.abs(subject.answer(made).output.astype(np.longdouble) - expected.output)
        assert (error <= expected.output_allowance)[expected.claimed].all()


def test_there_are_two_sound_paged_formulations() -> None:
    assert len(PAGED_SOUND) == 2


def _subjects() -> Mapping[str, Subject]:
    return {fault.name: fault_subject(f"fault/{fault.name}") for fault in MISTAKES.about["block_table"]}


def test_every_fault_of_pages_takes_pages() -> None:
    assert {subject.declaration.form for subject in _subjects().values()} == {InputForm.PAGED}


@pytest.mark.family(1)
@pytest.mark.parametrize("fault", ["pages_in_order", "pages_of_keys_only", "pages_read_whole"])
def test_a_diagnosis_names_what_is_wrong_with_pages(fault: str) -> None:
    engine = Engine(Plan((f"fault/{fault}",), clauses=("paged.definition",), dtypes=(DType.FLOAT32,),
                         effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence
    assert fault in [each.fault for each in outcome.evidence.like]
