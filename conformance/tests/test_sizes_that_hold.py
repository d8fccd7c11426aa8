"""What holds at some sizes rules out causes: faults that fail there, and conventions on which such a case hangs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.nouns import FAILURES, DType, Effort
from attnspec.core.plan import Plan
from attnspec.diagnosis.conditions import LengthCondition, LengthProfile, LengthRule
from attnspec.diagnosis.inputs import features_that_matter
from attnspec.diagnosis.whereabouts import USUAL_BUDGET
from attnspec.engine.engine import Engine
from attnspec.problems.problem import Recipe
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import likely_words
from attnspec.trials.sizes import MAX_SEEDS, MIN_SEEDS

RIGHT = """
import numpy as np
def right(query, key, value, causal, mask=None):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(query.shape[-1] ** 0.5)
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    if mask is not None:
        logits = np.where(mask, logits, -1e30)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
def attend(query, key, value, *, causal=False, mask=None, scale=None):
    query = query if scale is None else query * query.dtype.type(scale * query.shape[-1] ** 0.5)
"""
TAIL_HALVED = """
    output, whole = right(query, key, value, causal, mask), query.shape[-2] // 16 * 16
    output[..., whole:, :] *= 0.5
    return output
"""
CAUSAL_IN_WHOLE_TILES = """
    return right(query, key, value, causal and query.shape[-2] % 16 == 0, mask)
"""
TILES = "Fails where T is not a multiple of 16"


def failures(folder: Path, body: str, *clauses: str) -> list[Outcome]:
    """What fails of a function of one's own."""
    (folder / "mine.py").write_text(RIGHT + body, encoding="utf-8")
    target = f"{folder}/mine.py:attend"
    plan = Plan((target,), clauses=clauses, dtypes=(DType.FLOAT32,), effort=Effort.QUICK, in_process=(target,))
    engine = Engine(plan)
    return [outcome for outcome in map(engine.try_item, engine.items()) if outcome.verdict in FAILURES]


def begins(failed: Outcome) -> str:
    return failed.evidence.begins.partition(";")[0] if failed.evidence else ""


@pytest.mark.nightly
def test_a_fault_that_fails_at_other_sizes_is_not_behind_it(tmp_path: Path) -> None:
    """`later_calls_halved`, which also fails at T = 16, answers as it does in most calls of the panel."""
    failed = failures(tmp_path, TAIL_HALVED, "attention.definition", "attention.one_key", "numerics.ties")
    assert [each.evidence.like for each in failed if each.evidence] == [()] * 3
    assert likely_words(failed) == f"Likely one bug: {TILES[0].lower()}{TILES[1:]} (explains 3 of 3)"


@pytest.mark.nightly
def test_a_clause_that_has_no_such_sizes_shares_what_is_known(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first few failures are searched; this clause has no case of one head, where the first begins."""
    monkeypatch.setattr("attnspec.diagnosis.whereabouts.USUAL_BUDGET", replace(USUAL_BUDGET, failures=1))
    failed = failures(tmp_path, TAIL_HALVED, "attention.definition", "masking.each_head_has_its_own")
    assert [begins(each) for each in failed] == [TILES] * 2


def test_a_convention_that_is_kept_at_other_sizes_is_not_undefined(tmp_path: Path) -> None:
    failed = failures(tmp_path, CAUSAL_IN_WHOLE_TILES, "attention.definition", "scale.explicit")
    assert [each.evidence.explained for each in failed if each.evidence] == [None] * 2
    assert [each.evidence.like for each in failed if each.evidence] == [()] * 2
    assert begins(failed[0]) == TILES


@pytest.mark.parametrize(("heads", "kv_heads", "matters"), [(4, 2, True), (4, 4, False), (4, 1, False)])
def test_how_heads_are_shared_matters_where_there_are_several_of_both(heads: int, kv_heads: int, *,
                                                                     matters: bool) -> None:
    case = Recipe.parse(f"B1,H{heads},Hkv{kv_heads},T3,S3,D2,Dv2;mask=none;families=integers;seed=0")
    assert ("grouped_heads" in features_that_matter(case)) is matters


def test_turns_are_counted_from_length_to_length() -> None:
    assert LengthProfile(1, None, {1: True, 16: False, 8: True, 32: False, 17: True}, is_settled=True).turns == 3


def test_what_holds_at_all_larger_lengths_does_not_do_so_by_chance() -> None:
    fared = {1: True, 15: True, 16: False, 512: False}
    ends, multiples = (LengthProfile(1, LengthCondition(rule, 16), fared, is_settled=True)
                       for rule in (LengthRule.UP_TO, LengthRule.NO_MULTIPLE))
    assert not ends.may_be_chance(MIN_SEEDS + 1)
    assert ends.may_be_chance(MAX_SEEDS)  # it fails so seldom that it may hold
    assert multiples.may_be_chance(MIN_SEEDS + 1)
    assert not multiples.may_be_chance(MIN_SEEDS)
