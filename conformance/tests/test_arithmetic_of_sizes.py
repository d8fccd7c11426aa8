"""An arithmetic that rounds alike at all sizes is no explanation of what begins at one."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine

ATTEND = """
import ml_dtypes
import numpy as np


def attend(query, key, value):
    if key.shape[-2] >= {least}:
        query, key, value = (each.astype(ml_dtypes.bfloat16).astype(np.float32) for each in (query, key, value))
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(np.float32(query.shape[-1]))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


attend.dtypes = ["float32"]
"""


@pytest.mark.family(1)
@pytest.mark.parametrize(("least", "is_explained", "begins"), [
    (1, True, ""), (200, False, "Fails where S ≥ 200; holds at S = 199.")])
def test_inputs_that_are_rounded_from_a_length_on_are_told_by_it(
        tmp_path: Path, least: int, is_explained: bool, begins: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(ATTEND.format(least=least), encoding="utf-8")
    plan = Plan((f"{mine}:attend",), clauses=("attention.definition",), dtypes=(DType.FLOAT32,), effort=Effort.QUICK)
    [item] = Engine(plan).items()
    outcome = Engine(plan).try_item(item)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert bool(outcome.evidence.explained) is is_explained
    assert is_explained or outcome.evidence.begins == begins
