"""Past keys and values: how problems are divided, the definition, and the words that speak of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.lengths import words as lengths
from attnspec.aspects.past import words
from attnspec.aspects.past.keyword import PAST_PATTERNS, USUAL_PASTS
from attnspec.aspects.past.words import QUESTIONS
from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.keyword import PastPattern
from attnspec.core.keywords import BESIDE, CACHED, KEYWORDS
from attnspec.core.nouns import DType, Effort
from attnspec.core.surroundings import Surroundings
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.operands import visible_keys
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import cut_blocks
from attnspec.problems.choices import menu_of
from attnspec.problems.domain import domain
from attnspec.problems.keyword_arrays import count_past, replace_values, split_past
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes, join_past
from attnspec.questions.asker import Asker, reply_to
from attnspec.subjects.interview import PLAIN, Case
from attnspec.subjects.registry import load_target
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes, contents

SIZES = Sizes(3, 4, 2, 3, 7, 4, 5)
HALVES = (DType.FLOAT16, DType.BFLOAT16)
BOTTOM_RIGHT = {"causal_alignment": "bottom_right", "mask_with_causal": "both"}
TOP_LEFT = {**BOTTOM_RIGHT, "causal_alignment": "top_left"}


def problem(pattern: str = "half", more: str = "", *, dtype: DType = DType.FLOAT32, seed: int = 3,
            **sizes: int) -> Problem:
    n, used = replace(SIZES, **sizes), sorted({*more.split(), "past_key", "past_value"})
    values = {"window": "window=2+1;", "key_lengths": "key_lengths=ragged;", "softcap": "softcap=2.0;"}
    text = (f"B{n.B},H{n.H},Hkv{n.Hkv},T{n.T},S{n.S},D{n.D},Dv{n.Dv};mask={'random' if 'mask' in more else 'none'};"
            f"families=normal;with={'+'.join(used)};{''.join(values.get(each, '') for each in used)}"
            f"past_key={pattern};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def posed(made: Problem) -> Posed[Problem]:
    return Posed((made,), conventions=TOP_LEFT)


def output_of(made: Problem) -> Array:
    return expect(made, declared_precision(None, DType.FLOAT32), conventions=TOP_LEFT).output


def outputs_of(made: Posed[Problem]) -> Array:
    return np.concatenate([output_of(part) for part in made.parts], axis="BHT".index(made.join))


# How they are made


@pytest.mark.parametrize(("pattern", "T", "S", "past"), [
    ("new_as_queries", 3, 7, 4), ("new_as_queries", 7, 7, 3), ("new_as_queries", 9, 5, 2), ("half", 3, 7, 3),
    ("one_new", 3, 7, 6), ("one_past", 3, 7, 1), ("none", 3, 7, 0), ("one_new", 2, 1, 0), ("half", 1, 1, 0),
    ("one_past", 2, 1, 0), ("new_as_queries", 1, 1, 0)])
def test_a_pattern_says_how_many_keys_are_past(pattern: PastPattern, T: int, S: int, past: int) -> None:
    assert count_past(pattern, replace(SIZES, T=T, S=S)) == past


@pytest.mark.parametrize("pattern", PAST_PATTERNS)
def test_past_and_new_keys_are_those_of_the_same_problem_without(pattern: str) -> None:
    made, whole = problem(pattern), make_problem(Recipe.parse(
        "B3,H4,Hkv2,T3,S7,D4,Dv5;mask=none;families=normal;seed=3"), DType.FLOAT32)
    assert made.sizes == whole.sizes == SIZES
    assert made.key.shape[2] + made.past == 7
    np.testing.assert_array_equal(join_past(made).key, whole.key)
    np.testing.assert_array_equal(join_past(made).value, whole.value)
    assert join_past(made).keywords == frozenset()


def test_an_empty_past_is_drawn_only_where_a_clause_asks_for_it() -> None:
    assert domain(always=["past_key"]).values["past_key"] == USUAL_PASTS
    assert "none" not in USUAL_PASTS
    assert domain(past_patterns=["none"]).values["past_key"] == ("none",)


def test_keys_and_values_are_drawn_together() -> None:
    assert (BESIDE["past_key"], BESIDE["past_value"]) == ("past_value", "past_key")
    asked = domain(sometimes=["past_key"])
    assert asked.sometimes == {"past_key", "past_value"}
    menu = menu_of(asked, frozenset(CACHED), Limits(), Effort.QUICK)
    assert menu is not None
    drawn = {menu.recipe(bytes([byte, one, other, *[0] * (menu.length - 3)])).features & set(CACHED)
             for byte, one, other in product((0, 99, 200), (0, 255), (0, 255))}
    assert drawn == {frozenset(), frozenset(CACHED)}


def test_unknown_patterns_are_told() -> None:
    with pytest.raises(UsageError, match=r"past_key=halb names no pattern\. Did you mean 'half'\?"):
        problem("halb")
    with pytest.raises(SpecError, match=r"'halb' is not a known pattern of past keys\. Did you mean 'half'\?"):
        domain(past_patterns=["halb"])  # type: ignore[list-item]  # that is the mistake


def test_a_plain_case_with_a_past_has_both_of_them() -> None:
    made = Case(PLAIN, {"past_key": "half"}).make_problem(DType.FLOAT32)
    assert made.keywords == set(CACHED)
    assert made.sizes == PLAIN


# What is seen


@pytest.mark.parametrize("conventions", [TOP_LEFT, BOTTOM_RIGHT], ids=["top_left", "bottom_right"])
@pytest.mark.parametrize("pattern", PAST_PATTERNS)
@pytest.mark.parametrize("more", ["", "causal", "window", "causal window", "causal mask key_lengths"])
def test_a_query_stands_behind_the_past(more: str, pattern: str, conventions: dict[str, str]) -> None:
    made = problem(pattern, more)
    visible = visible_keys(made, conventions)
    for b, i, j in product(range(3), range(3), range(7)):
        place = made.past + i
        seen = (j <= place or not made.causal) and (made.window is None or place - 2 <= j <= place + 1)
        seen = seen and (made.key_lengths is None or j < made.key_lengths[b])
        expected = made.mask[b, :, i, j] & seen if made.mask is not None else seen
        assert (visible[b, :, i, j] == expected).all()


def test_the_truth_is_that_of_joined_keys() -> None:
    made = problem("half", "mask bias softcap")
    np.testing.assert_array_equal(output_of(made), output_of(join_past(made)))


def test_blocks_cut_the_past_with_batch_entries_and_heads() -> None:
    made = problem("half", B=5, H=6, Hkv=3, T=300, S=260)
    found = list(cut_blocks(made, TOP_LEFT))
    assert len(found) > 1
    whole = np.repeat(join_past(made).key.astype(np.float64), 2, axis=1)
    for block in found:
        np.testing.assert_array_equal(block.operands.key, whole[block.place[:2]])


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, *HALVES])
@pytest.mark.parametrize("name", DENSE)
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound = sound_named(name)
    declared = {"grade": sound.grade} if dtype in HALVES else None
    cases = product(PAST_PATTERNS, ("", "causal mask", "bias window", "key_lengths causal"))
    for seed, (pattern, more) in enumerate(cases):
        made = problem(pattern, more, dtype=dtype, seed=seed, T=5, S=19, D=8)
        expected = expect(made, declared_precision(declared, dtype), conventions=TOP_LEFT)
        output, weights = sound.function(made.query, made.key, made.value, **made.given, return_weights=True)
        for seen, truth, allowance in ((output, expected.output, expected.output_allowance),
                                       (weights, expected.weights, expected.weights_allowance)):
            error = np.abs(seen.astype(np.longdouble) - truth)
            assert (error <= allowance)[expected.claimed].all()


# Words


@pytest.mark.parametrize("more", ["", "mask bias", "causal", "causal window mask"])
def test_a_past_as_keys_gives_the_same_output(more: str) -> None:
    start = posed(problem("half", more))
    after = words.past_as_keys(start).one
    assert after.keywords <= {"mask", "bias"}
    assert ("mask" in after.keywords) == bool({"mask", "causal", "window"} & set(more.split()))
    np.testing.assert_array_equal(output_of(after), output_of(start.one))


def test_what_is_no_past_is_not_joined() -> None:
    with pytest.raises(NoClaim, match="there is no past"):
        words.past_as_keys(posed(join_past(problem())))
    sloped = problem().but(alibi_slopes=np.ones(4, np.float32))
    with pytest.raises(NoClaim, match="what counts from a query's own place would count from another"):
        words.past_as_keys(posed(sloped))


@pytest.mark.parametrize("more", ["causal", "causal mask bias", "causal window"])
@pytest.mark.parametrize("has_past", [True, False])
def test_chunks_give_the_output_of_the_whole(more: str, has_past: bool) -> None:
    made = problem("new_as_queries", more, T=5, S=9) if has_past else join_past(problem("none", more, T=6, S=6))
    whole = output_of(made)
    for cut in range(made.sizes.T - 1):
        for change in (words.in_chunks, words.token_by_token):
            after = change(posed(made), cut=Drawn(cut))
            np.testing.assert_allclose(outputs_of(after), whole, rtol=1e-12)
    assert [part.sizes.T for part in words.in_chunks(posed(made), cut=Drawn(1)).parts] == [2, made.sizes.T - 2]
    assert {part.sizes.T for part in words.token_by_token(posed(made), cut=Drawn(0)).parts} == {1}


def test_the_first_chunk_has_a_past_only_where_the_whole_has_one() -> None:
    first, second = words.in_chunks(posed(join_past(problem("none", "causal", T=6, S=6))), cut=Drawn(2)).parts
    assert (first.has_past, second.past) == (False, 3)


def test_no_more_than_sixteen_tokens_have_a_call_of_their_own() -> None:
    parts = words.token_by_token(posed(join_past(problem("none", "causal", T=40, S=40))), cut=Drawn(3)).parts
    assert [part.sizes.T for part in parts] == [24, *[1] * 16]


@pytest.mark.parametrize(("made", "why"), [
    (problem("half", "causal", T=3, S=7), "queries and new keys are not one sequence"),
    (problem("new_as_queries", "causal key_lengths", T=3, S=7), "key_lengths counts what would be cut"),
    (problem("new_as_queries", "causal", T=1, S=7), "there is one chunk only")])
def test_what_cannot_be_cut_makes_no_claim(made: Problem, why: str) -> None:
    with pytest.raises(NoClaim, match=why):
        words.in_chunks(posed(made), cut=Drawn(0))


def test_an_empty_past_is_handed_over() -> None:
    after = words.with_past(posed(join_past(problem())), to="nothing").one
    assert after.keywords == set(CACHED)
    assert (after.past, after.sizes.S) == (0, 7)


def test_slots_beyond_a_length_are_replaced_in_past_and_new_keys() -> None:
    made = problem("half", "key_lengths").but(key_lengths=np.array([2, 4, 7], np.int32))
    after = lengths.replace_beyond(posed(made), arrays=("past_key", "past_value", "key", "value"), content="nan").one
    beyond = np.arange(7) >= np.array([[2], [4], [7]])
    for array in (join_past(after).key, join_past(after).value):
        np.testing.assert_array_equal(np.isnan(array).all(axis=(1, 3)), beyond)
        np.testing.assert_array_equal(np.isnan(array).any(axis=(1, 3)), beyond)


def test_without_a_past_mask_and_bias_have_no_columns_of_it() -> None:
    start = posed(problem("half", "mask bias"))
    after = contents.leave_out(start, keyword="past_key").one
    assert after.keywords == {"mask", "bias"}
    assert start.one.mask is not None
    assert after.mask is not None
    assert after.bias is not None
    np.testing.assert_array_equal(after.mask, start.one.mask[..., 3:])
    assert after.bias.shape[-1] == after.sizes.S == 4


def test_a_permuted_batch_keeps_its_pasts() -> None:
    start = posed(problem())
    after = axes.permute_batch(start, by=Drawn(5))
    order = np.argsort(after.back[0].index)
    assert after.one.past_value is not None
    assert start.one.past_value is not None
    np.testing.assert_array_equal(after.one.past_value, start.one.past_value[order])


def test_keys_of_which_some_are_past_are_not_reordered() -> None:
    with pytest.raises(NoClaim, match="some keys are past"):
        axes.permute_keys(posed(problem()), by=Drawn(1))


def test_other_values_are_divided_as_the_old_ones_were() -> None:
    made = problem("one_past")
    value = np.arange(2 * 7 * 3, dtype=np.float32).reshape(1, 2, 7, 3).repeat(3, axis=0)
    after = replace_values(made, value)
    assert after.past == 1
    np.testing.assert_array_equal(join_past(after).value, value)
    np.testing.assert_array_equal(join_past(after).key, join_past(made).key)


def test_a_divided_problem_is_divided_anew() -> None:
    made = problem("half")
    assert split_past(made, 5).past == 5
    np.testing.assert_array_equal(join_past(split_past(made, 5)).key, join_past(made).key)


# Subjects


MINE = """
import numpy as np

