"""Sizes: how axes are drawn, what clauses are dealt, what a case costs, and what a run is said to have met."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from attnspec.core.coverage import (
    AXES,
    bucket_bounds,
    bucket_label,
    bucket_of,
    every_pair,
    met_at,
    pairs_in,
    read_pairs,
    write_pairs,
)
from attnspec.core.declaration import Declaration, Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import DType, Effort
from attnspec.problems.demand import (
    BLOCKS,
    MOST_ENTRIES,
    MOST_FEATURES,
    MOST_PIECES,
    MOST_READING_CALLS,
    STANDARD_WIDTHS,
    Demand,
    length_distributions,
    lengths_of,
)
from attnspec.problems.domain import domain
from attnspec.problems.problem import Sizes, count_logits, count_work
from attnspec.problems.size_plan import (
    SIMPLEST_SIZES,
    Drawer,
    SizePlan,
    all_aims,
    meets_aim,
    pairs_of_axes,
    taken_pairs,
)
from attnspec.trials.covering_cases import FIXED_KINDS
from helpers.law import checks

GROUPED = Limits(grouped=True)
DEMANDS = tuple(dict.fromkeys(check.demand(projects=False) for check in checks().values()
                              if check.domain.kind not in FIXED_KINDS and not check.domain.is_layer))


@cache
def plan(effort: Effort = Effort.DEFAULT, limits: Limits = GROUPED, seed: int = 0, *, compiles: bool = False,
         dtype: DType = DType.FLOAT32, pool: str | None = None) -> SizePlan:
    demands = tuple(demand for demand in DEMANDS if pool in (None, demand.pool))
    return SizePlan(demands, limits, effort, seed, dtype, compiles)


def dealt(made: SizePlan) -> dict[Demand, tuple[Sizes, ...]]:
    return {demand: made.rows(demand) for demand in made.demands}


# Axes


@pytest.mark.parametrize("name", AXES)
def test_a_larger_share_never_stands_for_a_shorter_length(name: str) -> None:
    axis = length_distributions()[name]
    drawn = [axis.length_at(step / 500) for step in range(500)]
    assert drawn == sorted(drawn)
    assert drawn[0] == 1


@pytest.mark.parametrize("name", ["T", "S"])
def test_sides_of_every_block_are_drawn_more_often_than_others_nearby(name: str) -> None:
    axis = length_distributions()[name]
    weight = dict(zip(axis.lengths, (b - a for a, b in zip((0.0, *axis.sums), axis.sums, strict=False)), strict=True))
    for block in BLOCKS[2:]:
        assert min(weight[block - 1], weight[block], weight[block + 1]) > 2 * weight[block + 6]


def test_most_widths_are_those_that_models_have() -> None:
    drawn = [length_distributions()["D"].length_at(step / 2000) for step in range(2000)]
    assert 0.5 < sum(width in STANDARD_WIDTHS for width in drawn) / len(drawn) < 0.8
    assert set(STANDARD_WIDTHS) <= set(drawn)
    assert sum(width % 2 for width in drawn) > 200


def test_a_length_is_drawn_between_its_bounds() -> None:
    axis = length_distributions()["T"]
    assert {axis.length_at(step / 50, 129, 256) for step in range(50)} <= set(range(129, 257))
    assert axis.length_at(0.5, 5000) == 5000  # nothing is drawn up there


@pytest.mark.parametrize("name", AXES)
def test_every_length_lies_in_the_bucket_of_its_bounds(name: str) -> None:
    axis = length_distributions()[name]
    for length in axis.lengths:
        least, most = bucket_bounds(name, bucket_of(name, length))
        assert least <= length <= most


def test_a_bucket_is_called_by_its_bounds() -> None:
    assert [bucket_label("T", bucket) for bucket in (0, 1, 10)] == ["1", "2–8", "2049–4096"]


# Demands


@pytest.mark.family(20)
@pytest.mark.parametrize("demand", DEMANDS, ids=lambda demand: demand.demand_text[:40])
def test_what_is_dealt_is_taken_and_costs_no_more_than_a_case_may(demand: Demand) -> None:
    for sizes in plan().rows(demand):
        assert demand.takes_sizes(sizes, GROUPED)
        assert demand.work(sizes) <= EFFORTS[Effort.DEFAULT].largest
        assert sizes.B * sizes.H * sizes.T * sizes.S <= MOST_ENTRIES


def test_weights_are_read_in_few_calls() -> None:
    reading = Demand(domain(), reads=True)
    assert max(-(-sizes.S // sizes.Dv) for sizes in plan().rows(reading) or SizePlan(
        (reading,), GROUPED, Effort.DEFAULT).rows(reading)) <= MOST_READING_CALLS


@pytest.mark.parametrize("axis", "BHT")
def test_a_problem_is_taken_into_few_pieces(axis: str) -> None:
    parting = Demand(domain(), cut_axes=axis)
    rows = SizePlan((parting,), GROUPED, Effort.DEFAULT).rows(parting)
    assert max(getattr(sizes, axis) for sizes in rows) <= MOST_PIECES[axis]


def test_a_layer_is_no_wider_than_its_projections_may_be() -> None:
    layer = Demand(domain(kind="layer"), projects=True)
    rows = SizePlan((layer,), Limits(), Effort.DEFAULT).rows(layer)
    assert max(sizes.H * max(sizes.D, sizes.Dv) for sizes in rows) <= MOST_FEATURES
    assert layer.work(rows[0]) > count_work(rows[0])


def test_a_problem_of_few_scores_gets_a_larger_batch_where_it_must() -> None:
    demand = Demand(domain())
    assert all(sizes.B * sizes.H * sizes.T * sizes.S >= 500 for sizes in
               SizePlan((demand,), Limits(min_scores=500), Effort.QUICK).rows(demand))


@pytest.mark.nightly
def test_a_float64_subject_is_put_smaller_problems() -> None:
    wide, narrow = (sum(count_work(sizes) for rows in dealt(plan(dtype=dtype)).values() for sizes in rows)
                    for dtype in (DType.FLOAT32, DType.FLOAT64))
    assert narrow < wide / 5


# Plans


@pytest.mark.family(1)
@pytest.mark.parametrize("effort", [Effort.GLANCE, Effort.QUICK, Effort.DEFAULT])
def test_a_run_stays_within_its_budget(effort: Effort) -> None:
    spent = {pool: sum(demand.work(sizes) for demand, rows in dealt(plan(effort, pool=pool)).items() for sizes in rows)
             for pool in {demand.pool for demand in DEMANDS}}
    assert EFFORTS[effort].budget / 4 < max(spent.values()) < EFFORTS[effort].budget


def test_a_clause_about_what_no_size_brings_out_is_put_no_large_problem() -> None:
    largest = {pool: max(count_work(sizes) for rows in dealt(plan(Effort.QUICK, pool=pool)).values() for sizes in rows)
               for pool in ("range", "unequal", "segments")}
    assert max(largest["range"], largest["unequal"]) < EFFORTS[Effort.QUICK].largest / 3
    assert largest["segments"] > EFFORTS[Effort.QUICK].largest / 2


def test_a_glance_has_several_groups_of_heads() -> None:
    first = {demand: rows[0] for demand, rows in dealt(plan(Effort.GLANCE)).items() if rows}
    several = {demand for demand, sizes in first.items() if sizes.H > sizes.Hkv > 1}
    assert {demand for demand in first if demand.domain.grouped == "always"} <= several
    maybe = [demand for demand in first if demand.domain.grouped == "maybe"]
    assert 0.4 * len(maybe) < len(several.intersection(maybe)) < 0.8 * len(maybe)
    refusing = dealt(plan(Effort.GLANCE, Limits(grouped=False)))
    assert all(sizes.Hkv == sizes.H for rows in refusing.values() for sizes in rows)


def test_every_clause_has_sizes_of_its_own_and_all_of_them_differ() -> None:
    rows = [(demand.pool, sizes) for demand, each in dealt(plan()).items() for sizes in each]
    own = [(pool, sizes) for pool, sizes in rows if count_logits(sizes) > 100]
    assert len(set(own)) > 0.98 * len(own) > 1000


@pytest.mark.nightly
@pytest.mark.parametrize(("effort", "least"), [(Effort.QUICK, 0.35), (Effort.DEFAULT, 0.55)])
def test_uses_of_more_than_two_axes_are_met_too(effort: Effort, least: float) -> None:
    openings = [lengths_of(sizes) for rows in dealt(plan(effort)).values() for sizes in rows[:EFFORTS[effort].aimed]]
    uses = [aim for aim in all_aims() if len(aim) > 2]
    assert sum(any(meets_aim(use, lengths) for lengths in openings) for use in uses) > least * len(uses)


@pytest.mark.family(1)
@pytest.mark.parametrize(("effort", "least"), [(Effort.QUICK, 0.7), (Effort.DEFAULT, 0.8)])
def test_openings_alone_meet_most_pairs_of_axes(effort: Effort, least: float) -> None:
    met = {pair for rows in dealt(plan(effort)).values() for sizes in rows[:EFFORTS[effort].aimed]
           for pair in pairs_in(met_at(lengths_of(sizes)))}
    assert len(met) > least * len(pairs_of_axes())


def test_long_problems_are_among_them() -> None:
    rows = [sizes for each in dealt(plan()).values() for sizes in each]
    assert any(sizes.T > 1024 and sizes.S > 1024 for sizes in rows)
    assert any(sizes.T == 1 and sizes.S > 2048 for sizes in rows)
    assert any(sizes.D > 128 and sizes.S > 512 for sizes in rows)
    assert any(sizes.Hkv == 1 and sizes.H == 71 for sizes in rows)
    assert {(sizes.Dv > sizes.D) - (sizes.Dv < sizes.D) for sizes in rows} == {-1, 0, 1}


def test_what_a_clause_is_dealt_follows_from_the_seed_and_the_dtype() -> None:
    first = DEMANDS[0]
    assert plan().rows(first) == plan().rows(first)
    others = [plan(seed=1), plan(dtype=DType.FLOAT16), plan(Effort.QUICK)]
    assert all(other.rows(first) != plan().rows(first) for other in others)


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.DEFAULT, Effort.THOROUGH])
def test_what_opens_a_trial_grows_from_small_to_large(effort: Effort) -> None:
    """A wrong function fails on a small case, and how long a slow one takes is known before it is put a large one."""
    demand = DEMANDS[0]
    costs = [demand.work(sizes) for sizes in plan(effort).rows(demand)[:EFFORTS[effort].aimed]]
    assert costs == sorted(costs)


@pytest.mark.family(1)
@pytest.mark.parametrize("effort", [
    pytest.param(each, marks=pytest.mark.nightly) if each is Effort.THOROUGH else each for each in Effort])
def test_what_compiles_is_put_few_shapes_by_all_clauses_together(effort: Effort) -> None:
    rows = dealt(plan(effort, compiles=True))
    assert all(rows.values())
    # clauses that the shared shapes do not fit (least batches, T ≠ S, T > S, pages, long ones, groups) have their own
    assert len({sizes for each in rows.values() for sizes in each}) <= EFFORTS[effort].shared + 13


@pytest.mark.family(1)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_subject_of_square_problems_is_dealt_square_ones(*, grouped: bool) -> None:
    rows = dealt(plan(limits=Limits(self_attention_only=True, grouped=grouped)))
    alone = {demand: each for demand, each in rows.items() if "past_key" not in demand.domain.always}
    assert all(sizes.T == sizes.S for each in alone.values() for sizes in each)
    assert any(sizes.Hkv < sizes.H for each in alone.values() for sizes in each) is grouped
    assert sum(map(bool, alone.values())) > 30


@pytest.mark.parametrize("effort", Effort)
def test_no_clause_is_dealt_more_rows_than_a_byte_can_choose_among(effort: Effort) -> None:
    assert 3 * (EFFORTS[effort].rows + len(SIMPLEST_SIZES)) <= 256


def test_shares_are_the_same_everywhere() -> None:
    drawer = Drawer.from_label(7, "a label")
    assert [round(drawer.draw_share(), 6) for _ in range(3)] == SHARES


SHARES = [0.547666, 0.887603, 0.386698]


# What a run has met


def met_by(sizes: Sizes, *keywords: str) -> int:
    return met_at(lengths_of(sizes), keywords)


def test_a_case_meets_pairs_of_its_axes_and_keywords_beside_each_axis() -> None:
    met = list(pairs_in(met_by(Sizes(2, 4, 2, 33, 48, 32, 32), "causal", "return_weights")))
    kinds = Counter(isinstance(pair.other, str) for pair in met)
    assert kinds == {False: 21, True: 7}


def test_a_set_of_pairs_is_read_back_from_its_text() -> None:
    met = met_by(Sizes(1, 1, 1, 4096, 1, 256, 1), "mask")
    assert read_pairs(write_pairs(met)) == met
    assert (write_pairs(0), read_pairs("")) == ("", 0)


def test_a_length_beyond_the_last_bucket_counts_there() -> None:
    assert met_by(Sizes(1, 1, 1, 8192, 1, 8, 8)) == met_by(Sizes(1, 1, 1, 4096, 1, 8, 8))


@pytest.mark.parametrize(("limits", "axis"), [
    (Limits(), "G"), (Limits(grouped=False), "G"), (Limits(single_head=True), "H")])
def test_what_a_subject_does_not_take_is_no_pair_of_its(limits: Limits, axis: str) -> None:
    pairs = list(pairs_in(taken_pairs(limits, frozenset())))
    assert pairs
    assert {place[1] for pair in pairs for place in (pair.place, pair.other) if place[0] == axis} == {0}


def test_a_keyword_that_is_not_taken_is_in_no_pair() -> None:
    with_mask, without = (taken_pairs(GROUPED, frozenset(keywords)) for keywords in (("mask",), ()))
    assert {pair.other for pair in pairs_in(with_mask & ~without)} == {"mask"}


def test_what_is_dealt_is_among_what_is_taken() -> None:
    taken = taken_pairs(GROUPED, Declaration().keywords)
    for rows in dealt(plan()).values():
        for sizes in rows:
            assert not met_by(sizes) & ~taken, sizes


def test_there_is_a_bit_for_each_pair() -> None:
    assert len(set(every_pair())) == len(every_pair())
    assert lengths_of(Sizes(1, 6, 2, 3, 4, 5, 6)) == {"B": 1, "H": 6, "G": 3, "T": 3, "S": 4, "D": 5, "Dv": 6}


@pytest.mark.parametrize("effort", Effort)
def test_no_call_that_stores_a_past_has_more_scores_than_a_problem(effort: Effort) -> None:
    demand = Demand(domain(always=["cache"], grouped="maybe", min_batch=2), pool="decoder")
    limits = Limits(grouped=True)
    rows = SizePlan((demand,), limits, effort).rows(demand)
    assert any(sizes.H > 1 for sizes in rows)
    assert all(sizes.B * sizes.H * sizes.S**2 <= MOST_ENTRIES for sizes in rows)
    large = Sizes(8, 64, 16, 1, 2000, 8, 8)
    assert demand.fit_sizes(large, limits) == Sizes(2, 2, 1, 1, 2000, 8, 8)
    assert demand.fit_sizes(replace(large, S=4096, D=1, Dv=1), limits) is None  # with two entries there is no room
    assert Demand(domain(grouped="maybe")).fit_sizes(replace(large, S=1000), limits) == replace(large, S=1000)
