"""The same case at other sizes: lawful ones alone, and the smallest at which it still fails."""

from __future__ import annotations

import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort
from attnspec.problems.domain import Domain, domain
from attnspec.problems.problem import Recipe, Sizes
from attnspec.record.outcome import Measured
from attnspec.spec.load import load_spec
from attnspec.subjects.call import SubjectRaised
from attnspec.trials.compile import compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.sizes import Resizer, resize_recipe
from attnspec.trials.trial import Trial
from helpers.planted import plant_mistake

CASE = Recipe.parse(
    "B2,H4,Hkv2,T8,S100,D8,Dv4;mask=none;families=normal+integers+uniform;with=window;window=50+2;seed=9")
SMALL = Sizes(1, 2, 1, 3, 10, 8, 4)
GROUPED = Limits(grouped=True)


def test_families_are_no_more_than_heads_and_windows_keep_their_share() -> None:
    recipe = resize_recipe(CASE, SMALL, domain(grouped="maybe"), GROUPED)
    assert recipe
    assert recipe.text == "B1,H2,Hkv1,T3,S10,D8,Dv4;mask=none;families=normal;with=window;window=5+2;seed=9"


@pytest.mark.parametrize(("spoken_of", "limits"), [
    (domain(grouped="maybe", lengths="self"), GROUPED), (domain(grouped="maybe", min_keys=11), GROUPED),
    (domain(), GROUPED), (domain(grouped="maybe"), Limits(grouped=False)),
    (domain(grouped="maybe"), Limits(grouped=True, ties_value_width=True)),
    (domain(grouped="maybe"), Limits(grouped=True, min_head_width=16)), (domain(kind="generic"), GROUPED)])
def test_a_case_has_no_sizes_that_clause_or_subject_do_not_have(spoken_of: Domain, limits: Limits) -> None:
    assert resize_recipe(CASE, SMALL, spoken_of, limits) is None


def test_a_case_has_no_sizes_that_no_recipe_could_say() -> None:
    assert resize_recipe(CASE, Sizes(1, 2, 1, 5000, 5000, 8, 4), domain(grouped="maybe"), GROUPED) is None


def test_a_trial_ends_with_the_smallest_failing_sizes() -> None:
    check = compile_spec(load_spec())["attention.definition"]
    evaluator = Evaluator(plant_mistake(lambda s: s.S > 16 and s.D > 4), DType.FLOAT32)
    trial = Trial(check, evaluator, Effort.QUICK, seed_of(0, check.domain), lambda _: None)
    failure = trial.hold().failure
    assert isinstance(failure, Violated)
    assert failure.recipe.sizes == Sizes(1, 1, 1, 1, 17, 5, 1)
    assert failure.recipe.families == ("integers",)


def test_a_wrong_answer_is_not_made_an_exception() -> None:
    wrong = Measured("agree", "they differ", 2.0, 2.0, 1.0, 0.0, 2.0, (0,), 1, 1, 1)

    def put(recipe: Recipe) -> Tally:
        raised = SubjectRaised("ValueError: too few keys", "")
        return Tally(cases=1, failure=raised if recipe.sizes.S < 10 else Violated(wrong, recipe))

    resizer = Resizer(put, CASE, domain(grouped="maybe"), GROUPED, 40, 1e9, 60.0)
    assert resizer.find_smallest().S == 10
    assert {sizes.S for sizes, fails in resizer.known_sizes.items() if fails} == {sizes.S
                                                                                  for sizes in resizer.failing_recipes}
