"""Recipes: their text, the shapes they may have, and how Hypothesis draws and shrinks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.nouns import Effort
from attnspec.problems.choices import shapes_for
from attnspec.problems.domain import ANY_BIAS, ANY_FAMILY, ANY_MASK, Domain, Lengths, domain
from attnspec.problems.problem import Recipe, Sizes
from attnspec.problems.size_plan import SIMPLEST_SIZES
from attnspec.trials.searching import recipe_strategy
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

ALL_KEYWORDS = frozenset({"mask", "bias", "causal", "scale", "return_weights"})
GROUPED = Limits(grouped=True)
EVERYTHING = domain(sometimes=sorted(ALL_KEYWORDS), grouped="maybe")
LAYER = domain(kind="layer", sometimes=["mask", "causal"])
QUICKLY = settings(max_examples=60, database=None, deadline=None, derandomize=True,
                   suppress_health_check=list(HealthCheck))


def sample(chosen: Domain, count: int = 300, limits: Limits = GROUPED, effort: Effort = Effort.DEFAULT,
           draws: tuple[str, ...] = ()) -> list[Recipe]:
    """Recipes as a run would draw them."""
    found: list[Recipe] = []

    @settings(QUICKLY, max_examples=count, phases=[Phase.generate])
    @given(recipe_strategy(chosen, ALL_KEYWORDS, limits, effort, draws))
    def collect(recipe: Recipe) -> None:
        found.append(recipe)

    collect()
    return found


# Text


@QUICKLY
@given(recipe_strategy(EVERYTHING, ALL_KEYWORDS, GROUPED, Effort.THOROUGH, ("cut", "kept")))
def test_a_recipe_is_read_back_from_its_text(recipe: Recipe) -> None:
    read = Recipe.parse(recipe.text)
    assert read == recipe
    assert "\n" not in recipe.text


@QUICKLY
@given(recipe_strategy(LAYER, ALL_KEYWORDS, Limits(), Effort.THOROUGH))
def test_a_layers_recipe_is_read_back_from_its_text(recipe: Recipe) -> None:
    assert Recipe.parse(recipe.text) == recipe


def test_the_text_leaves_out_what_is_not_in_use() -> None:
    recipe = Recipe(Sizes(2, 4, 2, 5, 7, 8, 8), ("normal", "integers"), "random", frozenset({"mask", "causal"}), 91,
                    {"cut": 3})
    assert recipe.text == "B2,H4,Hkv2,T5,S7,D8,Dv8;mask=random;families=normal+integers;with=causal+mask;seed=91;cut=3"


GOOD = "B2,H4,Hkv2,T5,S7,D8,Dv8;mask=none;families=normal;seed=1"


@pytest.mark.parametrize(("text", "part", "by", "complaint"), [
    ("sizes", "B2,H4,Hkv2,T5,S7,D8,Dv8", "B2,H4", "it should begin with sizes like B2,H2,Hkv2,T2,S2,D2,Dv2"),
    ("no axis", "B2", "B0", "begins with 'B0,H4,Hkv2,T5,S7,D8,Dv8'"),
    ("groups", "Hkv2", "Hkv3", "Hkv=3 does not divide H=4"),
    ("family", "=normal", "=nromal", "'nromal' is not a known value family. Did you mean 'normal'?"),
    ("mask", "mask=none", "mask=randm", "'randm' is not a known mask recipe. Did you mean 'random'?"),
    ("keyword", "seed=1", "with=masks;seed=1", "'masks' is not a known keyword. Did you mean 'mask'?"),
    ("bias", "seed=1", "bias=zeros;seed=1", "'zeros' is not a known bias recipe. Did you mean 'zero'?"),
    ("inputs", "seed=1", "inputs=two;seed=1", "'two' is not a known kind of inputs."),
    ("seed", "seed=1", "seed=-1", "seed should be a whole number, not '-1'"),
    ("width", "seed=1", "M=x;seed=1", "M should be a whole number, not 'x'"),
    ("scale", "seed=1", "scale=big;seed=1", "scale should be a number, not 'big'"),
    ("field", "seed=1", "sed=one;seed=1", "sed=one is neither a field nor a drawn whole number. Did you mean 'seed'?"),
    ("missing", ";seed=1", "", "seed=… is missing"),
    ("twice", "seed=1", "seed=1;seed=2", "seed is given twice"),
    ("no value", "seed=1", "seed", "'seed' should read name=value"),
])
def test_a_broken_recipe_is_told_what_is_wrong(text: str, part: str, by: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        Recipe.parse(GOOD.replace(part, by, 1))
    assert complaint in str(raised.value), text
    assert str(raised.value).startswith("this is no recipe: ")


@settings(QUICKLY, max_examples=200)
@given(st.one_of(st.text(), st.builds(lambda cut, junk: GOOD[:cut] + junk + GOOD[cut:],
                                      st.integers(0, len(GOOD)), st.text(max_size=3))))
def test_no_text_makes_the_reader_stumble(text: str) -> None:
    try:
        recipe = Recipe.parse(text)
    except UsageError:
        return
    assert Recipe.parse(recipe.text) == recipe


# Domains


@pytest.mark.parametrize(("arguments", "complaint"), [
    ({"sometimes": ["masks"]}, "'masks' is not a known keyword. Did you mean 'mask'?"),
    ({"kind": "layer", "families": ["normal"]}, "a layer cannot have the value family 'normal'."),
    ({"kind": "layer", "always": ["scale"]}, "a layer takes no keyword 'scale'."),
    ({"kind": "mask_attack", "masks": ["random"]}, "the kind 'mask_attack' brings its own mask: leave out `masks`."),
])
def test_an_impossible_domain_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError) as raised:
        domain(**arguments)
    assert str(raised.value).startswith(complaint)


def test_special_names_must_be_asked_for() -> None:
    assert "mask_attack" not in ANY_FAMILY
    assert "with_empty_rows" not in ANY_MASK
    assert "hiding" not in ANY_BIAS
    assert domain(masks=["with_empty_rows"]).masks == ("with_empty_rows",)


# Shapes


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("arguments", [
    {}, {"grouped": "maybe"}, {"grouped": "always"}, {"lengths": "self"}, {"lengths": "more_keys"},
    {"lengths": "more_queries"}, {"lengths": "cross", "min_batch": 2}, {"min_heads": 2, "min_keys": 2},
    {"kind": "mask_attack"}, {"kind": "gaussian"}, {"kind": "worked_example"}, {"kind": "acceptance"}], ids=str)
def test_every_domain_has_shapes(arguments: dict[str, Any], effort: Effort) -> None:
    shapes = shapes_for(domain(**arguments), GROUPED, effort)
    assert 1 <= len(shapes) <= EFFORTS[effort].rows + len(SIMPLEST_SIZES)
    assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize(("lengths", "holds"), [
    ("self", lambda T, S: T == S), ("cross", lambda T, S: T != S), ("more_queries", lambda T, S: T > S),
    ("more_keys", lambda T, S: T < S)])
def test_lengths_compare_as_the_domain_says(lengths: Lengths, holds: Callable[[int, int], bool]) -> None:
    shapes = shapes_for(domain(lengths=lengths), GROUPED, Effort.THOROUGH)
    assert len(shapes) >= 3
    assert all(holds(sizes.T, sizes.S) for sizes in shapes)


@pytest.mark.parametrize(("limits", "holds"), [
    (Limits(ties_value_width=True), lambda sizes: sizes.Dv == sizes.D),
    (Limits(single_head=True), lambda sizes: sizes.H == sizes.Hkv == 1),
    (Limits(self_attention_only=True), lambda sizes: sizes.T == sizes.S and sizes.Hkv == sizes.H),
    (Limits(min_head_width=2), lambda sizes: min(sizes.D, sizes.Dv) >= 2),
    (Limits(grouped=False), lambda sizes: sizes.Hkv == sizes.H)])
def test_shapes_keep_the_limits_of_the_subject(limits: Limits, holds: Callable[[Sizes], bool]) -> None:
    shapes = shapes_for(EVERYTHING, limits, Effort.DEFAULT)
    assert len(shapes) >= 4
    assert all(map(holds, shapes))


@pytest.mark.parametrize(("arguments", "limits"), [
    ({"lengths": "cross"}, Limits(self_attention_only=True)), ({"grouped": "always"}, Limits(grouped=False)),
    ({"min_heads": 2}, Limits(single_head=True))])
def test_contradictions_leave_no_shape(arguments: dict[str, Any], limits: Limits) -> None:
    assert shapes_for(domain(**arguments), limits, Effort.DEFAULT) == ()
    assert recipe_strategy(domain(**arguments), ALL_KEYWORDS, limits, Effort.DEFAULT).is_empty


# Drawing


def test_recipes_stay_in_their_domain() -> None:
    chosen = domain(always=["mask"], sometimes=["causal"], masks=["padding", "random"], families=["normal", "offset"],
                    lengths="self")
    for recipe in sample(chosen, draws=("cut",)):
        assert recipe.sizes.T == recipe.sizes.S
        assert set(recipe.families) <= {"normal", "offset"}
        assert recipe.mask in {"padding", "random"}
        assert {"mask"} <= recipe.features <= {"mask", "causal"}
        assert 0 <= recipe.drawn["cut"] < 2**16


def test_keywords_that_the_subject_lacks_are_never_drawn() -> None:
    @QUICKLY
    @given(recipe_strategy(EVERYTHING, frozenset({"mask"}), GROUPED, Effort.DEFAULT))
    def holds(recipe: Recipe) -> None:
        assert recipe.features <= {"mask"}

    holds()


def test_everything_on_offer_is_drawn() -> None:
    found = sample(EVERYTHING, 600)
    assert {family for recipe in found for family in recipe.families} == set(ANY_FAMILY)
    assert {recipe.mask for recipe in found} == {"none", *ANY_MASK}
    assert {recipe.bias for recipe in found if "bias" in recipe.features} == set(ANY_BIAS)
    assert {recipe.sizes for recipe in found} == set(shapes_for(EVERYTHING, GROUPED, Effort.DEFAULT))
    assert {recipe.scale for recipe in found if "scale" in recipe.features} == set(EVERYTHING.scales)
    used = Counter(keyword for recipe in found for keyword in recipe.features)
    assert all(200 < count < 540 for count in used.values()), used


def test_causal_meets_unequal_lengths_and_several_batches_and_heads_often() -> None:
    found = sample(EVERYTHING, 600)
    assert sum("causal" in recipe.features and recipe.sizes.T != recipe.sizes.S for recipe in found) > 200
    assert sum(min(recipe.sizes.B, recipe.sizes.H) >= 2 for recipe in found) > 150


def test_layers_have_a_width_and_inputs() -> None:
    found = sample(LAYER)
    assert all(recipe.M >= recipe.sizes.H * recipe.sizes.D for recipe in found)
    assert any(recipe.M > recipe.sizes.H * recipe.sizes.D for recipe in found)
    assert {recipe.inputs for recipe in found} == {"separate", "memory", "one"}
    assert all(recipe.sizes.T == recipe.sizes.S for recipe in found if recipe.inputs == "one")


@pytest.mark.parametrize("limits", [
    Limits(self_attention_only=True, ties_model_width=True), Limits(ties_model_width=True)])
def test_layers_keep_the_limits_of_the_subject(limits: Limits) -> None:
    for recipe in sample(LAYER, 60, limits):
        assert recipe.M == recipe.sizes.H * recipe.sizes.D
        assert recipe.inputs == "one" or not limits.self_attention_only


def test_a_drawn_value_cannot_have_the_name_of_a_field() -> None:
    with pytest.raises(SpecError, match="cannot be called 'seed'"):
        recipe_strategy(EVERYTHING, ALL_KEYWORDS, GROUPED, Effort.DEFAULT, ("seed",))


LONG = "B3,H2,Hkv1,T33,S513,D128,Dv129"  # the cheapest of the sizes with many keys that this clause is dealt


@pytest.mark.family(2)
@pytest.mark.parametrize(("wanted", "smallest"), [
    (lambda _: True, "B1,H1,Hkv1,T1,S1,D1,Dv1;mask=none;families=integers;seed=0;cut=0"),
    (lambda recipe: recipe.sizes.S > 100, LONG + ";mask=none;families=integers;seed=0;cut=0"),
    (lambda recipe: "mask" in recipe.features and recipe.sizes.T > 1,
     "B2,H2,Hkv2,T2,S3,D2,Dv2;mask=all_true;families=integers;with=mask;seed=0;cut=0"),
    (lambda recipe: "log_normal" in recipe.families and recipe.drawn["cut"] > 40,
     "B1,H1,Hkv1,T1,S1,D1,Dv1;mask=none;families=log_normal;seed=0;cut=41")])
def test_recipes_shrink_to_the_simplest(wanted: Callable[[Recipe], bool], smallest: str) -> None:
    strategy = recipe_strategy(EVERYTHING, ALL_KEYWORDS, GROUPED, Effort.DEFAULT, ("cut",))
    found = find(strategy, wanted, settings=settings(QUICKLY, max_examples=2000))
    assert found.text == smallest
