"""Openings: what the first cases of a trial cover, and what Hypothesis does after them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort
from attnspec.faults.subject import own_subject
from attnspec.problems.choices import Menu, byte_for, menu_of
from attnspec.problems.domain import ANY_FAMILY, ANY_MASK, Domain, domain
from attnspec.problems.problem import Recipe
from attnspec.trials import trial as trials
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import FIXED_KINDS, TELLING_FAMILIES, Choices, deal_openings, seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.searching import OneExample
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.places import CHECKOUT

KEYWORDS = frozenset({"mask", "bias", "causal", "scale"})
EVERYTHING = domain(sometimes=sorted(KEYWORDS), grouped="maybe")
GROUPED = Limits(grouped=True)
SEEDS = range(5)
LONGER = [each for each in Effort if each is not Effort.GLANCE]
"""Efforts of more cases than a clause has shapes."""


def menu(chosen: Domain = EVERYTHING, effort: Effort = Effort.DEFAULT, draws: tuple[str, ...] = ()) -> Menu:
    found = menu_of(chosen, KEYWORDS, GROUPED, effort, draws)
    assert found is not None
    return found


def opened(chosen: Domain = EVERYTHING, seed: int = 0, effort: Effort = Effort.DEFAULT) -> list[Recipe]:
    """The recipes that a trial begins with."""
    dealt = menu(chosen, effort)
    return [dealt.recipe(*choices) for choices in deal_openings(dealt, seed, EFFORTS[effort].openings)]


# What they cover


@pytest.mark.parametrize("effort", LONGER)
@pytest.mark.parametrize("seed", SEEDS)
def test_openings_have_the_first_shapes_as_they_were_dealt(seed: int, effort: Effort) -> None:
    dealt = menu(effort=effort).shapes[:EFFORTS[effort].openings]
    assert [recipe.sizes for recipe in opened(seed=seed, effort=effort)] == list(dealt)


def test_a_glance_puts_the_first_shape_that_was_dealt() -> None:
    assert [recipe.sizes for recipe in opened(effort=Effort.GLANCE)] == [menu(effort=Effort.GLANCE).shapes[0]]


@pytest.mark.parametrize("seed", SEEDS)
def test_openings_begin_with_all_keywords_together_and_then_each_alone(seed: int) -> None:
    first, *others = (recipe.features for recipe in opened(seed=seed))
    assert first == KEYWORDS
    assert set(others[:len(KEYWORDS)]) == {frozenset({keyword}) for keyword in KEYWORDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_openings_hold_all_but_one_of_the_combinations_of_four_keywords(seed: int) -> None:
    used = [recipe.features for recipe in opened(seed=seed)]
    assert len(set(used)) == len(used) == 2 ** len(KEYWORDS) - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_quick_openings_have_any_two_keywords_together_and_apart(seed: int) -> None:
    used = [recipe.features for recipe in opened(seed=seed, effort=Effort.QUICK)]
    for one, other in combinations(sorted(KEYWORDS), 2):
        assert {(one in features, other in features) for features in used} >= {(True, True), (True, False),
                                                                               (False, True)}


@pytest.mark.parametrize("seed", SEEDS)
def test_openings_have_a_telling_family_and_most_of_the_others(seed: int) -> None:
    """Not all: a problem of one head has no place for a second family."""
    found = opened(seed=seed)
    assert all(recipe.families[0] in TELLING_FAMILIES for recipe in found)
    assert {recipe.families[0] for recipe in found} == set(TELLING_FAMILIES)
    assert len({family for recipe in found for family in recipe.families}) > 0.7 * len(ANY_FAMILY)


def test_openings_of_a_few_seeds_have_every_family_together() -> None:
    assert {family for seed in SEEDS for recipe in opened(seed=seed) for family in recipe.families} == set(ANY_FAMILY)


def test_a_clause_of_other_families_opens_with_its_own() -> None:
    found = opened(domain(families=["near_ties", "constant"]))
    assert {family for recipe in found for family in recipe.families} == {"near_ties", "constant"}


@pytest.mark.parametrize("seed", SEEDS)
def test_openings_under_a_mask_have_every_mask(seed: int) -> None:
    assert {recipe.mask for recipe in opened(domain(always=["mask"]), seed)} == set(ANY_MASK)


def test_nothing_comes_twice_before_everything_came_once() -> None:
    masks = [recipe.mask for recipe in opened(domain(always=["mask"]), effort=Effort.THOROUGH)]
    for start in range(0, len(masks) - len(ANY_MASK), len(ANY_MASK)):
        assert set(masks[start:start + len(ANY_MASK)]) == set(ANY_MASK)


def test_a_byte_picks_what_it_was_made_for() -> None:
    for count in (1, 2, 3, 22, 255, 256):
        assert [byte_for(index, count) * count >> 8 for index in range(count)] == list(range(count))


def test_a_number_past_the_choices_is_the_same_problem_at_another_seed() -> None:
    """That is where a search goes which adds one to what came close."""
    dealt = menu()
    chosen = deal_openings(dealt, 0, 1)[0][0]
    successor = (int.from_bytes(chosen, "big") + 1).to_bytes(len(chosen), "big")
    one, other = dealt.recipe(chosen), dealt.recipe(successor)
    assert other == replace(one, seed=one.seed + 1)


# Where they come from


def test_the_same_seed_gives_the_same_openings_and_another_one_others() -> None:
    dealt = menu(draws=("cut",))
    assert deal_openings(dealt, 7, 15) == deal_openings(dealt, 7, 15)
    assert all(one != other
               for one, other in zip(deal_openings(dealt, 7, 15), deal_openings(dealt, 8, 15), strict=True))


def test_fewer_openings_are_the_first_of_more() -> None:
    assert deal_openings(menu(), 3, 5) == deal_openings(menu(), 3, 15)[:5]
    assert deal_openings(menu(), 3, 0) == ()


def test_drawn_values_differ_from_opening_to_opening() -> None:
    dealt = menu(draws=("cut", "kept"))
    drawn = [dealt.recipe(*choices).drawn for choices in deal_openings(dealt, 0, 15)]
    assert all(set(each) == {"cut", "kept"} for each in drawn)
    assert all(one != other for one, other in pairwise(drawn))


# In a trial


def trial(clause: str, fault: str, *, shrinks: bool = True, most: int = 0, cases: int = 0,
          effort: Effort = Effort.QUICK) -> tuple[Trial, list[str]]:
    told: list[str] = []
    evaluator = Evaluator(own_subject(fault), DType.FLOAT32)
    check = checks()[clause]
    seed = seed_of(0, check.domain)
    return Trial(check, evaluator, effort, seed, told.append, shrinks=shrinks, max_cases=most, cases=cases), told


def test_a_trial_tries_openings_first_and_then_as_many_drawn_ones() -> None:
    held, told = trial("attention.definition", "sound/naive", effort=Effort.DEFAULT)
    assert held.hold().tried_count == EFFORTS[Effort.DEFAULT].cases == len(told)
    declared, dealt_ones = held.evaluator.subject.declaration, EFFORTS[Effort.DEFAULT].openings
    dealt = menu_of(held.check.domain, declared.keywords, declared.limits, Effort.DEFAULT)
    assert dealt is not None
    begun = [dealt.recipe(*choices).text for choices in deal_openings(dealt, held.seed, dealt_ones)]
    assert told[:dealt_ones] == begun
    assert told[dealt_ones].startswith("B1,H1,Hkv1,T1,S1,D1,Dv1;mask=none;families=integers;seed=0")


def test_a_quick_trial_tries_openings_alone() -> None:
    held, told = trial("attention.definition", "sound/naive")
    assert held.hold().tried_count == EFFORTS[Effort.QUICK].openings == EFFORTS[Effort.QUICK].cases == len(told)


@pytest.mark.parametrize("cases", [4, 5])
def test_of_counted_cases_half_are_openings_whatever_the_effort(cases: int) -> None:
    whole, told = trial("attention.definition", "sound/naive")
    held, begun = trial("attention.definition", "sound/naive", cases=cases)
    assert (whole.hold().tried_count, held.hold().tried_count) == (8, cases)
    half = (cases + 1) // 2
    assert begun[:half] == told[:half]
    assert not set(begun[half:]) & set(told)


def test_the_same_seed_gives_the_same_cases() -> None:
    (one, told), (other, again) = (trial("attention.definition", "sound/naive") for _ in range(2))
    assert one.hold().cases == other.hold().cases
    assert told == again


@pytest.mark.nightly
def test_a_shorter_trial_tries_the_first_of_the_same_cases() -> None:
    (whole, told), (part, begun) = (trial("attention.definition", "sound/naive", most=most, effort=Effort.DEFAULT)
                                    for most in (0, 21))
    assert whole.hold().tried_count == 30
    assert part.hold().tried_count == 21
    assert begun == told[:21]


def test_a_failing_opening_is_shrunk() -> None:
    held, told = trial("attention.definition", "fault/mask_ignored")
    failure = held.hold().failure
    assert isinstance(failure, Violated)
    smallest, first = failure.recipe, Recipe.parse(told[0])
    assert smallest.features == {"mask"} < first.features
    assert smallest.families == ("integers",)
    assert smallest.seed < 300 < first.seed


def test_without_shrinking_a_trial_ends_at_its_first_failure() -> None:
    held, told = trial("attention.definition", "fault/mask_ignored", shrinks=False)
    tally = held.hold()
    assert isinstance(tally.failure, Violated)
    assert tally.failure.recipe.text == told[-1]
    assert tally.tried_count == len(told)


def test_a_fault_that_comes_once_is_kept_though_it_does_not_come_again() -> None:
    held, _ = trial("attention.definition", "fault/first_call_wrong")
    held.evaluator.ask = _forgetful(held.evaluator.ask)  # type: ignore[method-assign]  # nothing is remembered
    assert isinstance(held.hold().failure, Violated)


def _forgetful(ask: Callable[..., Any]) -> Callable[..., Any]:
    return lambda problem, key, **_: ask(problem, key, fresh=True)


@pytest.mark.nightly
def test_the_search_is_told_how_close_each_case_came_in_octaves(monkeypatch: pytest.MonkeyPatch) -> None:
    closeness: list[float] = []
    monkeypatch.setattr("attnspec.trials.searching.target", closeness.append)
    held, _ = trial("attention.definition", "sound/naive", effort=Effort.DEFAULT)
    tally = held.hold()
    assert len(closeness) == EFFORTS[Effort.DEFAULT].drawn
    assert all(-40 <= octave <= 0 for octave in closeness)
    assert len(set(closeness)) > 3
    assert tally.worst is not None


def test_a_case_without_a_claim_has_no_margin() -> None:
    held, _ = trial("masking.hidden_row_convention", "sound/naive")
    text = "B1,H1,Hkv1,T1,S1,D1,Dv1;mask={};families=integers;with=mask;seed=0"
    assert held.judge(Recipe.parse(text.format("with_empty_rows")), Tally()) == 0
    silent, _ = trial("attention.additive_in_values", "sound/naive")
    silent.evaluator.subject = replace(silent.evaluator.subject, declaration=replace(
        silent.evaluator.subject.declaration, limits=Limits(min_head_width=2)))
    tally = Tally()
    assert silent.judge(Recipe.parse(text.format("none").replace("with=mask;", "")), tally) is None
    assert (tally.cases, tally.tried_count) == (0, 0)


@pytest.mark.parametrize("clause", [check for check in checks().values()
                                    if check.domain.kind in FIXED_KINDS], ids=lambda check: check.clause.id)
def test_what_is_fixed_is_never_searched(clause: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for the worst of many draws would void the false-alarm rate of a law of chance."""
    def searched(menu: Menu, seed: int, count: int) -> Iterator[Choices]:
        raise AssertionError(f"{menu} was searched from {seed} on for {count}")

    monkeypatch.setattr(trials, "deal_openings", searched)
    monkeypatch.setattr(Trial, "judge", lambda self, recipe, _: self.breadcrumb(recipe.text))
    told: list[str] = []
    evaluator = Evaluator(own_subject("sound/naive"), DType.FLOAT32)
    tally = Trial(clause, evaluator, Effort.THOROUGH, 0, told.append).hold()
    assert tally.tried_count == len(set(told)) < EFFORTS[Effort.THOROUGH].cases


