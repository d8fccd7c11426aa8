"""Batch entries with lengths of their own: what is seen, how lengths are made, and the words that speak of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.aspects.lengths import words as lengths
from attnspec.aspects.lengths.keyword import LENGTH_PATTERNS, USUAL_LENGTHS
from attnspec.aspects.lengths.words import QUESTIONS
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.keywords import COUNTS, KEYWORDS
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.staged import attention
from attnspec.faults.staged_work import HandedOver
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.operands import visible_keys
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import cut_blocks
from attnspec.problems.domain import domain
from attnspec.problems.keyword_arrays import NEUTRAL_PATTERNS, keyword_array, sample_array
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.questions.asker import Asker, reply_to
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.registry import load_target
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes

SIZES = Sizes(4, 2, 2, 5, 7, 4, 4)
CONVENTIONS = {"causal_alignment": "top_left", "mask_with_causal": "both"}
BOTTOM_RIGHT = {**CONVENTIONS, "causal_alignment": "bottom_right"}


def problem(more: str = "", *, keys: object = None, queries: object = None, dtype: DType = DType.FLOAT32,
            **sizes: int) -> Problem:
    n = replace(SIZES, **sizes)
    mask = "random" if "mask" in more else "none"
    features = f";with={'+'.join(more.split())}" if more else ""
    text = f"B{n.B},H{n.H},Hkv{n.Hkv},T{n.T},S{n.S},D{n.D},Dv{n.Dv};mask={mask};families=normal{features};seed=3"
    given = {"key_lengths": keys, "query_lengths": queries}
    return make_problem(Recipe.parse(text), dtype).but(**{
        name: None if each is None else np.array(each, np.int32) for name, each in given.items()})


def posed(made: Problem, conventions: dict[str, str] | None = None) -> Posed[Problem]:
    return Posed((made,), conventions=conventions or CONVENTIONS)


# What is seen


@pytest.mark.parametrize("conventions", [CONVENTIONS, BOTTOM_RIGHT], ids=["top_left", "bottom_right"])
@pytest.mark.parametrize(("more", "window"), [("", None), ("causal", None), ("", (1, 0)), ("causal mask", (2, 1))])
@pytest.mark.parametrize(("keys", "queries"), [
    ([7, 3, 1, 0], None), (None, [5, 2, 1, 0]), ([4, 7, 2, 5], [5, 1, 3, 2])])
def test_a_key_is_seen_if_lengths_and_all_else_allow_it(
        keys: list[int] | None, queries: list[int] | None, more: str, window: tuple[int, int] | None,
        conventions: dict[str, str]) -> None:
    made = problem(more, keys=keys, queries=queries).but(window=window)
    visible = visible_keys(made, conventions)
    for b, i, j in product(range(4), range(5), range(7)):
        n, t = keys[b] if keys else 7, queries[b] if queries else 5
        place = i + (n - t if conventions is BOTTOM_RIGHT else 0)
        seen = j < n and i < t and (j <= place or not made.causal)
        seen = seen and (window is None or place - window[0] <= j <= place + window[1])
        expected = made.mask[b, :, i, j] & seen if made.mask is not None else seen
        assert (visible[b, :, i, j] == expected).all()


def test_rows_beyond_the_queries_are_not_claimed() -> None:
    made = problem("causal", queries=[5, 2, 1, 0])
    claimed = expect(made, declared_precision(None, DType.FLOAT32), conventions=CONVENTIONS).claimed
    np.testing.assert_array_equal(claimed[:, 0], np.arange(5) < np.array([[5], [2], [1], [0]]))


def test_nan_beyond_the_queries_spoils_no_other_row() -> None:
    made = problem(queries=[5, 2, 1, 3])
    plain = expect(made, declared_precision(None, DType.FLOAT32), conventions=CONVENTIONS)
    made.query[1:3, :, 2:] = np.nan
    poisoned = expect(made, declared_precision(None, DType.FLOAT32), conventions=CONVENTIONS)
    np.testing.assert_array_equal(poisoned.claimed, plain.claimed)
    np.testing.assert_array_equal(poisoned.output[plain.claimed], plain.output[plain.claimed])


def test_blocks_cut_the_lengths_with_their_batch_entries() -> None:
    made = problem(B=4, T=300, S=300, keys=[300, 7, 1, 150], queries=[300, 5, 9, 1])
    found = list(cut_blocks(made, CONVENTIONS))
    assert len(found) > 1
    for block in found:
        rows = np.arange(block.place[2].start, block.place[2].stop)
        np.testing.assert_array_equal(block.operands.visible, visible_keys(made, CONVENTIONS, rows)[block.place[:2]])


def test_without_lengths_nothing_is_hidden() -> None:
    assert visible_keys(problem(), CONVENTIONS).all()


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16])
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound, patterns = sound_named(name), [*USUAL_LENGTHS, "with_zero"]
    declared = {"grade": sound.grade} if dtype in (DType.FLOAT16, DType.BFLOAT16) else None
    for seed, (of_keys, of_queries) in enumerate(product(patterns, (*patterns[:2], ""))):
        features = f"causal+key_lengths{of_queries and '+query_lengths'}"
        with_queries = of_queries and f"query_lengths={of_queries};"
        text = (f"B3,H2,Hkv1,T9,S21,D8,Dv4;mask=none;families=normal+log_normal;with={features};"
                f"key_lengths={of_keys};{with_queries}seed={seed}")
        made = make_problem(Recipe.parse(text), dtype)
        expected = expect(made, declared_precision(declared, dtype), conventions=CONVENTIONS)
        answer = sound.function(made.query, made.key, made.value, **made.given)
        assert isinstance(answer, np.ndarray)
        error = np.abs(answer.astype(np.longdouble) - expected.output)
        assert (error <= expected.output_allowance)[expected.claimed].all()
        if made.query_lengths is not None:
            beyond = np.arange(9) >= made.query_lengths[:, None]
            assert (answer.swapaxes(1, 2)[beyond] == 0).all()


# How they are made


@pytest.mark.parametrize("keyword", ["key_lengths", "query_lengths"])
@pytest.mark.parametrize("pattern", LENGTH_PATTERNS)
def test_lengths_lie_between_none_and_all(keyword: str, pattern: str) -> None:
    most = {"key_lengths": 7, "query_lengths": 5}[keyword]
    for seed in range(20):
        made = keyword_array(keyword, pattern, seed, SIZES)
        assert made.shape == (4,)
        assert made.dtype == np.int32
        assert made.min() >= (0 if pattern == "with_zero" else 1)
        assert made.max() <= most


def test_patterns_are_what_they_are_called() -> None:
    def made(pattern: str, seed: int = 1, **sizes: int) -> list[int]:
        return list(map(int, keyword_array("key_lengths", pattern, seed, replace(SIZES, **sizes))))

    assert made("full") == [7] * 4
    assert made("one_short") == [6] * 4
    assert made("one_short", S=1) == [1] * 4
    assert made("shortest") == [1] * 4
    assert made("first_full")[0] == 7
    assert made("first_full")[1:] == made("ragged")[1:]
    assert made("with_zero", B=1) == [0]
    assert {tuple(np.flatnonzero(np.array(made("with_zero", seed)) == 0).tolist()) for seed in range(9)} == {
        (0, 2), (1, 3)}
    assert len({tuple(made("ragged", seed)) for seed in range(9)}) > 5


def test_keys_and_queries_have_lengths_of_their_own() -> None:
    square = replace(SIZES, T=99, S=99)
    assert keyword_array("key_lengths", "ragged", 1, square).tolist() != keyword_array(
        "query_lengths", "ragged", 1, square).tolist()


def test_a_recipe_with_lengths_is_read_back() -> None:
    text = ("B2,H1,Hkv1,T5,S7,D8,Dv8;mask=none;families=normal;with=key_lengths+query_lengths;key_lengths=one_short;"
            "query_lengths=full;seed=1")
    recipe = Recipe.parse(text)
    assert recipe.text == text
    made = make_problem(recipe, DType.FLOAT32)
    assert made.key_lengths is not None
    assert made.query_lengths is not None
    assert (made.key_lengths.tolist(), made.query_lengths.tolist()) == ([6, 6], [5, 5])


def test_an_unknown_pattern_of_lengths_is_told() -> None:
    with pytest.raises(UsageError) as raised:
        Recipe.parse("B2,H1,Hkv1,T5,S7,D8,Dv8;mask=none;families=normal;with=key_lengths;key_lengths=raged;seed=1")
    assert str(raised.value) == "this is no recipe: key_lengths=raged names no pattern. Did you mean 'ragged'?"


def test_an_unknown_pattern_in_a_clause_is_told() -> None:
    with pytest.raises(SpecError) as raised:
        domain(key_length_patterns=["raged"])  # type: ignore[list-item]  # that is the mistake
    assert str(raised.value) == "'raged' is not a known pattern of lengths. Did you mean 'ragged'?"


def test_an_empty_entry_is_drawn_only_where_a_clause_asks_for_it() -> None:
    assert "with_zero" not in domain(always=["key_lengths"]).values["key_lengths"]
    assert domain(key_length_patterns=["with_zero"]).values["key_lengths"] == ("with_zero",)


@pytest.mark.parametrize("keyword", COUNTS)
def test_the_neutral_pattern_changes_no_answer(keyword: str) -> None:
    made = problem("causal")
    neutral = made.but(**{keyword: keyword_array(keyword, NEUTRAL_PATTERNS[keyword], 0, SIZES)})
    for conventions in (CONVENTIONS, BOTTOM_RIGHT):
        np.testing.assert_array_equal(visible_keys(neutral, conventions), visible_keys(made, conventions))


def test_the_sample_that_a_diagnosis_looks_at_hides_something() -> None:
    assert (sample_array("key_lengths", SIZES, DType.FLOAT32) < 7).any()
    assert (sample_array("query_lengths", SIZES, DType.FLOAT32) < 5).any()


# Words


def test_lengths_as_a_mask_hide_the_same_keys() -> None:
    start = posed(problem("causal", keys=[7, 3, 1, 0], queries=[5, 2, 5, 1]), BOTTOM_RIGHT)
    after = lengths.lengths_as_mask(start).one
    assert after.keywords == {"mask"}
    np.testing.assert_array_equal(visible_keys(after, BOTTOM_RIGHT), visible_keys(start.one, BOTTOM_RIGHT))


def test_full_lengths_are_handed_over() -> None:
    start = posed(problem())
    after = lengths.with_lengths(lengths.with_lengths(start, keyword="key_lengths", to="all"), keyword="query_lengths",
                                 to="all").one
    assert after.key_lengths is not None
    assert after.query_lengths is not None
    assert (after.key_lengths.tolist(), after.query_lengths.tolist()) == ([7] * 4, [5] * 4)


def test_entries_cut_to_their_lengths_see_the_same_keys() -> None:
    start = posed(problem("causal mask bias", keys=[7, 3, 1, 4], queries=[5, 2, 5, 1]), BOTTOM_RIGHT)
    parts = lengths.cut_to_lengths(start, along="batch").parts
    assert [part.sizes.S for part in parts] == [7, 3, 1, 4]
    for entry, part in enumerate(parts):
        assert part.key_lengths is None
        np.testing.assert_array_equal(visible_keys(part, BOTTOM_RIGHT)[0],
                                      visible_keys(start.one, BOTTOM_RIGHT)[entry, ..., : part.sizes.S])


@pytest.mark.parametrize("keys", [None, [7, 0, 1, 2]])
def test_an_entry_without_keys_cannot_be_cut(keys: list[int] | None) -> None:
    with pytest.raises(NoClaim, match="a batch entry has no key to keep"):
        lengths.cut_to_lengths(posed(problem(keys=keys)), along="batch")


def test_only_what_lies_beyond_is_replaced() -> None:
    start = posed(problem(keys=[7, 3, 1, 0], queries=[5, 2, 5, 1]))
    after = lengths.replace_beyond(start, arrays=("query", "key", "value"), content="nan").one
    for array, of in ((after.key, [7, 3, 1, 0]), (after.value, [7, 3, 1, 0]), (after.query, [5, 2, 5, 1])):
        beyond = np.arange(array.shape[2]) >= np.array(of)[:, None]
        np.testing.assert_array_equal(np.isnan(array).all(axis=(1, 3)), beyond)
        np.testing.assert_array_equal(np.isnan(array).any(axis=(1, 3)), beyond)


def test_where_nothing_lies_beyond_nothing_is_claimed() -> None:
    with pytest.raises(NoClaim, match="nothing lies beyond a length"):
        lengths.replace_beyond(posed(problem(keys=[7] * 4)), arrays=("key", "query"), content="large")


def test_what_would_overflow_is_not_claimed() -> None:
    made = problem(keys=[1] * 4, dtype=DType.FLOAT16)
    made.query[...] = 100
    with pytest.raises(NoClaim, match="a dot product with the new keys would overflow"):
        lengths.replace_beyond(posed(made), arrays=("key",), content="large")


@pytest.mark.parametrize(("made", "transform"), [
    (problem(keys=[7, 3, 1, 2]), axes.permute_keys), (problem(queries=[5, 2, 1, 3]), axes.permute_queries)])
def test_what_is_counted_is_not_reordered(made: Problem, transform: Any) -> None:  # noqa: ANN401  (a transform)
    with pytest.raises(NoClaim, match="_lengths counts what would be moved"):
        transform(posed(made), by=1)


def test_a_permuted_batch_keeps_its_lengths() -> None:
    after = axes.permute_batch(posed(problem(keys=[7, 3, 1, 2])), by=Drawn(5))
    assert after.one.key_lengths is not None
    order = np.argsort(after.back[0].index)
    assert after.one.key_lengths.tolist() == np.array([7, 3, 1, 2])[order].tolist()


# Subjects


MINE = """
import numpy as np

