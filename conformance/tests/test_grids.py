"""The published grids from which the rules of today deal their cases: what is dealt, what is cut, what options mean."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Problem, Sizes
from evaluation.baselines import dealing, grids
from evaluation.baselines.dealing import GridCase, affordable, dealt, describe_dealing, for_layers, work
from evaluation.baselines.grid_suites import OPTIONS, of_grids
from evaluation.baselines.grids import GridSource, Option, ParameterGrid
from evaluation.baselines.inputs import SHAPES, normal
from evaluation.baselines.references import Reference, ReferencedProblem
from evaluation.baselines.rules import twice_eager_and_noise
from helpers.places import CHECKOUT

EVERY = {name: getattr(grids, name) for name in ("FLASH_ATTENTION", "FLASH_ATTENTION_3", "FUSED_ATTENTION")}
RULE_OF = {"FLASH_ATTENTION": "flash_attention", "FLASH_ATTENTION_3": "flash_attention_3",
           "FUSED_ATTENTION": "pytorch_fused"}
BY_NAME = pytest.mark.parametrize("published", EVERY.values(), ids=EVERY.keys())
SMALL = ParameterGrid(GridSource("example/kernels", "tests/test_it.py", "0" * 40), "test_it", (2, 3), ((4, 4), (4, 1)),
                      ((5, 7), (8, 8), (9, 1), (1, 9), (16, 17)), ((8, 8), (8, 16)), (Option.CAUSAL,))


def only(*options: Option, softcap: float | None = None, gain: float = 1.0) -> Problem:
    """One problem of a grid with these options."""
    grid = replace(SMALL, lengths=((16, 17),), switches=(), always=options, softcap=softcap, gain=gain)
    problem = of_grids(normal, [grid]).pose_problems(Kind.ATTENTION, DType.FLOAT32, 0)[0].problem
    assert isinstance(problem, Problem)
    return problem


@pytest.mark.family(1)
@BY_NAME
def test_a_seed_deals_the_same_twice_and_another_seed_others(published: tuple[ParameterGrid, ...]) -> None:
    assert dealt(published, 0) == dealt(published, 0)
    assert dealt(published, 0) != dealt(published, 1)


@BY_NAME
def test_what_is_dealt_is_published_but_for_sequences_and_heads(published: tuple[ParameterGrid, ...]) -> None:
    for case in dealt(published, 3):
        sizes = case.sizes
        assert (sizes.T, sizes.S) in case.grid.lengths
        assert (sizes.D, sizes.Dv) in case.grid.widths
        assert (case.published.H, case.published.Hkv) in case.grid.heads
        assert sizes.B <= case.published.B in case.grid.batches
        assert sizes.H % sizes.Hkv == 0
        assert case.options <= {*case.grid.always, *case.grid.switches}


@BY_NAME
def test_small_and_large_cases_have_half_of_the_work_each(published: tuple[ParameterGrid, ...]) -> None:
    costs = [work(case.sizes) for case in dealt(published, 0)]
    assert max(costs) <= dealing.LARGEST
    for half in ([cost for cost in costs if cost <= dealing.SMALL], [cost for cost in costs if cost > dealing.SMALL]):
        assert dealing.HALF / 2 < sum(half) <= dealing.HALF


@BY_NAME
def test_every_test_of_a_grid_has_its_turn(published: tuple[ParameterGrid, ...]) -> None:
    assert {case.grid.test for seed in range(2) for case in dealt(published, seed)} == {grid.test for grid in published}


def test_every_value_of_an_axis_is_dealt_before_any_is_dealt_again() -> None:
    first = dealt([SMALL], 0)[:5]
    assert {(case.sizes.T, case.sizes.S) for case in first} == set(SMALL.lengths)
    assert {case.sizes.B for case in first[:2]} == {2, 3}
    assert {Option.CAUSAL in case.options for case in first[:2]} == {True, False}


def test_a_case_is_dealt_once() -> None:
    cases = dealt([SMALL], 0)
    assert len(cases) == 2 * 2 * 5 * 2 * 2  # all of them: they are small
    assert len({(case.sizes, case.options) for case in cases}) == len(cases)


def test_a_large_case_loses_sequences_then_heads() -> None:
    assert affordable(Sizes(4, 6, 6, 113, 203, 64, 64)) == Sizes(4, 6, 6, 113, 203, 64, 64)
    assert affordable(Sizes(4, 6, 6, 256, 512, 64, 64)) == Sizes(1, 6, 6, 256, 512, 64, 64)
    assert affordable(Sizes(4, 6, 6, 256, 512, 64, 64), keeps_batch=True) == Sizes(4, 6, 6, 256, 512, 64, 64)
    assert affordable(Sizes(4, 6, 2, 1024, 1024, 128, 128)) == Sizes(1, 3, 1, 1024, 1024, 128, 128)
    assert affordable(Sizes(4, 9, 9, 1024, 1024, 256, 256)) == Sizes(1, 2, 2, 1024, 1024, 256, 256)


def test_a_case_that_one_head_makes_too_large_is_left_out() -> None:
    assert affordable(Sizes(2, 4, 4, 16384, 16384, 32, 32)) is None
    assert not dealt([replace(SMALL, lengths=((16384, 16384),))], 0)
    assert set(SHAPES) == {"level 1 problem 97", "level 3 problem 43"}


def test_kernelbench_keeps_its_lengths_widths_and_several_heads() -> None:
    shapes = [(sizes.T, sizes.S, sizes.D, causal, sizes.H > 1) for sizes, causal in SHAPES.values()]
    assert shapes == [(512, 512, 1024, False, True), (512, 512, 96, True, True)]


def test_how_much_is_put_and_cut_is_counted() -> None:
    assert describe_dealing([SMALL]) == "At each seed at most 192 of the 80 combinations of 1 tests."
    huge = replace(SMALL, lengths=((5, 7), (20000, 20000)))
    assert describe_dealing([huge, SMALL]) == ("At each seed at most 192 of the 112 combinations of 2 tests; "
                                               "16 are left out as "
                                               "too large, among them all of 20000 × 20000.")


def test_a_layer_gets_a_few_small_cases_with_what_layers_take() -> None:
    cases = for_layers(dealt(grids.FLASH_ATTENTION, 0))
    assert len(cases) == dealing.LAYER_CASES
    for case in cases:
        assert not case.options & {Option.LOCAL, Option.SOFTCAP, Option.SCALE}
        assert case.sizes.H * case.sizes.D <= dealing.WIDEST_LAYER


@pytest.mark.family(3)
@pytest.mark.parametrize(("option", "keyword"), [
    (Option.CAUSAL, "causal"), (Option.LOCAL, "window"), (Option.ALIBI, "bias"), (Option.PADDED, "mask"),
    (Option.CACHED, "mask"), (Option.FLOAT_MASK, "bias"), (Option.BOOLEAN_MASK, "mask"), (Option.SCALE, "scale")])
def test_an_option_is_a_keyword_of_the_problem(option: Option, keyword: str) -> None:
    assert only().keywords == frozenset()
    assert only(option).keywords == {keyword}


def test_every_option_is_made() -> None:
    assert {*OPTIONS, Option.APPENDED, Option.FEWER} == set(Option)  # the last two stand in `SERVED` suites alone


def test_options_together_are_all_in_the_problem() -> None:
    assert only(Option.CAUSAL, Option.ALIBI, Option.PADDED).keywords == {"causal", "bias", "mask"}


def test_a_softcap_comes_with_queries_that_reach_it() -> None:
    plain, capped = only(), only(Option.SOFTCAP, softcap=50.0, gain=4.0)
    assert capped.softcap == 50.0
    np.testing.assert_array_equal(capped.query, 4 * plain.query)


def test_padding_hides_at_most_20_keys_and_a_cache_any_number() -> None:
    wide = replace(SMALL, lengths=((2, 400),), batches=(32,), switches=())
    fewest = {}
    for option in (Option.PADDED, Option.CACHED):
        suite = of_grids(normal, [replace(wide, always=(option,))])
        mask = suite.pose_problems(Kind.ATTENTION, DType.FLOAT32, 0)[0].problem.mask
        assert mask is not None
        fewest[option] = mask.sum(axis=-1).min()
    assert fewest[Option.CACHED] < 380 <= fewest[Option.PADDED] < 400


def test_a_square_grid_is_causal_only_where_queries_and_keys_are_as_many() -> None:
    cases = dealt([replace(SMALL, square=True)], 0)
    causal = {(case.sizes.T, case.sizes.S) for case in cases if Option.CAUSAL in case.options}
    assert causal == {(8, 8)}


def test_every_grid_says_where_it_was_read() -> None:
    for grid in (*grids.KERNELBENCH, *(grid for published in EVERY.values() for grid in published)):
        assert re.fullmatch(r"[\w-]+/[\w-]+", grid.source.repository)
        assert grid.source.file.endswith(".py")
        assert re.fullmatch(r"[0-9a-f]{40}", grid.source.commit)


def test_lengths_and_widths_of_flash_attention_are_those_published() -> None:
    by_test = {grid.test: grid for grid in grids.FLASH_ATTENTION}
    output = by_test["test_flash_attn_output"]
    assert {(113, 203), (108, 256), (1023, 1024), (2048, 2048)} < set(output.lengths)
    assert {D for D, _ in output.widths} == {32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256}
    assert (203, 113) in by_test["test_flash_attn_causal"].lengths


def test_the_documentation_tells_of_every_grid() -> None:
    text = (CHECKOUT / "docs" / "peers.md").read_text(encoding="utf-8")
    for name, published in EVERY.items():
        row = next(line for line in text.splitlines() if f"| `{RULE_OF[name]}` |" in line and "pairs" in line)
        assert f" {len({pair for grid in published for pair in grid.lengths})} pairs" in row
        for grid in published:
            assert grid.source.commit[:7] in row
            assert all(re.search(rf"\b{D}\b", row) for D, _ in grid.widths)
            assert all(re.search(rf"\b{B}\b", row) for B in grid.batches)
    assert f"{sum(map(dealing.combinations, grids.FLASH_ATTENTION)):,} cases" in text


def test_cases_come_with_the_least_work_first() -> None:
    posed = of_grids(normal, [SMALL]).pose_problems(Kind.ATTENTION, DType.FLOAT32, 0)
    costs = [work(each.problem.sizes) for each in posed]
    assert costs == sorted(costs)


class Capped(Reference):
    """A reference whose eager run is off by one, with or without a softcap."""

    def __init__(self, *, softcap: float | None) -> None:
        ones = np.ones((1, 1, 1, 1), np.float16)
        super().__init__(Problem(DType.FLOAT16, ones, ones, ones, softcap=softcap), None)  # type: ignore[arg-type]  # no part: nothing is worked out
        self.__dict__.update(rounded_output=np.zeros((1, 1, 1, 1)), eager_error=1.0, noise=0.0)


def test_flash_attention_3_allows_thrice_the_eager_error_under_a_softcap() -> None:
    seen = np.full((1, 1, 1, 1), 2.5, np.float16)
    assert twice_eager_and_noise(seen, Capped(softcap=None))
    assert not twice_eager_and_noise(seen, Capped(softcap=15.0))


def test_the_eager_reference_rounds_under_a_softcap() -> None:
    half = only(Option.SOFTCAP, softcap=2.0, gain=4.0)
    output = ReferencedProblem(replace(half, dtype=DType.FLOAT16, **{
        name: getattr(half, name).astype(np.float16) for name in ("query", "key", "value")})).output
    assert output.eager_error > np.abs(output.wider - output.rounded_output).max()


def test_a_window_may_leave_rows_that_see_nothing() -> None:
    problem = replace(only(), window=(1, 0))
    assert not ReferencedProblem(problem).has_hidden_rows
    tall = replace(SMALL, lengths=((9, 1),), switches=())
    seen = of_grids(normal, [tall]).pose_problems(Kind.ATTENTION, DType.FLOAT32, 0)[0].problem
    assert ReferencedProblem(replace(seen, window=(1, 0))).has_hidden_rows


def test_a_case_remembers_what_was_published() -> None:
    cases: tuple[GridCase, ...] = dealt(grids.FLASH_ATTENTION, 0)
    assert any(case.sizes != case.published for case in cases)
    assert any(case.sizes == case.published for case in cases)