def attend(query, key, value, *, past_key=None, past_value=None):
    assert past_key.shape[2] == past_value.shape[2] == 3 and key.shape[2] == value.shape[2] == 4
    return np.broadcast_to(past_value[:, :1, :1], (3, 4, 3, 5)) + value[:, :1, :1]
"""


def test_a_function_is_recognised_by_its_parameters(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    subject, made = load_target(f"{path}:attend", Surroundings()), problem()
    assert subject.declaration.keywords == set(CACHED)
    assert made.past_value is not None
    expected = np.broadcast_to(made.past_value[:, :1, :1] + made.value[:, :1, :1], (3, 4, 3, 5))
    np.testing.assert_array_equal(subject.answer(made).output, expected)


@pytest.mark.parametrize("name", CACHED)
def test_other_names_of_the_past_are_known(name: str) -> None:
    assert set(KEYWORDS[name].other_names) <= set(KEYWORDS[name].parameters)


ANSWERS = {
    "sound/naive": {"past.form": "all", "past.causal": "behind"},
    "fault/past_ignored": {"past.form": "new_only"},
    "fault/past_value_lost": {"past.form": "other"},
    "fault/past_offset_forgotten": {"past.causal": "top_left"},
    "fault/past_offset_from_the_end": {"past.causal": "from_shape"},
    "fault/past_offset_twice": {"past.causal": "twice"},
    "fault/past_causal_one_ahead": {"past.causal": "other"},
    "fault/past_causal_dropped": {"past.causal": "everything"},
}


@pytest.mark.parametrize(("target", "question"), [
    (target, name) for target, known in ANSWERS.items() for name in known])
def test_a_probe_says_what_a_past_does(target: str, question: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    ask = next(each.ask for each in QUESTIONS if each.name == question)
    reply = reply_to(lambda: ask(Asker(subject, DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == ANSWERS[target][question]
