"""Faults that show only at certain sizes: wrong where they bite, right everywhere else, and other ones by each seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import FAULT, Plan
from attnspec.engine.engine import Engine
from attnspec.faults.catalogue import ALL, CATALOGUE, FIXED, MECHANISMS, declaration_of, draw_fault, fault_named
from attnspec.faults.fault import Fault
from attnspec.faults.size_family import Axes, FaultFamily, Planted, axes_of
from attnspec.faults.sizes.families import ALL_FAMILIES, FAMILIES
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import Answer
from attnspec.faults.subject import own_ids, own_subject
from attnspec.problems.make import make_problem
from attnspec.problems.problem import MOST_FEATURES, Problem, Recipe
from attnspec.record.events import SUITE, Conviction, SubjectPut
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from evaluation.baselines.rules import renew_subject
from evaluation.power.against import compare_power
from evaluation.power.jobs import PowerJobs, with_power
from helpers.commands import Cli
from helpers.law import checks

SEEDS = (0, 1, 7)
MANY = range(40)
MOST, MUCH = 1e9, 1e8
"""Work of a case, B·H·T·S·(D + Dv + 100): what effort default affords at most; most families need less than MUCH."""

LONGEST = {"B": 33, "H": 128, "G": 8, "T": 4096, "S": 4096, "D": 256, "Dv": 256}
"""What is drawn at effort default, at most."""

VALUES = {"window": "window=5+3", "softcap": "softcap=0.5"}
ONE = "size_keys_number_wraps"

DRAWN = [draw_fault(family, seed) for seed in SEEDS for family in ALL_FAMILIES]
each_drawn = pytest.mark.parametrize("fault", DRAWN, ids=[fault.name for fault in DRAWN])
each_family = pytest.mark.parametrize("family", ALL_FAMILIES, ids=[family.name for family in ALL_FAMILIES])


def plant(fault: Fault) -> Planted:
    assert fault.planted is not None
    return fault.planted


def recipe(axes: Axes, keywords: frozenset[str]) -> Recipe:
    """Generic inputs of these lengths."""
    sizes = ",".join(f"{axis}{axes[axis]}" for axis in ("B", "H", "Hkv", "T", "S", "D", "Dv"))
    used = [f"with={'+'.join(sorted(keywords))}"] if keywords else []
    values = [value for name, value in VALUES.items() if name in keywords]
    mask = "random" if "mask" in keywords else "none"
    return Recipe.parse(";".join([sizes, f"mask={mask}", "families=normal", *used, *values, "seed=11"]))


def judged(fault: Fault, axes: Axes, dtype: DType = DType.FLOAT32) -> Tally:
    """The definition against the fault on generic inputs of these lengths, every row of it."""
    check, subject = checks()["attention.definition"], own_subject(FAULT + fault.name)
    trial = Trial(check, Evaluator(subject, dtype), Effort.THOROUGH, 0, lambda _: None)
    return trial.judge_recipe(recipe(axes, plant(fault).keywords))


def answers(fault: Fault, problem: Problem) -> tuple[Answer, Answer]:
    """What the fault and the sound stages say."""
    one, other = (function(problem.query, problem.key, problem.value, **problem.given)
                  for function in (fault.function, staged()()))
    return one, other


def work(axes: Axes) -> float:
    return axes["B·H"] * axes["T"] * axes["S"] * (axes["D"] + axes["Dv"] + 100)


def beyond(fault: Fault) -> Axes:
    """Lengths a little beyond the least at which the fault bites; the least where no such were met."""
    least, dice = plant(fault).least(), random.Random(fault.name)
    for _ in range(200):
        axes = {name: least[name] + dice.choice((0, 0, 1, 2, 5, 13)) for name in ("B", "Hkv", "G", "T", "S", "D", "Dv")}
        H = axes["Hkv"] * axes["G"]
        axes |= {"H": H, "B·H": axes["B"] * H}
        fits = H * max(axes["D"], axes["Dv"]) <= MOST_FEATURES and work(axes) < MUCH / 3
        if fits and plant(fault).bites(axes, plant(fault).keywords):
            return axes
    return least


# --- wrong inside, right outside

@pytest.mark.family(20)
@each_drawn
def test_it_is_convicted_at_the_least_sizes_where_it_bites(fault: Fault) -> None:
    axes = plant(fault).least()
    assert plant(fault).bites(axes, plant(fault).keywords)
    assert judged(fault, axes).failure is not None, f"{fault.reach}: {axes}"


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16])
def test_it_is_convicted_at_every_dtype(dtype: DType) -> None:
    silent = [fault.name for fault in DRAWN[::3] if judged(fault, plant(fault).least(), dtype).failure is None]
    assert silent == []


@pytest.mark.family(20)
@each_family
def test_it_is_convicted_beyond_the_least_sizes_too(family: FaultFamily) -> None:
    fault = draw_fault(family, 2)
    assert judged(fault, beyond(fault)).failure is not None, f"{fault.reach}: {beyond(fault)}"


@pytest.mark.family(124)
@each_drawn
def test_next_to_where_it_bites_it_answers_bit_for_bit_as_sound_stages(fault: Fault) -> None:
    beside = list(plant(fault).neighbouring_lengths())
    assert beside
    for axes in beside:
        assert not plant(fault).bites(axes, plant(fault).keywords)
        wrong, right = answers(fault, make_problem(recipe(axes, plant(fault).keywords), DType.FLOAT32))
        np.testing.assert_array_equal(wrong, right, err_msg=str(axes))


@pytest.mark.family(30)
@pytest.mark.parametrize("fault", [fault for fault in DRAWN if plant(fault).keywords], ids=lambda fault: fault.name)
def test_without_its_keywords_it_answers_bit_for_bit_as_sound_stages(fault: Fault) -> None:
    problem = make_problem(recipe(plant(fault).least(), frozenset()), DType.FLOAT32)
    np.testing.assert_array_equal(*answers(fault, problem))


def test_what_a_plant_counts_is_what_it_is_handed() -> None:
    problem = make_problem(Recipe.parse("B3,H6,Hkv2,T4,S5,D7,Dv8;mask=none;families=normal;seed=1"), DType.FLOAT32)
    assert axes_of(problem.sizes) == {"B": 3, "H": 6, "Hkv": 2, "T": 4, "S": 5, "D": 7, "Dv": 8, "G": 3, "B·H": 18}


# --- what they are

def test_there_are_many_kinds_and_many_of_them_need_two_things() -> None:
    assert len(ALL_FAMILIES) == len(FAMILIES) == 124
    assert len({family.mechanism for family in ALL_FAMILIES}) == len(MECHANISMS) == 107
    assert sum(len(family.terms) + bool(family.keywords) > 1 for family in ALL_FAMILIES) == 87
    assert {axis for family in ALL_FAMILIES for axis in family.plant(0).axes} == {
        "B", "H", "Hkv", "G", "T", "S", "D", "Dv", "B·H"}


@pytest.mark.family(30)
@each_family
def test_a_seed_draws_sizes_that_effort_default_can_meet(family: FaultFamily) -> None:
    for seed in MANY:
        axes = family.plant(seed).least()
        assert {name: axes[name] for name, most in LONGEST.items() if axes[name] > most} == {}, seed
        assert axes["H"] * max(axes["D"], axes["Dv"]) <= MOST_FEATURES, seed
        assert work(axes) <= MOST, seed


def test_most_can_be_met_at_little_work() -> None:
    works = [work(family.plant(seed).least()) for family in ALL_FAMILIES for seed in MANY]
    assert sum(each <= MUCH for each in works) > 0.95 * len(works)


def test_each_seed_draws_anew_and_always_the_same() -> None:
    assert FAMILIES[ONE].plant(3) == FAMILIES[ONE].plant(3)
    same = [family.name for family in ALL_FAMILIES
            if len({(family.plant(seed).size, family.plant(seed).terms) for seed in MANY}) == 1]
    assert same == []
    varied = sum(family.plant(0).reach != family.plant(1).reach for family in ALL_FAMILIES)
    assert varied > len(ALL_FAMILIES) / 2


def test_what_was_planted_is_told_in_words_and_in_numbers() -> None:
    fault = fault_named(f"{ONE}@7")
    planted, [term] = plant(fault), plant(fault).terms
    assert (planted.mechanism, planted.seed, planted.axes, term.axis) == ("a key's number wraps", 7, ("S",), "S")
    assert planted.size == term.number
    assert fault.reach == f"S > {term.number}"
    assert fault.story.endswith(f"Seed 7 draws a block, tile or grid of {term.number}, and where it shows.")
    assert draw_fault(FAMILIES["size_mask_lost_with_causal"]).reach.endswith("; with causal and mask")


def test_every_relation_says_what_it_asks_for() -> None:
    told = {term.relation: term.text for family in ALL_FAMILIES for seed in MANY for term in family.plant(seed).terms}
    assert len(told) == 11
    assert all(text.split()[0] in {"B", "H", "Hkv", "G", "T", "S", "D", "Dv", "B·H"} for text in told.values())


# --- by which name, and before which clauses

def test_they_stand_in_the_catalogue_as_seed_0_draws_them() -> None:
    assert [fault.name for fault in ALL[len(FIXED):]] == [family.name for family in ALL_FAMILIES]
    assert all(fault.planted == FAMILIES[fault.name].plant(0) for fault in ALL[len(FIXED):])
    assert fault_named(f"{ONE}@0").planted == CATALOGUE[ONE].planted
    assert all(fault.planted is None for fault in FIXED)


@pytest.mark.parametrize(("target", "answer"), [
    (f"{ONE}@x", r"'x' is not a seed: write a whole number after the @, such as size_keys_number_wraps@7\."),
    (f"{ONE}@", r"'' is not a seed: write a whole number after the @, such as"),
    ("scale_none@7", r"'scale_none' draws nothing, so no seed can follow it\. Name it without @7\."),
    ("size_key_number_wraps@7", r"'size_key_number_wraps' is not a known fault\. Did you mean 'size_keys_")])
def test_a_name_or_seed_that_nothing_takes_is_answered_with_the_way_out(target: str, answer: str) -> None:
    with pytest.raises(TargetError, match=answer):
        own_subject(FAULT + target)


def test_a_drawn_fault_is_a_subject_like_any_other() -> None:
    subject = own_subject(f"{FAULT}{ONE}@7")
    assert subject.declaration == declaration_of(CATALOGUE[ONE])
    assert renew_subject(subject).callee is not subject.callee
    assert f"{FAULT}{ONE}" in own_ids()
    assert f"{FAULT}{ONE}@7" in own_ids(seed="7")


def test_a_keyword_that_few_have_is_taken_where_it_is_meant() -> None:
    taken = {family.name: declaration_of(draw_fault(family)).keywords for family in ALL_FAMILIES}
    assert [family.name for family in ALL_FAMILIES if not set(family.keywords.split()) <= taken[family.name]] == []


def of_engine(target: str) -> Iterator[str]:
    yield from dict.fromkeys(item.clause for item in Engine(Plan((target,), dtypes=(DType.FLOAT32,))).items())


@pytest.mark.parametrize(("name", "clauses"), [
    (f"{ONE}@7", {"attention.definition", "attention.weights_definition"}),
    ("size_mask_dropped_past", {"attention.definition", "masking.definition"}),
    ("size_mask_lost_with_causal@3", {"attention.definition", "causal.with_mask"}),
    ("size_groups_long_tiled", {"attention.definition", "attention.weights_definition", "grouped.definition"})])
def test_a_family_is_put_to_the_ordinary_clauses(name: str, clauses: set[str]) -> None:
    assert set(of_engine(FAULT + name)) == clauses


@each_family
def test_the_clauses_of_a_family_exist_and_take_its_keywords(family: FaultFamily) -> None:
    subject = own_subject(FAULT + family.name)
    assert [name for name in family.clauses if checks()[name].why_not_put(subject)] == []


@pytest.mark.nightly
def test_a_replay_line_of_a_drawn_fault_is_convicted_again(cli: Cli) -> None:
    case = recipe(FAMILIES[ONE].plant(7).least(), frozenset()).text
    code, out, _ = cli("replay", f"{FAULT}{ONE}@7 attention.definition float32 {case}")
    assert code == 1
    assert f"{FAULT}{ONE}@7" in out


@pytest.mark.nightly
def test_the_families_of_a_seed_can_be_named_by_a_pattern(cli: Cli) -> None:
    code, out, _ = cli("check", f"{FAULT}size_scale_of_t*@7", "--dtype", "float32", "--effort", "glance")
    assert code in (0, 1)
    assert f"{FAULT}size_scale_of_tiles@7" in out


def test_families_are_listed_and_explained(cli: Cli) -> None:
    listed = cli("list", "faults")[1]
    assert all(f"{name} " in listed for name in FAMILIES)
    told = cli("explain", "size_groups_r*@7")[1]
    assert "size_groups_rounded_up@7  (a fault" in told
    assert "  tried on it: attention.definition, attention.weights_definition, grouped.definition\n" in told


# --- power, and the matrix of clauses and faults

def jobs(*seeds: int, targets: tuple[str, ...] = (f"{FAULT}{ONE}", f"{FAULT}scale_none")) -> PowerJobs:
    return PowerJobs(with_power(Plan(targets, dtypes=(DType.FLOAT32,)), seeds=seeds, rules=(SUITE,)))


def test_power_puts_what_its_seed_draws() -> None:
    assert [item.target for item in jobs(0, 7).items()] == [
        f"{FAULT}{ONE}", f"{FAULT}scale_none", f"{FAULT}{ONE}@7", f"{FAULT}scale_none"]
    assert [item.target for item in jobs(7, targets=(f"{FAULT}{ONE}@3",)).items()] == [f"{FAULT}{ONE}@3"]


def put(name: str, *, convicted: bool, seed: int) -> SubjectPut:
    said = Conviction(SUITE, convicted=convicted, cases=1, clause="attention.definition" if convicted else "")
    return SubjectPut(FAULT + name, DType.FLOAT32, seed, is_fault=True, stage="blocks", convictions=(said,))


def test_power_is_held_against_the_same_seed_of_a_family() -> None:
    before = [put(f"{ONE}@7", convicted=True, seed=7)]
    found = compare_power([put(f"{ONE}@7", convicted=False, seed=7)], before, catalogue=CATALOGUE)
    assert [(fallen.name, fallen.seed) for fallen in found.fallen] == [(ONE, 7)]
    assert (found.gone, dict(found.new)) == ((), {})


def test_the_matrix_is_not_about_families(evaluation_cli: Cli) -> None:
    code, _, err = evaluation_cli("refutations", "--fault", "size_*")
    assert code == 2
    assert ("the sizes at which these faults show are drawn from a seed, so the matrix does not list them. "
            "Test them with: python -m evaluation power --fault NAME.") in err