def attend(query, key, value, *, key_lengths=None):
    assert key_lengths.dtype == np.int32 and key_lengths.shape == (4,)
    return query * key_lengths[:, None, None, None].astype(query.dtype)
"""


def test_a_function_is_recognised_by_its_parameter(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    subject, made = load_target(f"{path}:attend", Surroundings()), problem(keys=[7, 3, 1, 2])
    assert subject.declaration.keywords == {"key_lengths"}
    expected = made.query * np.array([7, 3, 1, 2], np.float32)[:, None, None, None]
    np.testing.assert_array_equal(subject.answer(made).output, expected)


@pytest.mark.parametrize("name", ["key_lengths", "query_lengths"])
def test_other_names_are_known(name: str) -> None:
    assert set(KEYWORDS[name].other_names) <= set(KEYWORDS[name].parameters)


def test_conventions_of_lengths_are_probed() -> None:
    subject = sound_subject("sound/finite_minimum_mask")
    silent = replace(subject, declaration=replace(subject.declaration, conventions={}))
    found = probe_conventions(silent, DType.FLOAT32)
    assert (found["hidden_row.key_lengths"], found["beyond_length"]) == ("uniform", "zeros")


ANSWERS = {
    "sound/naive": {"key_lengths.form": "as_asked", "key_lengths.causal": "top_left", "hidden_row.key_lengths": "zeros",
                    "query_lengths.beyond": "zeros"},
    "sound/finite_minimum_mask": {"hidden_row.key_lengths": "uniform"},
    "fault/key_lengths_ignored": {"key_lengths.form": "ignored"},
    "fault/key_lengths_one_longer": {"key_lengths.form": "one_more"},
    "fault/key_lengths_one_shorter": {"key_lengths.form": "one_less"},
    "fault/key_lengths_of_next": {"key_lengths.form": "neighbours"},
    "fault/key_lengths_of_first": {"key_lengths.form": "of_first"},
    "fault/key_lengths_from_the_end": {"key_lengths.form": "other"},
    "fault/key_lengths_shift_causal": {"key_lengths.causal": "from_lengths"},
    "fault/query_lengths_ignored": {"query_lengths.beyond": "unspecified"},
    "fault/query_lengths_beyond_nan": {"query_lengths.beyond": "unspecified"},
}


@pytest.mark.parametrize(("target", "question"), [
    (target, name) for target, known in ANSWERS.items() for name in known])
def test_a_probe_says_what_a_subject_does(target: str, question: str) -> None:
    subject = fault_subject(target) if target.startswith("fault") else sound_subject(target)
    ask = next(each.ask for each in QUESTIONS if each.name == question)
    reply = reply_to(lambda: ask(Asker(subject, DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == ANSWERS[target][question]


def test_the_staged_reference_clears_rows_beyond() -> None:
    made = problem(queries=[5, 2, 1, 0])
    output = attention(HandedOver(made.query, made.key, made.value, query_lengths=made.query_lengths))
    assert isinstance(output, np.ndarray)
    seen: Array = (output != 0).any(axis=(1, 3))
    np.testing.assert_array_equal(seen, np.arange(5) < np.array([[5], [2], [1], [0]]))
