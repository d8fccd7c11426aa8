"""Streams, masks, biases, and the arrays of problems and layers."""

from __future__ import annotations

import hashlib
from typing import get_args

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort
from attnspec.problems.choices import shapes_for
from attnspec.problems.domain import ANY_MASK, MASK_AXES, BiasName, MaskName, domain
from attnspec.problems.families import gaussian_numbers, normal_numbers, random_words, uniform_numbers
from attnspec.problems.make import BIASES, MASKS, make_layer, make_problem
from attnspec.problems.problem import Array, LayerProblem, Recipe, Sizes, numpy_dtype

SIZES = Sizes(2, 4, 2, 5, 7, 8, 6)
MIXED = ("log_normal", "integers", "one_hot_values")


def a_recipe(sizes: Sizes = SIZES, families: tuple[str, ...] = MIXED, mask: str = "none", features: str = "",
             **others: object) -> Recipe:
    return Recipe(sizes, families, mask, frozenset(features.split()), **{"seed": 11, **others})  # type: ignore[arg-type]


# The stream


def test_the_stream_is_frozen() -> None:
    assert random_words(0, "query", (5,)).tolist() == FROZEN_WORDS
    assert normal_numbers(random_words(0, "query", (4,))).tolist() == FROZEN_NORMALS


FROZEN_WORDS = [2056852948, 3905496127, 1810530954, 522246883, 802945102]
FROZEN_NORMALS = [-0.0529185684707562, 1.3365746249831718, -0.197937239109566, -1.1670500982998326]


def pcg64(state: int, inc: int, count: int) -> list[int]:
    """The published generator, PCG XSL-RR 128/64, in whole numbers."""
    found = []
    for _ in range(count):
        state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + inc) % 2**128
        mixed, turn = (state >> 64 ^ state) % 2**64, state >> 122
        found.append((mixed >> turn | mixed << (64 - turn)) % 2**64)
    return found


def test_the_stream_is_the_published_generator() -> None:
    digest = hashlib.blake2b(b"91:key", digest_size=32).digest()
    state, increment = int.from_bytes(digest[:16], "little"), int.from_bytes(digest[16:], "little") | 1
    halves = [half for word in pcg64(state, increment, 20) for half in (word % 2**32, word >> 32)]
    assert random_words(91, "key", (8, 5)).ravel().tolist() == halves


def test_streams_of_other_labels_and_seeds_differ() -> None:
    streams = [random_words(seed, label, (64,)) for seed in (0, 1) for label in ("query", "key")]
    assert len({stream.tobytes() for stream in streams}) == 4


def test_a_longer_stream_begins_like_a_shorter_one() -> None:
    assert (random_words(3, "key", (2, 3)).ravel() == random_words(3, "key", (5, 5)).ravel()[:6]).all()


@pytest.mark.parametrize("law", [normal_numbers, gaussian_numbers])
def test_normals_have_the_moments_of_the_normal_law(law: object) -> None:
    every_cell = (np.arange(2**18, dtype=np.uint32) << np.uint32(14)) + np.uint32(2**13)
    entries = law(every_cell)  # type: ignore[operator]
    # the tails beyond 2^-18 are not sampled by this grid, which moves the fourth moment most
    for power, moment, slack in ((1, 0, 2e-3), (2, 1, 5e-3), (3, 0, 2e-2), (4, 3, 5e-2)):
        assert np.mean(entries**power) == pytest.approx(moment, abs=slack)


def test_uniform_entries_lie_in_the_unit_interval() -> None:
    assert uniform_numbers(np.array([0, 2**32 - 1], np.uint32)).tolist() == [0.0, 1 - 2.0**-32]


# Masks and biases

