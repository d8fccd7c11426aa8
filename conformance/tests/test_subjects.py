from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.subjects.call import private_copy
from attnspec.subjects.lowering import lower_problem
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import SubjectRaised, UnusableAnswer
from helpers.subjects import subject_of

SMALL = Sizes(2, 4, 4, 3, 3, 2, 2)


def problem_of(sizes: Sizes = SMALL, dtype: DType = DType.FLOAT32,
               **more: Any) -> Problem:  # noqa: ANN401  (of a Problem)
    draw, number = np.random.default_rng(5), numpy_dtype(dtype)

    def entries(heads: int, length: int, width: int) -> Array:
        return draw.integers(-4, 5, (sizes.B, heads, length, width)).astype(number)

    return Problem(dtype, entries(sizes.H, sizes.T, sizes.D), entries(sizes.Hkv, sizes.S, sizes.D),
                   entries(sizes.Hkv, sizes.S, sizes.Dv), **more)


def first_rows(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (a subject's signature)
    return value + 0


def zeros(*shape: int, dtype: np.dtype[Any]) -> Callable[..., object]:
    return lambda query, key, value: np.zeros(shape, dtype)  # noqa: ARG005  (a subject's signature)


def returns(answer: object) -> Callable[..., object]:
    return lambda query, key, value, **more: answer  # noqa: ARG005  (a subject's signature)


def test_the_subject_gets_writable_copies_and_what_it_changes_is_named() -> None:
    def spoil(query: Array, key: Array, value: Array, *, mask: Array) -> Array:  # noqa: ARG001  (a subject's signature)
        query[0, 0, 0, 0] += 1
        mask[:] = False
        return value + 0

    problem = problem_of(mask=np.ones((2, 4, 3, 3), bool))
    before = problem.query.copy()
    assert subject_of(spoil, {"mask"}).answer(problem).mutated == ("query", "mask")
    assert np.array_equal(problem.query, before)


def test_minus_zero_for_zero_is_a_mutation_and_nan_left_alone_is_none() -> None:
    def negate_key(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (a subject's signature)
        key *= -1
        return value + 0

    problem = problem_of()
    problem = problem.but(query=np.full_like(problem.query, np.nan), key=np.zeros_like(problem.key))
    assert subject_of(negate_key).answer(problem).mutated == ("key",)


def test_an_output_that_is_an_input_is_named() -> None:
    assert subject_of(lambda query, key, value: value).answer(problem_of()).aliases == ("value",)  # noqa: ARG005
    assert subject_of(first_rows).answer(problem_of()).aliases == ()


@pytest.mark.parametrize("view", [
    lambda array: array, lambda array: array[:, :, ::2], lambda array: array.swapaxes(1, 2)[..., ::-1],
    lambda array: np.broadcast_to(array[:1, :1], (2, 4, *array.shape[2:])),
])
def test_a_private_copy_keeps_entries_and_strides(view: Callable[[Array], Array]) -> None:
    array = view(np.arange(96, dtype=np.float32).reshape(2, 4, 4, 3))
    copy = private_copy(array)
    assert np.array_equal(copy, array)
    assert copy.strides == array.strides
    assert copy.flags.writeable
    assert not np.shares_memory(copy, array)


def test_what_was_one_array_stays_one() -> None:
    seen = []

    def look(query: Array, key: Array, value: Array) -> Array:
        seen.append((query is key, key is value))
        return value + 0

    problem = problem_of()
    subject_of(look).answer(problem.but(key=problem.query))
    assert seen == [(True, False)]


def test_an_exception_is_the_subjects_with_its_own_frames_only() -> None:
    def inner() -> None:
        raise KeyError("no such head")

    def fail(query: Array, key: Array, value: Array) -> None:  # noqa: ARG001  (a subject's signature)
        sys.stderr.write("on the way out\n")
        inner()

    with pytest.raises(SubjectRaised) as caught:
        subject_of(fail).answer(problem_of())
    assert caught.value.summary == "KeyError: 'no such head'"
    assert "in inner" in caught.value.traceback
    assert "call.py" not in caught.value.traceback
    assert caught.value.stderr == "on the way out\n"


def test_leaving_the_process_is_raising() -> None:
    with pytest.raises(SubjectRaised, match="SystemExit: 3"):
        subject_of(lambda query, key, value: sys.exit(3)).answer(problem_of())  # noqa: ARG005


def test_warnings_and_prints_are_kept_and_raise_nothing() -> None:
    def warn(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (a subject's signature)
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
        __import__("os").write(2, b"from a library\n")
        return value + 0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stderr = subject_of(warn).answer(problem_of()).stderr
    assert stderr.splitlines() == ["from a library", "DeprecationWarning: old name"]


EXPECTED = "where the output should be: an array of shape (2, 4, 3, 2) in float64, float32, float16 or bfloat16"
UNUSABLE: Mapping[str, tuple[object, str]] = {
    "none": (None, f"The subject returned None {EXPECTED}."),
    "tuple": ((1, 2), f"The subject returned a tuple of 2 {EXPECTED}."),
    "text": ("zeros", f"The subject returned a str {EXPECTED}."),
    "ragged": ([[1], [1, 2]], f"The subject returned a list of 2 {EXPECTED}; NumPy cannot read it: ValueError: "),
    "list": ([1.0], f"The subject returned a list of shape (1,) and dtype float64 {EXPECTED}."),
    "shape": (np.zeros((2, 3, 4, 2)),
              f"The subject returned a ndarray of shape (2, 3, 4, 2) and dtype float64 {EXPECTED}."),
    "complex": (np.zeros((2, 4, 3, 2), complex), "a ndarray of shape (2, 4, 3, 2) and dtype complex128 "),
    "whole": (np.zeros((2, 4, 3, 2), int), "a ndarray of shape (2, 4, 3, 2) and dtype int64 "),
    "object": (np.zeros((2, 4, 3, 2), object), "a ndarray of shape (2, 4, 3, 2) and dtype object "),
    "number": (1.0, "The subject returned a float of shape () and dtype float64 "),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_answer_that_is_no_array_of_the_right_shape_is_named(name: str) -> None:
    returned, sentence = UNUSABLE[name]
    with pytest.raises(UnusableAnswer) as caught:
        subject_of(returns(returned)).answer(problem_of())
    assert sentence in caught.value.sentence


@pytest.mark.parametrize("dtype", DType)
def test_any_of_the_four_dtypes_may_come_back_and_is_kept(dtype: DType) -> None:
    answer = subject_of(zeros(2, 4, 3, 2, dtype=numpy_dtype(dtype))).answer(problem_of())
    assert answer.output.dtype == numpy_dtype(dtype)


def test_a_list_of_lists_of_the_right_shape_is_an_array() -> None:
    assert subject_of(returns(np.ones((2, 4, 3, 2)).tolist())).answer(problem_of()).output.all()


def test_weights_come_as_a_pair_where_they_are_asked_for() -> None:
    output, weights = np.zeros((2, 4, 3, 2)), np.full((2, 4, 3, 3), 1 / 3)
    problem = problem_of(return_weights=True)
    answer = subject_of(returns((output, weights)), {"return_weights"}).answer(problem)
    assert answer.weights is not None
    assert np.array_equal(answer.weights, weights)
    with pytest.raises(UnusableAnswer, match=r"where the pair \(output, weights\) is expected"):
        subject_of(returns(output), {"return_weights"}).answer(problem)
    with pytest.raises(UnusableAnswer, match="where the weights should be: an array of shape"):
        subject_of(returns((output, output)), {"return_weights"}).answer(problem)


def test_averaged_weights_have_no_axis_of_heads() -> None:
    averaged = subject_of(returns((np.zeros((2, 4, 3, 2)), np.ones((2, 3, 3)))), {"return_weights"},
                          limits=Limits(weights="averaged"))
    weights = averaged.answer(problem_of(return_weights=True)).weights
    assert weights is not None
    assert weights.shape == (2, 3, 3)


def test_a_mask_travels_as_a_bias_where_that_is_its_only_form() -> None:
    seen = {}

    def additive(query: Array, key: Array, value: Array, *, bias: Array) -> Array:  # noqa: ARG001  (a subject's signature)
        seen["bias"] = bias
        return value + 0

    mask = np.tri(3, dtype=bool) & np.ones((2, 4, 3, 3), bool)
    subject = subject_of(additive, {"bias", "mask"}, limits=Limits(bias_is_mask=True))
    subject.answer(problem_of(mask=mask, bias=np.full((2, 4, 3, 3), 2, np.float32)))
    assert np.array_equal(seen["bias"], np.where(mask, 2, -np.inf))
    assert seen["bias"].dtype == np.float32


@pytest.mark.parametrize(("declared", "sizes", "reason"), [
    ({}, Sizes(1, 1, 1, 2, 2, 2, 3), ""),
    ({"limits": Limits(ties_value_width=True)}, Sizes(1, 1, 1, 2, 2, 2, 3),
     "takes only values as wide as keys (Dv = D)"),
    ({"limits": Limits(grouped=False)}, Sizes(1, 2, 1, 2, 2, 2, 2),
     "takes only as many key/value heads as query heads"),
    ({"dtypes": (DType.FLOAT64,)}, Sizes(1, 1, 1, 2, 2, 2, 2), "does not support float32"),
    ({"kind": Kind.LAYER, "limits": Limits(self_attention_only=True)}, Sizes(1, 1, 1, 2, 3, 2, 2), "so T = S"),
    ({"kind": Kind.LAYER, "limits": Limits(single_head=True)}, Sizes(1, 2, 2, 2, 2, 2, 2), "it has one head"),
])
def test_what_lies_outside_the_limits_is_refused(declared: dict[str, Any], sizes: Sizes, reason: str) -> None:
    subject = subject_of(first_rows, **declared)
    assert reason in subject.refuses(problem_of(sizes))
    assert bool(reason) == bool(subject.refuses(problem_of(sizes)))


def test_a_lacking_keyword_is_named() -> None:
    subject = subject_of(first_rows, {"mask"})
    assert subject.lacks(frozenset({"mask"})) == ""
    assert subject.lacks(frozenset({"mask", "scale", "causal"})) == "mine takes no causal and no scale"
    with pytest.raises(ValueError, match="mine takes no causal"):
        subject.answer(problem_of(causal=True))


# Layers


def naive_layer(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    """A layer with nothing special about it: any widths, grouped heads, no output projection if there is none."""
    Q, K, V = (X @ params[f"w_{name}"] + params.get(f"b_{name}", 0)
               for name, X in (("query", query), ("key", key), ("value", value)))
    D = Q.shape[-1] // heads
    groups = K.shape[-1] // D
    Q, K, V = (X.reshape(*X.shape[:2], count, -1).swapaxes(1, 2) for X, count in ((Q, heads), (K, groups), (V, groups)))
    K, V = (np.repeat(X, heads // groups, axis=1) for X in (K, V))
    exponentials = np.exp(Q @ K.swapaxes(-1, -2) / np.sqrt(D))
    attended = exponentials / exponentials.sum(-1, keepdims=True) @ V
    concatenated: Array = attended.swapaxes(1, 2).reshape(*query.shape[:2], -1)
    if "w_out" in params:
        concatenated = concatenated @ params["w_out"] + params.get("b_out", 0)
    return concatenated


def defined(problem: Problem, width: int) -> Array:
    group = problem.sizes.H // problem.sizes.Hkv
    key, value = (np.repeat(array, group, axis=1) for array in (problem.key, problem.value))
    exponentials = np.exp(problem.query @ key.swapaxes(-1, -2) / np.sqrt(width))
    answer: Array = exponentials / exponentials.sum(-1, keepdims=True) @ value
    return answer


@pytest.mark.parametrize(("limits", "sizes", "width"), [
    (Limits(), Sizes(2, 4, 4, 3, 5, 2, 3), 2),
    (Limits(), Sizes(2, 4, 4, 3, 5, 3, 2), 3),
    (Limits(has_biases=False), Sizes(2, 4, 2, 3, 5, 2, 3), 2),
    (Limits(biases="query out"), Sizes(2, 4, 4, 3, 5, 2, 3), 2),
    (Limits(ties_value_width=True), Sizes(2, 4, 4, 3, 5, 4, 2), 4),
    (Limits(ties_model_width=True), Sizes(2, 4, 4, 3, 5, 2, 3), 3),
    (Limits(projects_output=False), Sizes(2, 1, 1, 3, 5, 2, 3), 2),
    (Limits(self_attention_only=True), Sizes(2, 4, 4, 3, 3, 2, 2), 6),
    (Limits(self_attention_only=True), Sizes(2, 2, 2, 3, 3, 2, 3), 9),
    (Limits(self_attention_only=True, single_head=True, projects_output=False), Sizes(2, 1, 1, 3, 3, 4, 2), 12),
], ids=str)
def test_a_layer_answers_as_attention_does(limits: Limits, sizes: Sizes, width: int) -> None:
    problem = problem_of(sizes, DType.FLOAT64)
    subject = subject_of(naive_layer, kind=Kind.LAYER, limits=limits)
    assert subject.scale_width(problem) == width
    np.testing.assert_allclose(subject.answer(problem).output, defined(problem, width), rtol=1e-12)


@pytest.mark.parametrize("dtype", DType)
def test_projections_of_a_lowered_problem_are_exact(dtype: DType) -> None:
    problem = problem_of(Sizes(2, 3, 3, 4, 4, 2, 2), dtype)
    lowered = lower_problem(problem, Limits(self_attention_only=True))
    projected = lowered.query.astype(np.float64) @ lowered.params["w_query"].astype(np.float64)
    heads = projected.reshape(2, 4, 3, 6).swapaxes(1, 2)
    assert np.array_equal(heads[..., :2], problem.query.astype(np.float64))
    assert not heads[..., 2:].any()
    assert {array.dtype for array in (lowered.query, *lowered.params.values())} == {numpy_dtype(dtype)}


def test_widening_heads_fourfold_widens_the_layers_heads_fourfold() -> None:
    layer = subject_of(naive_layer, kind=Kind.LAYER, limits=Limits(self_attention_only=True, ties_value_width=True))
    narrow, wide = problem_of(Sizes(1, 2, 2, 3, 3, 2, 2)), problem_of(Sizes(1, 2, 2, 3, 3, 8, 2))
    assert layer.scale_width(wide) == 4 * layer.scale_width(narrow)


def test_a_layer_answers_its_own_problem() -> None:
    draw = np.random.default_rng(3)
    X, Y = draw.normal(size=(2, 3, 6)), draw.normal(size=(2, 5, 6))
    params = {f"w_{name}": draw.normal(size=(6, 6)) for name in ("query", "key", "value", "out")}
    problem = LayerProblem(DType.FLOAT64, X, Y, Y, params, heads=2, kv_heads=2)
    layer = subject_of(naive_layer, kind=Kind.LAYER)
    answer = layer.answer(problem)
    assert np.array_equal(answer.output, naive_layer(X, Y, Y, params=params, heads=2))
    assert answer.mutated == ()
    with pytest.raises(ValueError, match="is not a layer"):
        subject_of(first_rows).answer(problem)


def test_a_parameter_that_is_changed_is_named() -> None:
    def train(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
        params["w_out"][0, 0] += 1
        return naive_layer(query, key, value, params=params, heads=heads)

    answer = subject_of(train, kind=Kind.LAYER).answer(problem_of())
    assert answer.mutated == ("params.w_out",)


def test_the_card_shows_only_the_limits_that_limit() -> None:
    subject = load_target("numpy/msa")
    card = subject.card({}, {})
    assert card.id == "numpy/msa"
    assert card.limits["self_attention_only"] == "True"
    assert "broadcasts" not in card.limits


def test_a_variant_that_is_not_declared_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="is not a known variant of mine"):
        subject_of(first_rows).variant("fast")


def test_a_limit_to_contiguous_features_refuses_gaps_in_the_last_axis() -> None:
    def values(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (the contract's signature)
        return value

    subject, ones = subject_of(values, limits=Limits(contiguous_features=True)), np.ones((1, 2, 3, 4), np.float32)
    problem = Problem(DType.FLOAT32, ones, ones, ones)
    gaps = problem.but(query=np.ones((1, 2, 3, 8), np.float32)[..., ::2])
    heads_last = problem.but(query=np.ones((1, 3, 2, 4), np.float32).swapaxes(1, 2))
    assert "contiguous along their last axis" in subject.refuses(gaps)
    assert subject.refuses(heads_last) == subject.refuses(problem) == ""


@pytest.mark.parametrize(("axes", "shape", "reason"), [
    ("BTS", (2, 1, 3, 4), ""), ("BTS", (2, 2, 3, 4), "differ along B, T, S only"), ("BS", (2, 1, 1, 4), ""),
    ("BS", (2, 1, 3, 4), "differ along B, S only"), ("BHTS", (2, 2, 3, 4), ""), ("TS", (2, 1, 3, 4), "along T, S only"),
])
def test_a_mask_that_differs_where_the_subject_has_no_axis_is_refused(axes: str, shape: tuple[int, ...],
                                                                      reason: str) -> None:
    mask = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    subject = subject_of(first_rows, {"mask"}, limits=Limits(mask_axes=axes, broadcasts=True))
    refusals = {subject.refuses(problem_of(Sizes(2, 2, 2, 3, 4, 2, 2), mask=each))
                for each in (mask, np.broadcast_to(mask, (2, 2, 3, 4)))}
    assert len(refusals) == 1
    assert reason in refusals.copy().pop()
    assert bool(reason) == bool(refusals.pop())


def test_attention_of_one_input_refuses_more_keys_than_queries() -> None:
    subject = subject_of(first_rows, limits=Limits(self_attention_only=True))
    assert "only as many queries as keys (T = S)" in subject.refuses(problem_of(Sizes(1, 1, 1, 2, 3, 2, 2)))
    assert subject.refuses(problem_of(Sizes(1, 1, 1, 3, 3, 2, 2))) == ""
