"""What fails after other calls only is told as that, and a memory is not blamed for what fails by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.causes import HOLDS_ALONE, MAX_PROCESSES
from attnspec.engine.engine import Engine
from attnspec.record.outcome import Evidence

ATTEND = """
import numpy as np

masks = {}


def of_lengths(T, S):
    return np.tri(T, S, S - T, dtype=bool)


def cached_by_keys(T, S):
    if S not in masks or len(masks[S]) < T:
        masks[S] = of_lengths(T, S)
    return masks[S][:T]


def cached_by_shape(T, S):
    return masks.setdefault((T, S), of_lengths(T, S))


def aligned_elsewhere(T, S):
    return np.tri(T, S, S - T if T < 3 else S - T + 1, dtype=bool)


def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if causal:
        logits = np.where(MASK(*logits.shape[-2:]), logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    return weights @ value / np.where(total := weights.sum(-1, keepdims=True), total, 1)


attend.conventions = {"causal_alignment": "bottom_right", "hidden_row": "zeros"}
attend.grouped = False
"""


def found(folder: Path, mask: str) -> list[Evidence]:
    """The evidence of each `must` clause that fails, judged in a process of the function's own."""
    path = folder / f"{mask}.py"
    path.write_text(ATTEND.replace("MASK", mask), encoding="utf-8")
    engine = Engine(Plan((f"{path}:attend",), clauses=("causal.*",), effort=Effort.QUICK, dtypes=(DType.FLOAT64,)))
    outcomes = [engine.try_item(item) for item in engine.items()]
    return [each.evidence for each in outcomes
            if each.verdict is Verdict.VIOLATED and each.level is Level.MUST and each.evidence]


def test_what_holds_alone_is_said_to_depend_on_earlier_calls(tmp_path: Path) -> None:
    evidence = found(tmp_path, "cached_by_keys")
    told = [each for each in evidence if each.explained and each.explained.cause == HOLDS_ALONE]
    assert told
    assert not any(each.begins or each.like for each in told)
    assert all(each.explained and "Look for what outlives a call" in each.explained.advice for each in told)


@pytest.mark.nightly
@pytest.mark.parametrize("mask", ["of_lengths", "cached_by_shape"])
def test_a_cache_that_is_right_is_not_blamed(tmp_path: Path, mask: str) -> None:
    assert not found(tmp_path, mask)


@pytest.mark.nightly
def test_what_fails_alone_is_not_said_to_depend_on_earlier_calls(tmp_path: Path) -> None:
    evidence = found(tmp_path, "aligned_elsewhere")
    assert len(evidence) > MAX_PROCESSES
    assert not [each for each in evidence if each.located == HOLDS_ALONE
                or (each.explained and each.explained.cause == HOLDS_ALONE)]
    assert not [like.fault for each in evidence for like in each.like if like.stage == "state"]


def test_for_a_recommendation_no_process_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def forget(_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("attnspec.subjects.callee.Hosted.forget", forget)
    path, fewer = tmp_path / "of_fewer_values.py", "weights[..., :value.shape[2]] @ value"
    path.write_text(ATTEND.replace("MASK", "of_lengths").replace("weights @ value", fewer), encoding="utf-8")
    engine = Engine(Plan((f"{path}:attend",), ("attention.a_value_for_every_key",), dtypes=(DType.FLOAT64,)))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert (outcome.verdict, outcome.level) == (Verdict.VIOLATED, Level.SHOULD)
    assert outcome.evidence
    assert "the diagnosis itself failed" not in outcome.evidence.located
