"""The rules on serving used today: each accepts the sound, convicts the blatant, and has its source's numbers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType, Kind
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Problem, join_past
from evaluation.baselines import serving_rules
from evaluation.baselines.grids import FLASH_ATTENTION, HALVES, THREE, Option, by_test
from evaluation.baselines.onnx_serving import LEFT_OUT, NODES, ServedNode
from evaluation.baselines.references import ReferencedProblem
from evaluation.baselines.rules import Rule, by_another_convention, twice_eager
from evaluation.baselines.serving_grids import CACHES, VARLEN
from evaluation.baselines.serving_rules import SERVING_RULES, thrice_eager
from evaluation.baselines.serving_suites import SERVED
from helpers.rules import names_itself_and_its_source, part_of_the_work

USED = [(rule, dtype) for rule in SERVING_RULES.values() for dtype in rule.dtypes]
VARIED, CACHED, NODE = SERVING_RULES.values()
EACH = pytest.mark.parametrize("rule", SERVING_RULES.values(), ids=lambda rule: rule.name)
AT_EACH = pytest.mark.parametrize(("rule", "dtype"), USED, ids=lambda each: getattr(each, "name", ""))
SOUND = ("sound/naive", "sound/packed_block_mask", "sound/paged_one_by_one", "sound/decoder_concatenating")


@pytest.fixture(scope="module", autouse=True)
def _little_work() -> Iterator[None]:
    """Grids deal a twentieth of the work that they deal in a measurement."""
    with part_of_the_work(20):
        yield


def said(rule: Rule, target: str, dtype: DType | None = None, seed: int = 0) -> list[bool]:
    return list(rule.judge(own_subject(target), dtype or rule.dtypes[-1], seed))


def posed(rule: Rule, seed: int = 0) -> list[Problem]:
    found = [each.problem for each in rule.inputs.pose_problems(Kind.ATTENTION, rule.dtypes[0], seed)]
    return [problem for problem in found if isinstance(problem, Problem)]


@pytest.mark.family(1, each="rule")
@AT_EACH
@pytest.mark.parametrize("sound", SOUND)
def test_a_rule_on_serving_accepts_the_sound_in_every_form(rule: Rule, dtype: DType, sound: str) -> None:
    verdicts = said(rule, sound, dtype)
    assert verdicts
    assert not any(verdicts)


@AT_EACH
@pytest.mark.parametrize("fault", ["key_lengths_one_shorter", "pages_in_order", "past_of_next_head"])
def test_a_rule_on_serving_convicts_the_blatant(rule: Rule, dtype: DType, fault: str) -> None:
    is_asked = fault != "past_of_next_head" or rule is not VARIED  # packed sequences have no past
    assert any(said(rule, f"fault/{fault}", dtype)) == is_asked


@EACH
def test_a_rule_on_serving_is_put_to_who_has_lengths(rule: Rule) -> None:
    asked = (*SOUND, "sound/dropout_fused", "fault/scale_none", "fault/sinks_ignored")
    assert [name for name in asked if rule.suits(own_subject(name))] == [*SOUND, "fault/sinks_ignored"]


@EACH
def test_a_rule_on_serving_never_asks_for_sinks_or_a_log_sum(rule: Rule) -> None:
    assert not any({"sinks", "return_lse"} & problem.keywords for problem in posed(rule))


@EACH
def test_a_rule_on_serving_names_itself_and_its_source(rule: Rule) -> None:
    names_itself_and_its_source(rule)


@EACH
def test_a_rule_on_serving_draws_anew_with_another_seed(rule: Rule) -> None:
    first, again, other = (posed(rule, seed)[0].query for seed in (0, 0, 1))
    assert first is again
    assert not np.array_equal(first, other)


def test_rules_on_serving_are_used_where_their_sources_use_them() -> None:
    assert [rule.dtypes for rule in SERVING_RULES.values()] == [HALVES, (DType.FLOAT16,), THREE]
    assert VARIED.wrong is twice_eager
    assert CACHED.wrong is thrice_eager
    assert serving_rules.PLUS == 1e-5


def test_the_grids_on_serving_are_those_of_the_forward_rule() -> None:
    """But for the longest caches, and with what the forward rule leaves out."""
    varied, cache = (by_test(FLASH_ATTENTION)[f"test_flash_attn_{name}"] for name in ("varlen_output", "kvcache"))
    assert VARLEN[0] is varied
    assert VARLEN[1].lengths == varied.lengths
    assert {S for _, S in cache.lengths} - {S for grid in CACHES for _, S in grid.lengths} == {20000, 131072}
    assert all(set(grid.lengths) < set(cache.lengths) for grid in CACHES)


def test_sequences_lose_at_most_20_and_a_cache_any_number() -> None:
    lost: dict[str, set[int]] = {"queries": set(), "keys": set()}
    for problem in posed(VARIED):
        assert problem.query_lengths is not None
        assert problem.key_lengths is not None
        lost["queries"] |= set(problem.sizes.T - problem.query_lengths)
        lost["keys"] |= set(problem.sizes.S - problem.key_lengths)
    assert all(0 <= min(each) < max(each) <= 20 for each in lost.values())
    filled = [problem for problem in posed(CACHED) if not problem.has_past]
    assert max(problem.sizes.S - min(problem.given["key_lengths"]) for problem in filled) > 100
    assert all(problem.query_lengths is None for problem in filled)


def test_new_keys_stand_behind_a_past_and_count_as_keys() -> None:
    behind = [problem for seed in range(3) for problem in posed(CACHED, seed) if problem.has_past]
    assert {problem.key.shape[2] == problem.sizes.T for problem in behind} == {True, False}
    assert all(1 <= problem.key.shape[2] <= problem.sizes.T for problem in behind)
    assert all(problem.key_lengths is None for problem in behind)


def test_pages_of_a_cache_have_other_lengths_as_well() -> None:
    assert {problem.block_table for problem in posed(CACHED)} == {None, "one_page", "long_table"}
    assert any(said(CACHED, "fault/pages_of_four_slots"))
    table = next(problem for problem in posed(CACHED) if problem.block_table)
    in_pages, plain = (ReferencedProblem(each).output.eager for each in (table, table.but(block_table=None)))
    np.testing.assert_array_equal(in_pages, plain)


def test_a_single_query_is_put_without_a_diagonal() -> None:
    causal = {(problem.sizes.T > 1, problem.causal) for rule in (VARIED, CACHED) for problem in posed(rule)}
    assert causal == {(False, False), (True, False), (True, True)}


def test_an_option_of_serving_is_a_keyword_of_the_problem() -> None:
    assert set(SERVED) == {Option.CAUSAL, Option.LOCAL, Option.ALIBI, Option.PADDED, Option.CACHED, Option.SOFTCAP}
    found = frozenset().union(*(problem.keywords for rule in (VARIED, CACHED) for problem in posed(rule)))
    assert found == {"causal", "window", "alibi_slopes", "key_lengths", "query_lengths", "softcap", "past_key",
                     "past_value", "block_table"}


def test_slopes_widen_what_a_cache_allows() -> None:
    reference = ReferencedProblem(posed(CACHED)[0].but(alibi_slopes=None)).output
    sloped = ReferencedProblem(posed(CACHED)[0].but(alibi_slopes=np.ones(6, np.float32))).output
    for each, times in ((reference, 3), (sloped, 5)):
        each.__dict__.update(rounded_output=np.zeros(1), eager_error=1.0)
        assert [thrice_eager(np.array([times + more]), each) for more in (0.9e-5, 1.1e-5)] == [False, True]


def test_a_reference_counts_what_is_past() -> None:
    behind = next(problem for problem in posed(CACHED) if problem.has_past and problem.past and not problem.causal
                  and problem.window is None and problem.alibi_slopes is None)
    whole = join_past(behind)
    for name in ("wider", "same", "eager"):
        found, known = (getattr(ReferencedProblem(each).output, name) for each in (behind, whole))
        np.testing.assert_array_equal(found, known)
        assert found.dtype == known.dtype


def test_rows_that_lengths_or_a_window_leave_no_key_are_hidden() -> None:
    plain = NODES[0].problem(DType.FLOAT32, 0).but(bias=None)
    assert not ReferencedProblem(plain.but(causal=True, window=(0, 0))).has_hidden_rows  # 12 keys are past
    few = {name: getattr(plain, name)[:, :, :2] for name in ("key", "value")}
    assert ReferencedProblem(plain.but(window=(0, 0), **few)).has_hidden_rows  # queries at places 14 and 15
    assert ReferencedProblem(join_past(plain).but(key_lengths=np.array([18, 0], np.int32))).has_hidden_rows
    assert ReferencedProblem(join_past(plain).but(window=(0, 0),
                                                  key_lengths=np.array([18, 2], np.int32))).has_hidden_rows


def test_lengths_move_a_diagonal_that_ends_bottom_right() -> None:
    subject = own_subject("sound/naive")
    declared = {**subject.declaration.conventions, "causal_alignment": "bottom_right"}
    unlike = replace(subject, declaration=replace(subject.declaration, conventions=declared))
    square = replace(NODES[0], S=4, past=0, causal=True, mask=())
    assert not by_another_convention(unlike, ReferencedProblem(square.problem(DType.FLOAT32, 0)))
    moved = replace(square, lengths=(4, 3)).problem(DType.FLOAT32, 0)
    assert by_another_convention(unlike, ReferencedProblem(moved))


@pytest.mark.parametrize(("convention", "other", "left"), [
    ("causal_alignment", "bottom_right", lambda node: node.past or not (node.causal or node.window)),
    ("mask_with_causal", "mask_only", lambda node: not (node.causal and (node.mask or node.allowed))),
    ("beyond_length", "unspecified", lambda _: True)])
def test_cases_on_serving_by_another_convention_are_left_out(convention: str, other: str, left: object) -> None:
    assert callable(left)
    subject = own_subject("sound/naive")
    declared = {**subject.declaration.conventions, convention: other}
    unlike = replace(subject, declaration=replace(subject.declaration, conventions=declared))
    found = list(NODE.judge(unlike, DType.FLOAT32, 0))
    assert len(found) == sum(node.alone is None and bool(left(node)) for node in NODES)
    rows = ReferencedProblem(posed(VARIED)[0].but(causal=False, window=None, alibi_slopes=None))
    assert by_another_convention(unlike, rows) == (convention == "beyond_length")


def test_the_nodes_on_serving_are_those_that_onnx_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx.backend.test.case.node.attention")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    cases = importlib.import_module("test_onnx_cases").CASES
    published = {case.name: case for case in cases if {"past_key", "nonpad_kv_seqlen"} & case.uncovered}
    own = [node for node in NODES if "no diagonal" not in node.name]
    assert {node.name for node in own} | set(LEFT_OUT) == set(published)
    for node in own:
        _check_alike(node, published[node.name])


def _check_alike(node: ServedNode, theirs: Any) -> None:  # noqa: ANN401  (a Case of the other module)
    ours, given = node.problem(DType(theirs.inputs["Q"].dtype.name), 0), theirs.inputs
    pairs = {"nonpad_kv_seqlen": ours.key_lengths, "past_key": ours.past_key, "past_value": ours.past_value}
    assert {name for name, array in pairs.items() if array is not None} == set(pairs) & set(given)
    assert all(array.shape == given[name].shape for name, array in pairs.items() if array is not None)
    assert [theirs.heads(name).shape for name in "QKV"] == [each.shape for each in (ours.query, ours.key, ours.value)]
    assert ("attn_mask" in given) == (ours.mask is not None or ours.bias is not None)
    assert ours.causal == (bool(theirs.attributes.get("is_causal", 0)) and ours.sizes.T > 1)
    if ours.key_lengths is not None:
        np.testing.assert_array_equal(ours.key_lengths, given["nonpad_kv_seqlen"])
