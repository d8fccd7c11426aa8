"""Segments: which keys a query sees, how they are made, and the words that speak of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.segments import words as segments
from attnspec.aspects.segments.keyword import SEGMENT_PATTERNS, USUAL_SEGMENTS
from attnspec.aspects.segments.words import QUESTIONS
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.operands import visible_keys
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import cut_blocks
from attnspec.problems.domain import domain
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.questions.asker import Asker, reply_to
from attnspec.subjects.registry import load_target
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes, contents
from attnspec.vocabulary.transforms.contents import replace_hidden

SIZES = Sizes(3, 2, 2, 9, 9, 4, 4)
CROSS = replace(SIZES, T=5)
HALVES = (DType.FLOAT16, DType.BFLOAT16)
TOP_LEFT = {"causal_alignment": "top_left", "mask_with_causal": "both"}
[FORM] = QUESTIONS


def problem(pattern: str = "ragged", more: str = "", dtype: DType = DType.FLOAT32, *, seed: int = 3,
            sizes: str = "B3,H2,Hkv2,T9,S9,D4,Dv4") -> Problem:
    used = sorted({*more.split(), "query_segments", "key_segments"})
    values = {"window": "window=2+0;", "softcap": "softcap=2.0;"}
    text = (f"{sizes};mask={'per_head' if 'mask' in used else 'none'};families=normal;with={'+'.join(used)};"
            f"{''.join(values.get(each, '') for each in used)}query_segments={pattern};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def both(made: Problem) -> tuple[Array, Array]:
    """The segments of queries (B,T) and of keys (B,S)."""
    assert made.query_segments is not None
    assert made.key_segments is not None
    return made.query_segments, made.key_segments


def output_of(made: Problem) -> Array:
    return expect(made, declared_precision(None, made.dtype), conventions=TOP_LEFT).output


# The arrays


@pytest.mark.parametrize("sizes", [SIZES, CROSS, replace(SIZES, T=1), replace(SIZES, S=1)])
@pytest.mark.parametrize("pattern", USUAL_SEGMENTS)
def test_usual_segments_leave_every_query_a_key(pattern: str, sizes: Sizes) -> None:
    for seed in range(9):
        of_queries, of_keys = (keyword_array(name, pattern, seed, sizes) for name in ("query_segments", "key_segments"))
        assert of_queries.dtype == of_keys.dtype == np.int32
        assert (of_queries.shape, of_keys.shape) == ((3, sizes.T), (3, sizes.S))
        assert all(set(mine) == set(theirs) for mine, theirs in zip(of_queries, of_keys, strict=True))


@pytest.mark.parametrize("pattern", sorted(SEGMENT_PATTERNS.keys() - {"keys_apart"}))
def test_segments_of_one_sequence_are_the_same(pattern: str) -> None:
    of_queries, of_keys = both(problem(pattern))
    np.testing.assert_array_equal(of_queries, of_keys)


@pytest.mark.parametrize(("pattern", "most"), [("ragged", 4), ("two", 2), ("by_turns", 3), ("padded", 4), ("one", 1)])
def test_there_are_as_many_segments_as_a_pattern_says(pattern: str, most: int) -> None:
    assert {len(set(row)) for row in both(problem(pattern))[0]} == {most}


def test_padding_is_the_last_segment_and_has_the_number_zero() -> None:
    of_queries, _ = both(problem("padded"))
    for row in of_queries:
        assert row[-1] == 0
        assert (np.diff(row[row > 0]) >= 0).all()
        assert (row[: (row > 0).sum()] > 0).all()


def test_borders_that_are_alike_are_the_same_in_every_entry() -> None:
    of_queries, _ = both(problem("alike"))
    assert of_queries.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1]] * 3


def test_keys_apart_have_a_last_key_that_nobody_sees() -> None:
    of_queries, of_keys = both(problem("keys_apart"))
    assert not np.isin(of_keys[:, -1], of_queries).any()
    assert np.isin(of_keys[:, :-1], of_queries).all()


def test_a_pattern_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"query_segments=raged names no pattern\. Did you mean 'ragged'"):
        problem("raged")
    with pytest.raises(SpecError, match="'tow' is not a known pattern of segments"):
        domain(segment_patterns=["tow"])  # type: ignore[list-item]  # what YAML may hold


def test_who_names_one_of_the_two_is_given_both() -> None:
    assert {"query_segments", "key_segments"} <= domain(always=["key_segments"]).always


# The definition


@pytest.mark.parametrize("more", ["", "mask", "causal", "window", "bias softcap"])
@pytest.mark.parametrize("pattern", SEGMENT_PATTERNS)
def test_segments_are_the_mask_of_the_same_keys(pattern: str, more: str) -> None:
    made = problem(pattern, more)
    of_queries, of_keys = both(made)
    same = np.array([[[query == key for key in keys] for query in queries]
                     for queries, keys in zip(of_queries, of_keys, strict=True)])[:, None]
    mask = np.broadcast_to(same if made.mask is None else same & made.mask, (3, 2, 9, 9))
    np.testing.assert_array_equal(
        output_of(made), output_of(made.but(query_segments=None, key_segments=None, mask=mask)))


def test_some_rows_see_what_they_see_among_all() -> None:
    made, rows = problem("by_turns", "causal"), np.array([1, 4, 8])
    np.testing.assert_array_equal(visible_keys(made, TOP_LEFT, rows), visible_keys(made, TOP_LEFT)[:, :, rows])


def test_blocks_are_cut_along_batch_and_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    made = problem("ragged", sizes="B3,H2,Hkv2,T9,S7,D4,Dv4")
    whole = output_of(made)
    monkeypatch.setattr("attnspec.numerics.reference.LOGITS_AT_ONCE", 20)
    assert len(list(cut_blocks(made, TOP_LEFT))) > 6
    np.testing.assert_array_equal(output_of(made), whole)


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", DENSE)
def test_sound_formulations_stay_within_the_bound(name: str, dtype: DType) -> None:
    sound = sound_named(name)
    precision = declared_precision({"grade": sound.grade} if dtype in HALVES else None, dtype)
    for seed, pattern in enumerate(USUAL_SEGMENTS):
        made = problem(pattern, ("", "causal", "mask", "bias window")[seed], dtype, seed=seed)
        expected = expect(made, precision, conventions=TOP_LEFT)
        output = sound.function(made.query, made.key, made.value, **made.given)
        assert isinstance(output, np.ndarray)
        error = np.abs(output.astype(np.longdouble) - expected.output)
        assert (error <= expected.output_allowance)[expected.claimed].all()


# The words


def test_segments_become_a_mask_joined_with_what_else_hides_keys() -> None:
    made = problem("two", "causal")
    after = segments.segments_as_mask(Posed((made,), conventions=TOP_LEFT)).one
    assert after.keywords == {"mask"}
    np.testing.assert_array_equal(after.mask, visible_keys(made, TOP_LEFT))


@pytest.mark.parametrize("more", ["", "causal", "mask bias"])
def test_each_segment_alone_answers_as_among_others(more: str) -> None:
    made = problem("alike", more)
    after = segments.cut_to_segments(Posed((made,), conventions=TOP_LEFT))
    assert [part.sizes.T for part in after.parts] == [part.sizes.S for part in after.parts] == [5, 4]
    assert after.join == "T"
    assert after.parts[0].keywords == set(more.split())
    np.testing.assert_allclose(np.concatenate([output_of(part) for part in after.parts], axis=2), output_of(made))


@pytest.mark.parametrize("made", [problem("by_turns"), problem("two"), problem("keys_apart")])
def test_segments_that_are_no_spans_cannot_be_cut(made: Problem) -> None:
    with pytest.raises(NoClaim, match="the segments are not the same spans everywhere"):
        segments.cut_to_segments(Posed((made,)))


def test_segments_get_other_numbers_that_are_hard_to_tell_apart() -> None:
    made = problem("ragged")
    after = segments.rename_segments(Posed((made,))).one
    of_queries, of_keys = both(after)
    np.testing.assert_array_equal(output_of(after), output_of(made))
    assert of_queries.dtype == of_keys.dtype == np.int32
    assert set(of_keys[0]) == {2**24, 2**24 + 1, 2**24 + 256, 2**24 + 257}
    assert (np.diff(of_keys.astype(np.int64)) <= 0).all()
    assert len(set(of_keys[0].astype(np.float32))) < 4
    assert len(set(of_keys[0] % 256)) == 2


def test_without_segments_there_is_nothing_to_rename() -> None:
    plain = problem().but(query_segments=None, key_segments=None)
    with pytest.raises(NoClaim, match="there are no segments"):
        segments.rename_segments(Posed((plain,)))


def test_the_key_apart_is_the_one_whose_content_is_replaced() -> None:
    made = problem("keys_apart")
    after = replace_hidden(Posed((made,), conventions=TOP_LEFT), arrays=("key", "value"), content="nan").one
    assert np.isnan(after.key).any(axis=(0, 1, 3)).tolist() == [False] * 8 + [True]
    np.testing.assert_array_equal(output_of(after), output_of(made))


def test_both_are_left_out_together() -> None:
    after = contents.leave_out(Posed((problem(more="causal"),)), keyword="query_segments").one
    assert after.keywords == {"causal"}


def test_keys_move_with_their_segments() -> None:
    made = problem("two")
    after = axes.permute_keys(Posed((made,)), by=Drawn(1)).one
    np.testing.assert_allclose(output_of(after), output_of(made), rtol=1e-6)
    assert not np.array_equal(both(after)[1], both(made)[1])


# The probe


@pytest.mark.parametrize(("fault", "answer"), [
    ("segments_ignored", "ignored"), ("segments_at_most", "at_most"), ("segments_of_others", "others"),
    ("key_segments_of_queries", "of_queries")])
def test_a_probe_tells_which_keys_a_query_sees(fault: str, answer: str) -> None:
    reply = reply_to(lambda: FORM.ask(Asker(fault_subject(fault), DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == answer


def test_a_probe_of_a_sound_formulation_finds_its_own_segment() -> None:
    reply = reply_to(lambda: FORM.ask(Asker(sound_subject("naive"), DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == "own"


def test_a_function_with_segments_is_recognised_by_its_parameters(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def attend(query, key, value, *, query_segments=None, key_segments=None):\n    return value\n")
    subject = load_target(f"{mine}:attend", surroundings=Surroundings())
    assert {"query_segments", "key_segments"} <= subject.declaration.keywords


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["segments_at_most", "segments_dropped_with_bias", "key_segments_late"])
def test_a_diagnosis_names_what_is_wrong_with_segments(fault: str) -> None:
    engine = Engine(Plan((f"fault/{fault}",), clauses=("segments.definition",), dtypes=(DType.FLOAT32,),
                         effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence
    assert fault in [each.fault for each in outcome.evidence.like]
