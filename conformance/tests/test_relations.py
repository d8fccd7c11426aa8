"""Every relation holds on a right answer and is violated by a planted wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults import staged
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.record.outcome import Measured
from attnspec.subjects.call import UnusableAnswer
from attnspec.subjects.callee import InProcess
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary import relations
from attnspec.vocabulary.observables import by_definition, equal, keep, look_at, measure, nothing, seen_of, verdict
from attnspec.vocabulary.scene import OutsideLimits, Posed, Scene
from attnspec.vocabulary.signature import Drawn, RunName
from attnspec.vocabulary.transforms import axes, contents
from helpers.subjects import ATTENTION_KEYWORDS, subject_of

ORIGINAL, OTHER = RunName("original"), RunName("other")
B, H, T, S, D, DV = 2, 2, 3, 5, 4, 3
Attend = Callable[..., object]
SOUND: Attend = staged.staged()()


# --- measure

def measured(seen: object, expected: object, allowance: object = 0.0, claimed: object = True) -> Measured:
    arrays = np.asarray(seen), np.asarray(expected), np.asarray(allowance), np.asarray(claimed, bool)
    return measure("is", *arrays, what="x")


@pytest.mark.parametrize(("seen", "expected", "allowance", "margin"), [
    (1.0, 1.0, 0.0, 0.0), (1.0, 1.5, 1.0, 0.5), (2.0, 1.0, 0.5, 2.0), (1.0, 2.0, 0.0, np.inf),
    (np.nan, 1.0, 1.0, np.inf), (np.inf, 1.0, 1.0, np.inf), (-np.inf, np.inf, 1.0, np.inf),
    (np.inf, np.inf, 0.0, 0.0), (-0.0, 0.0, 0.0, 0.0), (5e-324, 0.0, 0.0, np.inf), (1.0, 1.0, np.nan, 0.0),
    (1.0, 2.0, np.nan, np.inf), (1.0, 2.0, np.inf, 0.0), (np.nan, 1.0, np.inf, np.inf)])
def test_the_margin_is_the_gap_over_the_allowance(
    seen: float, expected: float, allowance: float, margin: float,
) -> None:
    assert measured(seen, expected, allowance).margin == margin


def test_the_worst_claimed_entry_is_reported() -> None:
    found = measured([[0.0, 3.0, 9.0]], 0.0, [[1.0, 2.0, 1.0]], [[True, True, False]])
    assert (found.margin, found.index, found.gap, found.allowance) == (1.5, (0, 1), 3.0, 2.0)
    assert (found.entries, found.claimed, found.wrong) == (3, 2, 1)
    assert found.sentence == "x: 1 of 2 entries differ; worst at (0, 1), 3 against 0, apart by 3 where 2 is allowed"


def test_agreement_tells_the_closest_call() -> None:
    found = measured([1.0, 1.25], 1.0, 1.0)
    assert found.sentence == ("x: all 2 entries agree; the one closest to its bound, at (1,), is apart by 0.25 where 1 "
                              "is allowed")


def test_what_is_not_claimed_is_not_judged() -> None:
    found = measured([np.nan], 0.0, 0.0, [False])
    assert (found.margin, found.claimed, found.sentence) == (0, 0, "x: no entry can be judged here")
    assert nothing("is", "why").claimed == 0


def test_equal_values_are_equal_whatever_their_sign_of_zero_or_nan() -> None:
    same = equal("is", np.array([np.nan, 0.0, np.inf]), np.array([-np.nan, -0.0, np.inf]), what="x")
    other = equal("is", np.array([np.nan, 1.0]), np.array([0.0, 1.0]), what="x")
    assert (same.margin, other.margin, other.wrong) == (0, np.inf, 1)


def test_a_verdict_has_no_distance() -> None:
    assert (verdict("is", "x", broken=True).margin, verdict("is", "x", broken=False).margin) == (np.inf, 0)


# --- a scene with one subject and the runs of one problem

def problem(dtype: DType = DType.FLOAT32, Hkv: int = H, **changes: object) -> Problem:
    random, number = np.random.RandomState(3), numpy_dtype(dtype)
    query, key, value = ((random.randint(-8, 9, shape) / 4).astype(number)
                         for shape in ((B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, DV)))
    return Problem(dtype, query, key, value).but(**changes)


def scene(function: Attend, *, posed: Mapping[str, Posed[Problem]] | None = None, limits: Limits | None = None,
          conventions: Mapping[str, str] = RECOMMENDED, dtype: DType = DType.FLOAT32, **changes: object) -> Scene:
    subject = subject_of(function, ATTENTION_KEYWORDS, conventions=conventions,
                         limits=limits or Limits(grouped=True, broadcasts=True))
    evaluator = Evaluator(subject, dtype, conventions)
    runs = posed or {"original": start(problem(dtype, **changes))}  # type: ignore[arg-type]  # sizes or fields
    return Scene(subject, dtype, conventions, runs, evaluator)


def start(one: Problem, key: str = "") -> Posed[Problem]:
    return Posed((one,), conventions=RECOMMENDED, key=key)


def wrong(spoil: Callable[[Array], Array]) -> Attend:
    """The right attention, spoilt afterwards."""
    def attend(*args: Array, return_weights: bool = False, **keywords: object) -> object:
        answer = SOUND(*args, return_weights=return_weights, **keywords)
        return (spoil(answer[0]), spoil(answer[1])) if isinstance(answer, tuple) else spoil(answer)  # type: ignore[arg-type]
    return attend


def plus(number: float, *at: int) -> Callable[[Array], Array]:
    def spoil(array: Array) -> Array:
        array = array.copy()
        array[at or ...] += np.asarray(number).astype(array.dtype)
        return array
    return spoil


def put(number: float, *at: int) -> Callable[[Array], Array]:
    def spoil(array: Array) -> Array:
        array = array.copy()
        array[at] = number
        return array
    return spoil


MASK = np.ones((B, H, T, S), bool)
MASK[..., 2] = False
MASK[0, 0, 1, :4] = False

Relation = Callable[[Scene], Measured]
PLAIN: list[tuple[str, Relation, Attend]] = [
    ("agrees in output", lambda s: relations.agrees_with_definition(s, observe="output"),
     wrong(plus(1e-4, 1, 1, 2, 0))),
    ("agrees, NaN", lambda s: relations.agrees_with_definition(s, observe="output"), wrong(put(np.nan, 0, 0, 0, 0))),
    ("agrees in weights", lambda s: relations.agrees_with_definition(s, observe="weights"), wrong(plus(1e-4))),
    ("agrees in returned weights", lambda s: relations.agrees_with_definition(s, observe="returned_weights"),
     wrong(plus(1e-4, 0, 0, 0, 2))),
    ("agrees in logits", lambda s: relations.agrees_with_definition(s, observe="logits"),
     wrong(lambda array: array * np.arange(1, array.shape[-1] + 1, dtype=array.dtype))),
    ("is finite", lambda s: relations.is_finite(s, observe="output"), wrong(put(np.inf, 1, 0, 2, 1))),
    ("is not negative", lambda s: relations.not_negative(s, observe="returned_weights"),
     wrong(put(-1e-30, 0, 1, 2, 2))),
    ("is not negative, NaN", lambda s: relations.not_negative(s, observe="returned_weights"),
     wrong(put(np.nan, 0, 1, 2, 2))),
    ("sums to one", lambda s: relations.sums_to_one(s, observe="returned_weights"), wrong(plus(1e-5, 1, 1, 1, 0))),
    ("sums to one, NaN", lambda s: relations.sums_to_one(s, observe="weights"), wrong(put(np.nan, 1, 1, 1, 0))),
    ("lies in the hull", relations.inside_hull, wrong(lambda array: array * np.float32(4))),
    ("lies in the hull, NaN", relations.inside_hull, wrong(put(np.nan, 0, 0, 0, 0))),
    ("has the input's dtype", relations.has_input_dtype, wrong(lambda array: array.astype(np.float64))),
]


@pytest.mark.parametrize(("relation", "spoilt"), [row[1:] for row in PLAIN], ids=[row[0] for row in PLAIN])
def test_a_relation_holds_on_right_answers_and_not_on_wrong_ones(relation: Relation, spoilt: Attend) -> None:
    right, planted = relation(scene(SOUND, mask=MASK)), relation(scene(spoilt, mask=MASK))
    assert right.claimed > 0
    assert right.margin <= 1
    assert planted.margin > 1


@pytest.mark.parametrize(("relation", "spoilt"), [row[1:] for row in PLAIN[:-1]], ids=[row[0] for row in PLAIN[:-1]])
def test_what_a_violated_relation_compared_is_kept_on_demand(relation: Relation, spoilt: Attend) -> None:
    asked, silent = replace(scene(spoilt), kept=[]), scene(spoilt)
    found = relation(asked)
    assert asked.kept is not None
    [kept] = asked.kept
    assert kept.margin == found.margin
    assert kept.wrong[kept.index]
    assert kept.seen.array.shape == kept.expected.array.shape == kept.wrong.shape
    assert len(kept.axes) == kept.wrong.ndim
    assert kept.wrong.sum() == found.wrong or relation is PLAIN[5][1]  # how many are not finite is told in words alone
    assert relation(silent).margin == found.margin
    assert silent.kept is None


def test_of_several_comparisons_the_worst_is_kept() -> None:
    asked = replace(scene(SOUND), kept=[])
    seen = look_at(asked, "original", "output")
    for number in (1.0, 3.0, 2.0):
        array = seen.array + number
        found = measure("is", array, seen.truth, 1.0, seen.claimed, what="x")
        assert keep(asked, found, seen_of("output", "original", array), by_definition("output", "original", seen.truth),
                    (1.0, seen.claimed)) is found
    assert asked.kept is not None
    assert [round(kept.margin) for kept in asked.kept] == [3]


def test_two_nan_are_no_wrong_entry_where_equality_is_claimed() -> None:
    asked = replace(scene(SOUND), kept=[])
    left = look_at(asked, "original", "output").array.copy()
    left[0, 0, 0, 0] = np.nan
    right = left.copy()
    right[0, 0, 0, 1] += 1
    found = equal("is", left, right, what="x")
    keep(asked, found, seen_of("output", "original", left), by_definition("output", "original", right), (0.0, True))
    assert asked.kept is not None
    assert np.argwhere(asked.kept[0].wrong).tolist() == [[0, 0, 0, 1]]


def test_a_row_compared_alone_is_told_by_its_own_index() -> None:
    found = measure("is", np.ones((1, 1, 2)), np.zeros((1, 1, 2)), 0.5, np.array([[[False, True]]]), what="x",
                    first_row=7)
    assert found.index == (0, 7, 1)
    assert "worst at (0, 7, 1)" in found.sentence


@pytest.mark.parametrize("dtype", DType)
def test_relations_hold_on_right_answers_in_every_dtype(dtype: DType) -> None:
    for _, relation, _ in PLAIN:
        assert relation(scene(SOUND, dtype=dtype)).margin <= 1


@pytest.mark.parametrize("observe", ["weights", "returned_weights"])
def test_weight_on_a_hidden_key_is_found_however_small(observe: str) -> None:
    def check(function: Attend) -> float:
        return relations.hidden_is_zero(scene(function, mask=MASK), observe=observe).margin  # type: ignore[arg-type]  # a choice
    assert check(SOUND) == 0
    assert check(wrong(lambda array: array + array.dtype.type(1e-30))) == np.inf


def test_averaged_weights_are_judged_averaged() -> None:
    def averaging(*args: Array, return_weights: bool = False, **keywords: object) -> object:
        answer = SOUND(*args, return_weights=return_weights, **keywords)
        return (answer[0], answer[1].mean(axis=1)) if isinstance(answer, tuple) else answer

    for relation in (relations.agrees_with_definition, relations.sums_to_one, relations.hidden_is_zero):
        averaged = scene(averaging, limits=Limits(weights="averaged"), mask=MASK)
        found = relation(averaged, observe="returned_weights")
        assert found.margin <= 1
        assert found.claimed > 0


def test_rows_that_see_nothing_are_left_out() -> None:
    blind = np.zeros((B, H, T, S), bool)
    found = relations.agrees_with_definition(scene(SOUND, mask=blind), observe="output")
    assert found.claimed == 0


def two(change: Callable[[Posed[Problem]], Posed[Problem]]) -> dict[str, Posed[Problem]]:
    first = start(problem(), "one")
    return {"original": first, "other": replace(change(first), key="two")}


def test_two_runs_agree_within_the_rounding_of_both() -> None:
    runs = two(lambda first: axes.permute_keys(first, by=Drawn(1)))

    def by_position(query: Array, key: Array, value: Array, **keywords: object) -> object:
        return SOUND(query, key * np.arange(1, S + 1, dtype=key.dtype)[:, None], value, **keywords)

    def check(function: Attend) -> Measured:
        return relations.agree(scene(function, posed=runs), runs=(ORIGINAL, OTHER), observe="output", within="rounding")
    assert check(SOUND).margin <= 1
    assert check(by_position).margin > 1


@pytest.mark.parametrize(("cut", "holds"), [(0, True), (1, True), (2, False)])
def test_only_the_rows_up_to_the_cut_are_compared(cut: int, holds: bool) -> None:
    """A query in the last row is another one."""
    query = problem().query.copy()
    query[..., 2, :] *= -1
    posed = scene(SOUND, posed=two(lambda first: first.but(query=query)))
    for within in ("exact", "rounding"):
        found = relations.agree(posed, runs=(ORIGINAL, OTHER), observe="output", within=within,
                                rows_through=Drawn(cut))
        assert (found.margin <= 1) is holds
        assert found.claimed == B * H * (cut + 1) * DV


def test_exactly_equal_means_to_the_last_bit() -> None:
    calls: list[int] = []

    def drifts(query: Array, *args: Array) -> object:
        calls.append(1)
        return np.asarray(SOUND(query, *args)) * query.dtype.type(1 + 2.0**-23 * len(calls))

    def check(function: Attend) -> Measured:
        return relations.agree(scene(function, posed=two(contents.again)), runs=(ORIGINAL, OTHER), observe="output",
                               within="exact")
    assert check(SOUND).margin == 0
    assert check(drifts).margin == np.inf


def test_up_to_reordering_rounding_may_differ_and_empty_rows_may_not() -> None:
    mask = MASK.copy()
    mask[:, :, 1] = False

    def check(spoil: Callable[[Array], Array]) -> Measured:
        calls: list[int] = []

        def second_time_spoilt(*args: Array, **keywords: object) -> object:
            calls.append(1)
            answer = np.asarray(SOUND(*args, **keywords))
            return answer if len(calls) == 1 else spoil(answer)
        runs = {"original": start(problem(mask=mask), "one"), "other": start(problem(mask=mask), "two")}
        return relations.agree(scene(second_time_spoilt, posed=runs), runs=(ORIGINAL, OTHER), observe="output",
                               within="reordering")
    last_bit, smallest = 2.0**-23, 2.0**-149
    assert check(lambda answer: answer * answer.dtype.type(1 + last_bit)).margin <= 1
    assert check(plus(2.0**-10)).margin > 1
    assert check(put(smallest, 0, 0, 1, 0)).margin == np.inf
    assert check(lambda answer: answer).claimed == B * H * T * DV


def test_the_first_rows_are_those_of_a_prefix() -> None:
    runs = two(lambda first: axes.keep_queries(first, cut=Drawn(1)))

    def by_length(query: Array, *args: Array) -> object:
        return np.asarray(SOUND(query, *args)) * query.dtype.type(query.shape[2])

    def check(function: Attend) -> Measured:
        return relations.agree_on_prefix(scene(function, posed=runs), whole=ORIGINAL, prefix=OTHER, observe="output",
                                         rows_through=Drawn(1))
    assert check(SOUND).margin <= 1
    assert check(by_length).margin > 1


def test_parts_add_up_and_multiples_are_multiples() -> None:
    first = start(problem(), "one")
    runs = {"original": first, "even": replace(contents.keep_values(first, of="even_keys"), key="even"),
            "odd": replace(contents.keep_values(first, of="odd_keys"), key="odd"),
            "doubled": replace(contents.multiply(first, array="value", by=-2), key="doubled")}
    squares = wrong(lambda array: array * array)

    def sums(function: Attend) -> float:
        halves = (RunName("even"), RunName("odd"))
        return relations.adds_up(scene(function, posed=runs), runs=halves, to=ORIGINAL, observe="output").margin

    def multiples(function: Attend) -> float:
        return relations.is_multiple(scene(function, posed=runs), run=RunName("doubled"), of=ORIGINAL, by=-2,
                                     observe="output").margin
    assert max(sums(SOUND), multiples(SOUND)) <= 1
    assert min(sums(squares), multiples(squares)) > 1


def test_the_largest_weight_grows_with_the_logits() -> None:
    runs = two(lambda first: contents.multiply(first, array="query", by=4))

    def softer(query: Array, *args: Array) -> object:
        return SOUND(query / np.abs(query).max() ** 2, *args)

    def check(function: Attend) -> Measured:
        return relations.row_maxima_grow(scene(function, posed=runs), runs=(ORIGINAL, OTHER))
    assert check(SOUND).margin <= 1
    assert check(softer).margin > 1


def test_changed_inputs_and_shared_memory_are_named() -> None:
    def careless(_: Array, key: Array, value: Array) -> Array:
        key += 1
        shared: Array = value[:, :, :T]
        return shared
    assert relations.leaves_inputs(scene(SOUND)).margin == 0
    changed = relations.leaves_inputs(scene(careless))
    assert (changed.margin, changed.sentence) == (np.inf, "the call changed key")
    assert relations.shares_no_memory(scene(SOUND)).margin == 0
    shared = relations.shares_no_memory(scene(careless))
    assert (shared.margin, shared.sentence) == (np.inf, "the output shares memory with value")


def test_an_answer_that_a_later_call_overwrites_is_found() -> None:
    runs = two(lambda first: contents.other_content(first, by=Drawn(1), arrays=("query",)))
    buffer = np.zeros((B, H, T, DV), np.float32)

    def into_one_buffer(*args: Array) -> object:
        buffer[...] = SOUND(*args)  # type: ignore[call-overload]  # an array
        return buffer

    def check(function: Attend) -> float:
        return relations.answers_are_kept(scene(function, posed=runs), run=ORIGINAL, then=OTHER).margin
    assert check(SOUND) == 0
    assert check(into_one_buffer) == np.inf


def test_the_shape_is_that_of_the_definition() -> None:
    found = relations.has_shape(scene(SOUND), observe="output")
    assert (found.margin, found.sentence) == (
        0, f"the shape of output is {(B, H, T, DV)}; it should be {(B, H, T, DV)}")


@pytest.mark.parametrize("spoil", [lambda array: array[..., :-1], lambda array: array.sum(-1)])
def test_an_answer_of_another_shape_is_no_answer(spoil: Callable[[Array], Array]) -> None:
    with pytest.raises(UnusableAnswer, match=r"where the output should be: an array of shape \(2, 2, 3, 3\)"):
        relations.has_shape(scene(wrong(spoil)), observe="output")


def test_a_variant_that_answers_otherwise_is_named() -> None:
    plain = scene(SOUND)

    def with_variant(function: Attend) -> Scene:
        declared = replace(plain.subject.declaration, variants={"eval": None})  # type: ignore[dict-item]  # only the name counts
        flipped = replace(plain.subject, callee=InProcess(function))
        subject = replace(plain.subject, declaration=declared, variants={"eval": flipped})
        return replace(plain, subject=subject, evaluator=Evaluator(subject, DType.FLOAT32, RECOMMENDED), cache={})

    assert relations.variants_agree(with_variant(SOUND), observe="output").margin <= 1
    found = relations.variants_agree(with_variant(wrong(plus(0.5))), observe="output")
    assert found.margin > 1
    assert found.sentence.startswith("output with eval should be that without")
    with pytest.raises(OutsideLimits, match="it declares no variant"):
        relations.variants_agree(plain, observe="output")


def test_two_forms_that_are_both_nan_agree() -> None:
    def half_nan(*args: Array) -> Array:
        output = np.array(SOUND(*args))
        output[..., 0] = np.nan
        return output

    plain = scene(half_nan)
    declared = replace(plain.subject.declaration, variants={"eval": None})  # type: ignore[dict-item]  # only the name counts
    variants = {"eval": replace(plain.subject, callee=InProcess(half_nan))}
    subject = replace(plain.subject, declaration=declared, variants=variants)
    there = replace(plain, subject=subject, evaluator=Evaluator(subject, DType.FLOAT32, RECOMMENDED), cache={})
    found = relations.variants_agree(there, observe="output")
    assert (found.margin, found.claimed) == (0, B * H * T * (DV - 1))


# --- rulings

BLIND = np.ones((B, H, T, S), bool)
BLIND[0, 1, 2] = False


def rows(answer: float | str) -> Attend:
    """The right attention with another answer to rows that see nothing; `mean`: of all values."""
    def attend(query: Array, key: Array, value: Array, **keywords: object) -> Array:
        output = np.array(SOUND(query, key, value, **keywords))
        output[0, 1, 2] = value[0, 1].mean(axis=0) if answer == "mean" else answer
        return output
    return attend


@pytest.mark.parametrize(("convention", "right", "planted"), [
    ("zeros", rows(0.0), rows("mean")), ("nan", rows(np.nan), rows(0.0)), ("uniform", rows("mean"), rows(0.0))])
def test_hidden_rows_are_held_to_the_convention(convention: str, right: Attend, planted: Attend) -> None:
    def check(function: Attend) -> Measured:
        held = scene(function, conventions={**RECOMMENDED, "hidden_row": convention}, mask=BLIND)
        return relations.hidden_rows_follow_convention(held)
    assert check(right).margin <= 1
    assert check(right).claimed == DV
    assert check(planted).margin > 1
    assert check(planted).index[:3] == (0, 1, 2)  # a place in the output, for the page to draw


def test_hidden_rows_are_held_to_the_convention_of_their_form() -> None:
    by_form = {**RECOMMENDED, "hidden_row": "zeros", "hidden_row.bias": "nan"}
    bias = np.where(BLIND, 0, -np.inf).astype(np.float32)
    assert relations.hidden_rows_follow_convention(scene(rows(np.nan), conventions=by_form, bias=bias)).margin == 0
    answer = scene(rows(np.nan), conventions=by_form, mask=BLIND)
    assert relations.hidden_rows_follow_convention(answer).margin == np.inf


def test_rows_that_two_keywords_may_hide_are_judged_if_they_agree() -> None:
    nan, of_bias = {**RECOMMENDED, "hidden_row": "nan"}, {**RECOMMENDED, "hidden_row.bias": "nan"}
    bias = np.where(BLIND, 0, -np.inf).astype(np.float32)

    def check(conventions: dict[str, str]) -> Measured:
        return relations.hidden_rows_follow_convention(
            scene(rows(np.nan), conventions=conventions, mask=np.ones_like(BLIND), bias=bias))

    assert (check(nan).claimed, check(nan).margin) == (DV, 0)
    assert check(of_bias).claimed == 0


@pytest.mark.parametrize(("convention", "mask"), [("undefined", BLIND), ("zeros", MASK)])
def test_without_a_promise_or_a_hidden_row_nothing_is_claimed(convention: str, mask: Array) -> None:
    held = scene(SOUND, conventions={**RECOMMENDED, "hidden_row": convention}, mask=mask)
    assert relations.hidden_rows_follow_convention(held).claimed == 0


def test_another_convention_than_the_recommended_is_named() -> None:
    kept = relations.convention_is(scene(SOUND), convention="causal_alignment")
    other = scene(SOUND, conventions={**RECOMMENDED, "causal_alignment": "bottom_right"})
    found = relations.convention_is(other, convention="causal_alignment")
    assert kept.margin == 0
    assert (found.margin, found.sentence) == (
        np.inf, "causal_alignment is 'bottom_right'; 'top_left' is recommended")


@pytest.mark.parametrize(("raises", "broken"), [
    (ValueError("heads must divide the width"), False), (ValueError(), True)])
def test_a_call_that_makes_no_sense_is_refused_by_raising(raises: Exception, broken: bool) -> None:
    def refuses(*_: Array) -> Array:
        raise raises
    assert (relations.is_refused(scene(refuses)).margin > 1) is broken


@pytest.mark.parametrize("answer", [SOUND, lambda *_: None], ids=["an array", "nothing"])
def test_a_call_that_makes_no_sense_and_is_answered_violates(answer: Attend) -> None:
    assert relations.is_refused(scene(answer)).margin == np.inf