SHAPES = (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(2, 4, 2, 5, 7, 2, 2), Sizes(2, 2, 1, 9, 4, 2, 2),
          Sizes(3, 2, 2, 6, 6, 2, 2))


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_a_mask_has_full_shape_and_is_private(name: str, sizes: Sizes) -> None:
    mask = MASKS[name].make_array(5, sizes)
    assert mask.shape == (sizes.B, sizes.H, sizes.T, sizes.S)
    assert mask.dtype == np.bool_
    assert mask.flags.writeable
    assert not np.shares_memory(mask, MASKS[name].make_array(5, sizes))


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*ANY_MASK, "attack"])
def test_every_row_sees_a_key(name: str, sizes: Sizes) -> None:
    for seed in range(20):
        assert MASKS[name].make_array(seed, sizes).any(axis=-1).all()


def test_with_empty_rows_always_has_one() -> None:
    for seed in range(20):
        assert not MASKS["with_empty_rows"].make_array(seed, SIZES).any(axis=-1).all()


@pytest.mark.parametrize(("name", "promise"), [
    ("all_true", lambda mask: mask.all()),
    ("padding", lambda mask: (np.diff(mask.astype(int)) <= 0).all() and same_for_queries_and_heads(mask)),
    ("left_padding", lambda mask: (np.diff(mask.astype(int)) >= 0).all() and same_for_queries_and_heads(mask)),
    ("single_key", lambda mask: (mask.sum(-1) == 1).all()),
    ("per_head", lambda mask: (mask == mask[:, :, :1]).all()),
    ("block", lambda mask: (mask == mask[:, :1]).all()),
    ("banded", lambda mask: (np.abs(np.diff(mask.astype(int))).sum(-1) <= 2).all()),
    ("causal_like", lambda mask: (np.diff(mask.astype(int), axis=-2) >= 0).all()),
    ("triangle", lambda mask: (mask == np.tri(*mask.shape[-2:])).all()),
    ("attack", lambda mask: mask[..., :4].all() and not mask[..., 4:].any()),
])
def test_masks_keep_their_promises(name: str, promise: object) -> None:
    for seed in range(20):
        assert promise(MASKS[name].make_array(seed, SIZES))  # type: ignore[operator]


def same_for_queries_and_heads(mask: Array) -> bool:
    return bool((mask == mask[:, :1, :1]).all())


@pytest.mark.parametrize(("name", "axis"), [
    ("padding", 0), ("per_head", 1), ("random", 2), ("single_key", 2), ("block", 0)])
def test_masks_vary_along_their_axis(name: str, axis: int) -> None:
    masks = [MASKS[name].make_array(seed, Sizes(4, 4, 4, 8, 8, 1, 1)) for seed in range(5)]
    assert any((mask != mask.take([0], axis=axis)).any() for mask in masks)


@pytest.mark.parametrize("name", MASKS)
def test_masks_vary_along_the_axes_that_they_are_said_to(name: MaskName) -> None:
    seen = [MASKS[name].make_array(seed, Sizes(3, 3, 3, 9, 9, 4, 4)) for seed in range(8)]
    varying = {axis for at, axis in enumerate("BHTS") if any((mask != mask.take([0], at)).any() for mask in seen)}
    assert varying == set(MASK_AXES[name])


def test_a_domain_offers_the_masks_that_the_subject_takes_or_else_all() -> None:
    padded, per_head = domain(masks=["padding", "per_head", "random"]), domain(masks=["per_head"])
    limits = Limits(mask_axes="BTS")
    assert padded.masks_within(limits) == ("padding",)
    assert per_head.masks_within(limits) == ("per_head",)
    assert padded.masks_within(Limits()) == ("padding", "per_head", "random")


def test_the_names_of_masks_and_biases_are_those_of_the_spec() -> None:
    assert list(MASKS) == list(get_args(MaskName))
    assert list(BIASES) == list(get_args(BiasName))


@pytest.mark.parametrize("name", BIASES)
def test_biases_are_full_and_only_hiding_hides(name: str) -> None:
    bias = make_problem(a_recipe(features="bias", bias=name), DType.FLOAT16).bias
    assert bias is not None
    assert bias.shape == (2, 4, 5, 7)
    assert np.isneginf(bias).any() == (name == "hiding")
    assert (bias > -np.inf).any(axis=-1).all()
    assert (bias < np.inf).all()


# Problems


