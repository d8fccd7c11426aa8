"""Windows: what is seen, which of them a subject is asked for, and the words that speak of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.aspects.window import words
from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError, UsageError
from attnspec.core.keyword import GROWN_FROM, Window
from attnspec.core.keywords import VALUED
from attnspec.core.nouns import DType, Effort
from attnspec.core.surroundings import Surroundings
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.subject import sound_subject
from attnspec.numerics.operands import visible_keys
from attnspec.problems.choices import Menu, menu_of
from attnspec.problems.domain import domain
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.registry import load_target
from attnspec.trials.covering_cases import deal_openings, seed_of
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import contents

TOP_LEFT = {"causal_alignment": "top_left", "mask_with_causal": "both"}
BOTTOM_RIGHT = {**TOP_LEFT, "causal_alignment": "bottom_right"}
KEYWORDS = frozenset({"mask", "bias", "causal", "scale", "window", "softcap"})
WINDOWS, CAPS = VALUED["window"].usual, VALUED["softcap"].usual


def problem(T: int, S: int, window: Window | None, *, more: str = "", dtype: DType = DType.FLOAT32) -> Problem:
    mask = "random" if "mask" in more else "none"
    features = f";with={'+'.join(more.split())}" if more else ""
    text = f"B1,H2,Hkv2,T{T},S{S},D4,Dv4;mask={mask};families=normal{features};seed=3"
    return make_problem(Recipe.parse(text), dtype).but(window=window)


# What is seen


def test_a_window_is_a_tuple_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def attend(query, key, value, *, window=None):\n    return value * {(2, None): 3}[window]\n",
                    encoding="utf-8")  # a list could not be looked up
    posed = problem(1, 1, (2, None))
    answer = load_target(f"{path}:attend", Surroundings()).answer(posed)
    np.testing.assert_array_equal(answer.output, posed.value * 3)


@pytest.mark.family(48)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(("T", "S"), [(5, 5), (3, 6), (6, 3)])
@pytest.mark.parametrize("conventions", [TOP_LEFT, BOTTOM_RIGHT], ids=["top_left", "bottom_right"])
@pytest.mark.parametrize("more", ["", "causal", "mask", "causal mask"])
def test_a_key_is_seen_if_window_flag_and_mask_allow_it(
        window: Window, T: int, S: int, conventions: dict[str, str], more: str) -> None:
    posed = problem(T, S, window, more=more)
    left, right = window
    offset = S - T if conventions is BOTTOM_RIGHT else 0
    for i, j in product(range(T), range(S)):
        place = i + offset
        near = (left is None or j >= place - left) and (right is None or j <= place + right)
        seen = near and (j <= place or not posed.causal)
        expected = seen & (posed.mask[:, :, i, j] if posed.mask is not None else True)
        assert (visible_keys(posed, conventions)[:, :, i, j] == expected).all()


def test_a_window_with_a_bias_that_hides_is_both() -> None:
    posed = problem(4, 4, (1, 0), more="bias")
    assert posed.bias is not None
    posed.bias[..., 0] = -np.inf
    np.testing.assert_array_equal(visible_keys(posed, TOP_LEFT)[0, 0],
                                  [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])


@pytest.mark.parametrize("name", DENSE)
def test_a_sound_formulation_bounds_what_it_sees(name: str) -> None:
    posed = problem(6, 6, (1, 2))
    value = np.tile(np.eye(6, dtype=np.float32), (1, 2, 1, 1))
    answer = sound_named(name).function(posed.query, posed.key, value, window=(1, 2))
    assert isinstance(answer, np.ndarray)
    np.testing.assert_array_equal(answer > 0, visible_keys(posed, TOP_LEFT))


def test_the_alignment_of_a_window_is_probed_where_there_is_no_causal_flag() -> None:
    subject = sound_subject("sound/naive")
    only_window = replace(subject, declaration=replace(subject.declaration, keywords=frozenset({"window"})))
    assert probe_conventions(only_window, DType.FLOAT32)["causal_alignment"] == "top_left"


# Recipes


GOOD = "B1,H1,Hkv1,T5,S7,D8,Dv8;mask=none;families=normal;with=softcap+window;window=3+-;softcap=0.5;seed=1"


def test_a_recipe_with_a_window_and_a_softcap_is_read_back() -> None:
    recipe = Recipe.parse(GOOD)
    assert recipe.text == GOOD
    assert (recipe.value("window"), recipe.value("softcap")) == ((3, None), 0.5)
    made = make_problem(recipe, DType.FLOAT32)
    assert (made.window, made.softcap) == ((3, None), 0.5)
    assert made.keywords == {"window", "softcap"}


@pytest.mark.parametrize(("part", "by", "complaint"), [
    ("3+-", "3", "window should read left+right, as 2+1 or 3+- (no bound on the right), not '3'"),
    ("3+-", "3+x", "not '3+x'"), ("3+-", "-1+2", "not '-1+2'"), ("3+-", "1+2+3", "not '1+2+3'"),
    ("0.5", "0", "softcap should be a number above 0, not '0'"), ("0.5", "-2", "not '-2'"),
    ("0.5", "nan", "not 'nan'"), ("0.5", "inf", "not 'inf'"), ("0.5", "big", "should be a number, not 'big'")])
def test_a_broken_window_or_softcap_is_told(part: str, by: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        Recipe.parse(GOOD.replace(part, by, 1))
    assert complaint in str(raised.value)


# Domains and menus


@pytest.mark.parametrize(("arguments", "complaint"), [
    ({"windows": [(-1, 2)]}, "a window reaches from 0 to 999999 keys to a side, not -1; null means no bound."),
    ({"softcaps": [0.0]}, "a softcap is above 0, not 0."),
    ({"kind": "score", "always": ["softcap"]}, "problems of kind 'score' use the plain logits of all keys, so they "
     "cannot have 'softcap'."),
])
def test_a_window_or_softcap_that_makes_no_sense_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError) as raised:
        domain(**arguments)
    assert str(raised.value) == complaint


def menu(limits: Limits | None = None, offered: frozenset[str] = KEYWORDS,
         **given: Any) -> Menu:  # noqa: ANN401  (the domain's)
    found = menu_of(domain(**given), offered, limits or Limits(), Effort.DEFAULT)
    assert found is not None
    return found


def dealt(chosen: Menu, count: int = 60) -> list[Recipe]:
    return [chosen.recipe(*choices) for choices in deal_openings(chosen, 1, count)]


def test_every_window_and_every_softcap_is_dealt() -> None:
    recipes = dealt(menu(always=["window", "softcap"]), 120)
    small = [recipe for recipe in recipes if recipe.sizes.S < GROWN_FROM]
    assert {recipe.value("window") for recipe in small} == set(WINDOWS)
    assert {recipe.value("softcap") for recipe in small} == set(CAPS)


def test_windows_reach_further_and_caps_are_higher_among_many_keys() -> None:
    recipes = [recipe for recipe in dealt(menu(always=["window", "softcap"])) if recipe.sizes.S >= 8 * GROWN_FROM]
    reaches = [side for recipe in recipes for side in recipe.value("window") if side]
    assert max(reaches) > max(side for window in WINDOWS for side in window if side)
    assert max(recipe.value("softcap") for recipe in recipes) > max(CAPS)
    assert min(reaches) < 4


@pytest.mark.parametrize(("name", "value", "keys", "grown"), [
    ("window", (2, None), 1024, (63, None)), ("window", (1, 0), 1024, (32, 0)), ("window", (1, 2), 31, (1, 2)),
    ("softcap", 30.0, 1024, 120.0)])
def test_a_window_grows_with_the_number_of_keys_and_a_cap_with_its_root(
        name: str, value: object, keys: int, grown: object) -> None:
    grow = VALUED[name].grown
    assert grow is not None
    assert grow(value, keys) == grown


def test_a_subject_without_them_gets_the_cases_that_it_always_got() -> None:
    old, new = (menu(offered=frozenset({"mask"}), sometimes=names) for names in
                (["mask"], ["mask", "window", "softcap"]))
    assert dealt(old) == dealt(new)
    assert seed_of(1, old.domain) == seed_of(1, new.domain)


def test_what_is_not_in_use_has_no_value() -> None:
    recipes = [recipe for recipe in dealt(menu(sometimes=["window", "softcap"])) if not recipe.features]
    assert recipes
    assert [recipe.values for recipe in recipes if recipe.values] == []


NEEDS_CAUSAL = Limits(window_needs_causal=True)


def test_a_window_that_needs_the_causal_flag_brings_it_along() -> None:
    recipes = dealt(menu(NEEDS_CAUSAL, always=["window"], sometimes=["causal"]))
    assert all("causal" in recipe.features for recipe in recipes)


def test_such_a_window_stays_away_where_the_flag_is_not_on_offer() -> None:
    assert not any("window" in recipe.features for recipe in dealt(menu(NEEDS_CAUSAL, sometimes=["window"])))
    assert all("window" in recipe.features for recipe in dealt(menu(NEEDS_CAUSAL, always=["window"])))


@pytest.mark.parametrize(("limits", "window", "causal", "reason"), [
    (Limits(), (2, 1), False, ""),
    (NEEDS_CAUSAL, (2, 0), False, "a window only together with the causal flag"),
    (NEEDS_CAUSAL, (2, 5), True, ""),
    (Limits(window_is_symmetric=True), (2, 1), False, "only a window that reaches as far to the right as to the left"),
    (Limits(window_is_symmetric=True), (2, 2), False, ""),
    (Limits(window_is_bounded=True), (2, None), False, "only a window with a bound on each side"),
    (Limits(window_is_bounded=True, window_needs_causal=True), (2, None), True, ""),
    (Limits(min_window=1), (2, 0), False, "a window of 1 keys a side and more only"),
    (Limits(min_window=1), (2, None), False, ""),
])
def test_a_window_outside_the_limits_is_refused(limits: Limits, window: Window, causal: bool, reason: str) -> None:
    sound = sound_subject("sound/naive")
    subject = replace(sound, declaration=replace(sound.declaration, limits=limits))
    posed = problem(4, 4, window).but(causal=causal)
    assert subject.refuses(posed) == (f"sound/naive takes {reason}; here {window}" if reason else "")


def test_only_windows_within_the_limits_are_dealt() -> None:
    recipes = dealt(menu(Limits(window_is_symmetric=True, min_window=1), always=["window"]))
    assert {recipe.value("window") for recipe in recipes} == {(1, 1), (2, 2)}


# Transforms


def posed(window: Window | None = (1, 1), more: str = "mask causal") -> Posed[Problem]:
    return Posed((problem(4, 6, window, more=more),), conventions=TOP_LEFT)


def test_a_window_as_a_mask_hides_the_same_keys() -> None:
    before, after = posed().one, words.window_as_mask(posed()).one
    assert after.keywords == {"mask"}
    np.testing.assert_array_equal(visible_keys(after, TOP_LEFT), visible_keys(before, TOP_LEFT))


def test_the_causal_flag_as_a_mask_leaves_the_window_alone() -> None:
    after = contents.causal_as_mask(posed(more="causal")).one
    assert after.window == (1, 1)
    assert after.mask is not None
    np.testing.assert_array_equal(after.mask[0, 0], np.tri(4, 6, dtype=bool))


@pytest.mark.parametrize("keyword", sorted(KEYWORDS - {"bias", "scale"}))
def test_a_keyword_that_is_left_out_is_the_only_one(keyword: Any) -> None:  # noqa: ANN401  (a literal)
    before = posed().but(softcap=2.0)
    after = contents.leave_out(before, keyword=keyword)
    assert after.one.keywords == before.one.keywords - {keyword}


@pytest.mark.parametrize("to", ["unbounded", "as wide as all"])
def test_a_window_that_keeps_no_key_away_hides_nothing(to: Any) -> None:  # noqa: ANN401  (a literal)
    after = words.with_window(posed(more=""), to=to).one
    assert after.window is not None
    for conventions in (TOP_LEFT, BOTTOM_RIGHT):
        assert visible_keys(after, conventions).all()


def test_only_what_a_query_does_not_see_is_moved() -> None:
    start = posed(more="")
    after = contents.move_unseen(start, arrays=("key", "value"), row=Drawn(2))
    moved = [bool((getattr(after.one, name)[:, :, j] != getattr(start.one, name)[:, :, j]).all())
             for name in ("key", "value") for j in range(6)]
    assert moved == [True, False, False, False, True, True] * 2


def test_a_query_that_sees_every_key_says_nothing() -> None:
    with pytest.raises(NoClaim, match="the query sees every key"):
        contents.move_unseen(posed(None, more=""), arrays=("key",), row=Drawn(0))
