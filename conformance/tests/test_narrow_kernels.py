"""Kernels of narrow limits, as fused ones have: they are put what others are, at sizes that they take, and held to what
they do there.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.sizes import read_refusal
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject
from attnspec.problems.choices import menu_of
from attnspec.problems.demand import MOST_READING_CALLS, Demand
from attnspec.problems.domain import domain
from attnspec.problems.problem import Sizes
from attnspec.problems.size_plan import SizePlan, taken_pairs
from attnspec.questions.undeclared import probe_conventions, probe_ranges
from attnspec.record.outcome import Outcome
from attnspec.subjects.interview import Interview, WordedRefusal, start_of
from attnspec.subjects.refusals import narrow_subject
from attnspec.trials.covering_cases import deal_openings
from attnspec.trials.paths import gentle_cases
from helpers.subjects import module_of
from test_sizes import DEMANDS

HEAD = """
import numpy as np
def attend(query, key, value, *, causal=False, scale=None):
    B, H, T, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    if query.dtype != np.float16: raise TypeError("float16 only")
    if D not in (64, 128): raise ValueError(f"head_dim must be 64 or 128, not {{D}}")
    if Dv != D: raise ValueError("value must be as wide as key")
    ahead, shift = np.arange(S) - np.arange(T)[:, None], 0
    {check}
    scale = D**-0.5 if scale is None else scale
    query, key, value = (np.repeat(each, H // each.shape[1], 1).astype(np.float32) for each in (query, key, value))
    logits = query @ key.swapaxes(-1, -2) * np.float32(scale)
    logits = np.where(ahead <= shift, logits, -np.inf) if causal else logits
    {more}
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights @ value / weights.sum(-1, keepdims=True)).astype(np.float16)
"""
VIOLATED = Verdict.VIOLATED
target_in = partial(module_of, HEAD)

NARROW = ('if T != S: raise ValueError("as many queries as keys")\n'
          '    if T % 16: raise ValueError("length must be a multiple of 16")\n'
          '    if Hkv != H: raise ValueError("heads")')
LIMITS = Limits(grouped=False, lengths="equal", ties_value_width=True,
                refuses=tuple(map(read_refusal, ("T % 16 != 0", "S % 64 != 0", "D not in (64, 128)", "B > 40"))))


def outcomes_of(target: str, *clauses: str, effort: Effort = Effort.QUICK) -> dict[str, Outcome]:
    engine = Engine(Plan((target,), clauses, in_process=(target,), effort=effort, dtypes=(DType.FLOAT16,)))
    return {item.clause: engine.try_item(item) for item in engine.items()}


PUT = ("attention.definition", "attention.convex_hull", "attention.rows_are_stochastic", "causal.no_lookahead",
       "causal.flag_is_mask", "drift.temperature", "numerics.typical_error", "purity.strided_inputs",
       "scale.explicit", "scale.logits_read_out")


def test_a_kernel_of_narrow_limits_is_put_what_others_are(tmp_path: Path) -> None:
    outcomes = outcomes_of(target_in(tmp_path, NARROW), *PUT)
    assert {name for name, each in outcomes.items() if each.verdict is not Verdict.HELD} == {"causal.flag_is_mask"}
    assert outcomes["causal.flag_is_mask"].reason.endswith("takes no mask")


@pytest.mark.nightly
def test_a_fault_past_a_tile_is_found_though_few_lengths_are_taken(tmp_path: Path) -> None:
    wrong = "if T > 128: value = value * (np.arange(S) < S // 128 * 128)[:, None]"
    [outcome] = outcomes_of(target_in(tmp_path, NARROW, wrong), "attention.definition").values()
    assert outcome.verdict is VIOLATED


@pytest.mark.nightly
def test_a_causal_fault_at_many_keys_is_found(tmp_path: Path) -> None:
    wrong = "if causal and T > 200: logits[..., 0, 0], logits[..., 1:, 0] = 0, -np.inf"
    outcomes = outcomes_of(target_in(tmp_path, NARROW, wrong), "attention.definition", "scale.explicit",
                           "attention.finite", effort=Effort.DEFAULT)
    assert any(each.verdict is VIOLATED for each in outcomes.values())


# Sizes


OF_CORE = tuple(demand for demand in DEMANDS if not demand.pool)


@cache
def plan(effort: Effort, limits: Limits = LIMITS, demands: tuple[Demand, ...] = DEMANDS) -> SizePlan:
    return SizePlan(demands, limits, effort, dtype=DType.FLOAT16)


@pytest.mark.nightly
@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.DEFAULT])
def test_every_size_that_is_dealt_is_taken(effort: Effort) -> None:
    rows = [sizes for demand in OF_CORE for sizes in plan(effort, demands=OF_CORE).rows(demand)]
    assert not {LIMITS.misfit_of(sizes.by_axis) for sizes in rows} - {""}
    assert {sizes.D for sizes in rows} == {64, 128}
    assert {sizes.T for sizes in rows} >= {64, 128, 192, 256}


def test_a_clause_has_several_sizes_though_the_least_is_dear() -> None:
    demand = Demand(domain())
    assert len(plan(Effort.QUICK).rows(demand)) >= 5


def test_values_are_as_wide_as_reading_the_weights_takes() -> None:
    sizes = Demand(domain(), reads=True).fit_sizes(Sizes(1, 1, 1, 256, 256, 16, 16), LIMITS)
    assert sizes
    assert (sizes.D, sizes.Dv) == (64, 64)
    assert MOST_READING_CALLS * sizes.Dv >= sizes.S


@pytest.mark.parametrize(("lengths", "expected"), [
    ("more_keys", (16, 64)), ("more_queries", (80, 64)), ("cross", (16, 64)), ("any", (16, 64)), ("self", (64, 64))])
def test_lengths_stay_as_unequal_as_a_clause_needs_them(lengths: str, expected: tuple[int, int]) -> None:
    limits = Limits(refuses=tuple(map(read_refusal, ("T % 16 != 0", "S % 64 != 0"))))
    sizes = Demand(domain(lengths=lengths)).fit_sizes(Sizes(1, 1, 1, 3, 5, 8, 8), limits)  # type: ignore[arg-type]
    assert sizes
    assert expected == (sizes.T, sizes.S)


def test_ranges_without_a_length_that_is_taken_are_not_asked_for() -> None:
    narrow, all_of_them = (taken_pairs(limits, frozenset({"causal"})).bit_count() for limits in (LIMITS, Limits()))
    assert 0 < narrow < all_of_them / 4


def test_of_a_single_keyword_later_cases_have_it_and_have_it_not() -> None:
    menu = menu_of(domain(sometimes=("causal",)), frozenset({"causal"}), Limits(), Effort.QUICK)
    assert menu
    used = ["causal" in menu.recipe(*choices).features for choices in deal_openings(menu, 0, 15)]
    assert used[0]
    assert {*used[8:]} == {True, False}


def test_each_keyword_is_in_two_of_the_gentle_cases() -> None:
    keywords = frozenset({"causal", "scale"})
    menu = menu_of(domain(sometimes=("causal", "scale")), keywords, Limits(), Effort.QUICK)
    assert menu
    recipes = list(gentle_cases(menu, 0, keywords))
    assert [sum(keyword in each.features for each in recipes) >= 2 for keyword in keywords] == [True, True]
    assert len(recipes) == 4


# Groups of heads

OF_ANY_HEADS = ("attention.definition", "attention.permuting_keys", "causal.alignment", "numerics.huge_logits",
                "scale.logits_read_out")


@pytest.mark.nightly
def test_who_takes_groups_of_four_only_is_put_what_others_are(tmp_path: Path) -> None:
    target = target_in(tmp_path, "if H != 4 * Hkv: raise ValueError('groups of four heads')\n    shift = S - T")
    outcomes = outcomes_of(target, *OF_ANY_HEADS)
    assert {each.verdict for each in outcomes.values()} == {Verdict.HELD}
    assert probe_conventions(load_subject(target, Plan(())), DType.FLOAT16)["causal_alignment"] == "bottom_right"


def test_what_a_clause_asks_of_groups_stands_where_others_are_taken() -> None:
    demand = Demand(domain())
    assert demand.grouping(Limits(grouped=True)) == "no"
    assert demand.grouping(Limits(grouped=True, refuses=(read_refusal("G != 4"),))) == "maybe"


# Where to begin


@pytest.mark.family(1)
@pytest.mark.parametrize("check", [
    "if T != 1: raise ValueError('one query')\n    if D != 128: raise ValueError('head_dim of 128')\n"
    "    if H != 8 * Hkv: raise ValueError('groups of eight heads')",
    "if T != 1 or D != 128 or H != 8 * Hkv: raise ValueError('only decoding, head_dim of 128, groups of eight')",
    "assert B == 4\n    assert S % 256 == 0 and T % 256 == 0",
    "if H != 32: raise ValueError('32 heads')\n    if Hkv != 8: raise ValueError('8 key heads')\n"
    "    if T % 64: raise ValueError('length')"])
def test_refusals_lead_to_a_problem_that_is_taken(check: str, tmp_path: Path) -> None:
    outcomes = outcomes_of(target_in(tmp_path, check), "attention.definition", "attention.shape")
    assert {each.verdict for each in outcomes.values()} == {Verdict.HELD}


def test_who_refuses_everything_is_asked_little(tmp_path: Path) -> None:
    asked = load_subject(target_in(tmp_path, "raise ValueError('shape')"), Plan(()))
    assert start_of(Interview(asked, DType.FLOAT16)) is None
    assert not asked.declaration.limits.refuses


@pytest.mark.nightly
def test_who_dies_on_the_way_is_asked_no_more(tmp_path: Path) -> None:
    target = target_in(tmp_path, "if T != 64: raise ValueError('length')\n    import os\n    os._exit(3)")
    assert start_of(Interview(load_subject(target, Plan((target,))), DType.FLOAT16)) is None


@pytest.mark.nightly
def test_a_refusal_that_comes_later_is_heard_of_a_narrow_kernel_too(tmp_path: Path) -> None:
    check = ("if T != 1: raise ValueError('one query')\n    if H != 8 * Hkv: raise ValueError('groups of heads')\n"
             "    if B == 5: raise ValueError('batch of five')")
    target = target_in(tmp_path, check)
    outcomes = outcomes_of(target, *OF_ANY_HEADS, effort=Effort.DEFAULT)
    assert {each.verdict for each in outcomes.values()} == {Verdict.HELD}


# Conventions


@pytest.mark.family(1)
@pytest.mark.parametrize(("check", "found"), [
    ("if T % 16 or S % 16: raise ValueError('length')\n    shift = S - T", "bottom_right"),
    ("if T % 64 or S % 64 or T > S: raise ValueError('length')\n    shift = S - T", "bottom_right"),
    ("if T % 64 or S % 64 or T > S: raise ValueError('length')", "top_left"),
    ("if T > 1: raise ValueError('one query')\n    shift = S - T", "bottom_right")])
def test_alignments_are_probed_at_lengths_that_are_taken(check: str, found: str, tmp_path: Path) -> None:
    subject = load_subject(target_in(tmp_path, check), Plan(()))
    assert probe_conventions(subject, DType.FLOAT16)["causal_alignment"] == found


def test_heads_are_probed_at_lengths_that_are_taken(tmp_path: Path) -> None:
    subject = load_subject(target_in(tmp_path, "if T % 64 or S % 64: raise ValueError('length')"), Plan(()))
    assert probe_conventions(subject, DType.FLOAT16)["grouped_heads"] == "repeat"


@pytest.mark.nightly
def test_what_overflows_is_asked_at_lengths_that_are_taken(tmp_path: Path) -> None:
    subject = load_subject(target_in(tmp_path, "if T % 64 or S % 64: raise ValueError('length')"), Plan(()))
    assert [each.noun for each in probe_ranges(subject, DType.FLOAT16)] == ["logits", "values", "keys"]
    assert all(each.most_stood for each in probe_ranges(subject, DType.FLOAT16)[:2])


# What compiles is asked little

COMPILED = "if T % 64 or S % 64: raise ValueError('length')"


def test_steps_of_what_compiles_are_told_from_a_least_length(tmp_path: Path) -> None:
    target = target_in(tmp_path, COMPILED)
    (path := Path(target.rpartition(":")[0])).write_text(f"{path.read_text()}attend.compiles = True\n")
    subject = load_subject(target, Plan(()))
    assert {"T % 64 ≠ 0", "S % 64 ≠ 0"} <= set(map(str, subject.declaration.limits.refuses))
    assert probe_conventions(subject, DType.FLOAT16)["causal_alignment"] == "top_left"


@pytest.mark.parametrize("effort", list(Effort)[1:])
@pytest.mark.parametrize("step", [1, 16, 64])
def test_what_compiles_is_put_several_blocks_of_queries_and_more_of_keys(effort: Effort, step: int) -> None:
    limits = Limits(refuses=tuple(read_refusal(f"{axis} % {step} != 0") for axis in "TS") if step > 1 else ())
    cross = Demand(domain(always=["causal"], lengths="cross"))
    dealt = SizePlan((cross,), limits, effort, compiles=True).rows(cross)
    assert any(64 <= sizes.T < sizes.S for sizes in dealt)
    assert any(sizes.T > 64 and sizes.S > 64 for sizes in dealt)


# Gradients


@pytest.mark.family(1)
@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_compared_past_a_block_of_queries(seed: int) -> None:
    demands = tuple(demand for demand in DEMANDS if demand.pool == "gradients")
    sizes = SizePlan(demands, LIMITS, Effort.QUICK, seed)
    compared = [demand for demand in demands if demand.passes == 2 and demand.is_one_run]
    assert sum(any(row.T > 64 for row in sizes.rows(demand)[:8]) for demand in compared) >= 3


# What says less


@pytest.mark.parametrize(("said", "less", "is_less"), [
    ("T % 16 != 0", "T < 16", True), ("T < 16", "T % 16 != 0", False), ("D not in (64, 128)", "D > 128", True),
    ("T % 16 != 0", "S < 16", False), ("T % 16 != 0", "T % 16 != 0", False), ("T != S", "T < 16", False),
    ("T % 16 != 0", "window with T < 16", False), ("T % 16 != 0", "T = S", False)])
def test_a_refusal_covers_what_refuses_no_other_length(said: str, less: str, *, is_less: bool) -> None:
    assert read_refusal(said).covers(read_refusal(less)) is is_less


@pytest.mark.nightly
def test_what_says_less_is_forgotten(tmp_path: Path) -> None:
    subject = load_subject(target_in(tmp_path, COMPILED), Plan(()))
    said = [WordedRefusal(read_refusal(text), "ValueError: length") for text in ("H < 3", "H % 4 != 0")]
    known = narrow_subject(narrow_subject(subject, said[:1]), said[1:])
    assert "H < 3" not in known.refused_words
    assert [str(each) for each in known.declaration.limits.refuses if "H" in str(each)] == ["H % 4 ≠ 0"]