@pytest.mark.parametrize("dtype", DType)
def test_a_problem_has_the_sizes_of_its_recipe_and_the_dtype(dtype: DType) -> None:
    problem = make_problem(a_recipe(features="mask bias causal scale return_weights", mask="random", scale=0.25), dtype)
    assert problem.sizes == SIZES
    assert problem.keywords == {"mask", "bias", "causal", "scale", "return_weights"}
    assert problem.bias is not None
    assert {array.dtype for array in (problem.query, problem.key, problem.value, problem.bias)} == {numpy_dtype(dtype)}
    assert problem.scale == 0.25


@pytest.mark.parametrize("dtype", DType)
def test_a_recipe_makes_the_same_bits_again(dtype: DType) -> None:
    recipe = a_recipe(features="mask bias", mask="random")
    first, second = (make_problem(Recipe.parse(recipe.text), dtype) for _ in range(2))
    for name in ("query", "key", "value", "mask", "bias"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
        assert not np.shares_memory(getattr(first, name), getattr(second, name))
        assert getattr(first, name).flags.writeable


def test_a_problem_is_the_one_it_was_when_this_was_written() -> None:
    problem = make_problem(a_recipe(Sizes(1, 1, 1, 1, 2, 2, 1), ("normal",)), DType.FLOAT64)
    assert [array.ravel().tolist() for array in (problem.query, problem.key, problem.value)] == FROZEN_PROBLEM


FROZEN_PROBLEM = [
    [0.35848925551359284, 0.5781876648775313],
    [0.18316938144968467, -0.4262137432800834, -0.11745841596293528, 1.2197242577424945],
    [0.5786649880575091, -1.325829222882074]]


def test_the_query_does_not_depend_on_the_shape_of_key_and_value() -> None:
    wider = make_problem(a_recipe(Sizes(2, 4, 2, 5, 9, 8, 3)), DType.FLOAT64)
    assert (wider.query == make_problem(a_recipe(), DType.FLOAT64).query).all()


def test_one_heads_entries_do_not_depend_on_the_family_of_another() -> None:
    one = make_problem(a_recipe(families=("normal", "normal")), DType.FLOAT64)
    other = make_problem(a_recipe(families=("normal", "constant")), DType.FLOAT64)
    assert (one.value[:, 0] == other.value[:, 0]).all()
    assert (one.value[:, 1] != other.value[:, 1]).any()


def test_families_are_dealt_to_the_key_value_heads_in_turn() -> None:
    value = make_problem(a_recipe(Sizes(2, 4, 2, 3, 5, 4, 4), ("one_hot_values", "alternating_values", "normal")),
                         DType.FLOAT64).value
    heads = value.reshape(4, 5, 4)
    assert (heads[[0, 3]].sum(axis=-1) == 1).all()
    assert (np.abs(heads[1]) == 1e4).all()
    assert not np.isin(heads[2], (0, 1, 1e4, -1e4)).any()


def test_bfloat16_is_float32_rounded() -> None:
    half = make_problem(a_recipe(families=("normal",)), DType.BFLOAT16).key
    single = make_problem(a_recipe(families=("normal",)), DType.FLOAT32).key
    assert (half == single.astype(half.dtype)).all()


# Layers


@pytest.mark.parametrize("inputs", ["separate", "memory", "one"])
@pytest.mark.parametrize("family", ["integers", "huge_logits"])
@pytest.mark.parametrize("dtype", DType)
def test_layer_projections_are_exact_in_the_dtype_in_any_order(dtype: DType, family: str, inputs: str) -> None:
    problem = make_layer(a_recipe(Sizes(2, 4, 2, 5, 5, 8, 6), (family,), M=35, inputs=inputs), dtype)
    exact = dict(zip(("query", "key", "value"), projected(problem), strict=True))
    for name, count in (("query", 4), ("key", 2), ("value", 2)):
        assert (in_dtype(problem, name, count) == exact[name]).all()
        assert np.abs(exact[name]).max() > 0


def projected(problem: LayerProblem) -> tuple[Array, Array, Array]:
    """The exact projections in float64: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv)."""
    def heads(inputs: Array, name: str, count: int) -> Array:
        rows = inputs.astype(np.float64) @ problem.params[f"w_{name}"].astype(np.float64)
        if f"b_{name}" in problem.params:
            rows = rows + problem.params[f"b_{name}"].astype(np.float64)
        return rows.reshape(*rows.shape[:2], count, -1).swapaxes(1, 2)

    return (heads(problem.query, "query", problem.heads), heads(problem.key, "key", problem.kv_heads),
            heads(problem.value, "value", problem.kv_heads))


def in_dtype(problem: LayerProblem, name: str, count: int) -> Array:
    """x @ W + b with every product and every partial sum rounded to the dtype, in a scrambled order."""
    inputs, weight, bias = getattr(problem, name), problem.params[f"w_{name}"], problem.params[f"b_{name}"]
    total = np.broadcast_to(bias, (*inputs.shape[:2], len(bias))).copy()
    for row in np.random.default_rng(0).permutation(len(weight)):
        total = (total + inputs[..., row, None] * weight[row]).astype(bias.dtype)
    heads: Array = total.reshape(*inputs.shape[:2], count, -1).swapaxes(1, 2)
    return heads.astype(np.float64)


@pytest.mark.parametrize("inputs", ["separate", "memory", "one"])
def test_inputs_say_which_arrays_of_a_layer_are_alike(inputs: str) -> None:
    problem = make_layer(a_recipe(Sizes(2, 2, 2, 5, 5, 3, 3), ("integers",), M=6, inputs=inputs), DType.FLOAT32)
    assert (problem.key == problem.value).all() == (inputs != "separate")
    assert (problem.query == problem.key).all() == (inputs == "one")
    assert not np.shares_memory(problem.key, problem.value)


def test_a_layer_has_parameters_of_the_shapes_that_its_sizes_say() -> None:
    problem = make_layer(a_recipe(families=("integers",), M=11), DType.FLOAT32)
    assert {name: array.shape for name, array in problem.params.items()} == {
        "w_query": (11, 32), "w_key": (11, 16), "w_value": (11, 12), "w_out": (24, 11),
        "b_query": (32,), "b_key": (16,), "b_value": (12,), "b_out": (11,)}
    assert problem.sizes == SIZES


def test_a_layer_without_biases_is_given_none() -> None:
    problem = make_layer(a_recipe(families=("integers",)), DType.FLOAT32, limits=Limits(has_biases=False))
    assert set(problem.params) == {"w_query", "w_key", "w_value", "w_out"}


def test_a_layer_is_given_the_biases_that_it_has() -> None:
    some = make_layer(a_recipe(families=("integers",)), DType.FLOAT32, limits=Limits(biases="query key out")).params
    every = make_layer(a_recipe(families=("integers",)), DType.FLOAT32).params
    assert every.keys() - some.keys() == {"b_value"}
    assert all((some[name] == every[name]).all() for name in some)


def test_a_layer_without_output_projection_is_given_none() -> None:
    sizes = Sizes(1, 1, 1, 3, 3, 4, 4)
    problem = make_layer(a_recipe(sizes, ("integers",)), DType.FLOAT32, limits=Limits(projects_output=False))
    assert set(problem.params) == {"w_query", "w_key", "w_value", "b_query", "b_key", "b_value"}


def test_the_output_projection_moves_every_feature_and_adds_none() -> None:
    w_out = make_layer(a_recipe(Sizes(1, 3, 3, 2, 2, 4, 4), ("integers",)), DType.BFLOAT16).params["w_out"] != 0
    assert (w_out.sum(axis=0) == 1).all()
    assert (w_out.sum(axis=1) == 1).all()


def test_the_acceptance_case_is_that_of_the_note() -> None:
    (sizes,) = shapes_for(domain(kind="acceptance"), Limits(), Effort.QUICK)
    assert (sizes.B, sizes.T, sizes.S, sizes.H * sizes.D, sizes.H) == (10, 100, 100, 64, 4)
    assert domain(kind="acceptance").masks == ("triangle",)
