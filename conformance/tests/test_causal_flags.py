"""A flag that says in its name that it makes attention causal is the keyword, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.subjects.registry import load_target

ATTEND = """
import numpy as np
def attend(query, key, value, {flag}, block=64):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if {when}:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)
"""


def put(folder: Path, flag: str, when: str) -> dict[str, Verdict]:
    """The verdicts on what a function does with its flag and without."""
    path = folder / "flagged.py"
    path.write_text(ATTEND.format(flag=flag, when=when), encoding="utf-8")
    clauses = ("causal.no_lookahead", "attention.definition")
    engine = Engine(Plan((f"{path}:attend",), clauses=clauses, dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    return {item.clause: engine.try_item(item).verdict for item in engine.items()}


HELD, VIOLATED = Verdict.HELD, Verdict.VIOLATED


@pytest.mark.family(1)
@pytest.mark.parametrize(("flag", "when", "with_flag", "without"), [
    ("is_causal=False", "is_causal", HELD, HELD), ("use_causal_mask=True", "use_causal_mask", HELD, HELD),
    ("is_causal=False", "True", HELD, VIOLATED), ("causal_mask=False", "False", VIOLATED, VIOLATED)])
def test_it_is_turned_on_and_off(
    tmp_path: Path, flag: str, when: str, with_flag: Verdict, without: Verdict,
) -> None:
    assert put(tmp_path, flag, when) == {"causal.no_lookahead": with_flag, "attention.definition": without}


@pytest.mark.parametrize(("flag", "spelled"), [
    ("is_causal=False", {"causal": "is_causal"}), ("causal_mask=None", {}), ("causal=False, is_causal=False", {}),
    ("causal_block_skip=False", {}), ("is_causal=False, use_causal_mask=False", {})])
def test_what_may_be_another_thing_is_left_alone(tmp_path: Path, flag: str, spelled: dict[str, str]) -> None:
    path = tmp_path / "flagged.py"
    path.write_text(ATTEND.format(flag=flag, when="False"), encoding="utf-8")
    declared = load_target(f"{path}:attend").declaration
    assert declared.spelled == spelled
    assert declared.defaults["block"] == "64"