def test_the_database_knows_one_example_that_is_still_to_be_shrunk() -> None:
    database = OneExample((b"\x01\x02", 3))
    stored = list(database.fetch(b"any.secondary"))
    database.save(b"any.secondary", b"other")
    database.delete(b"any.secondary", stored[0])
    assert list(database.fetch(b"another.secondary")) == stored
    assert len(stored) == 1
    assert list(database.fetch(b"any")) == []


def test_a_clause_is_tried_on_as_many_cases_as_the_guide_says() -> None:
    guide = (CHECKOUT / "docs" / "writing-a-clause.md").read_text(encoding="utf-8")
    [told] = re.findall(r"A clause is tried on (\d+), (\d+) or (\d+) cases at effort quick, default or thorough", guide)
    assert [EFFORTS[effort].cases for effort in (Effort.QUICK, Effort.DEFAULT, Effort.THOROUGH)] == list(map(int, told))


def test_every_effort_has_numbers_and_more_effort_never_tries_less() -> None:
    assert list(EFFORTS) == list(Effort)
    for less, more in pairwise(EFFORTS.values()):
        assert less.cases <= more.cases
        assert (less.rows, less.budget, less.largest, less.compiling) <= (more.rows, more.budget, more.largest,
                                                                          more.compiling)
        assert all(count <= more.chances[kind] for kind, count in less.chances.items())
