"""An import has a deadline to itself: what it takes, the first time and after a death, is no part of an item's time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.subjects.call import Call, SubjectDied
from attnspec.subjects.registry import load

SLOW = """
import os, time
time.sleep({seconds})

def attend(query, key, value):
    if query[0, 0, 0, 0] == 0:
        os._exit(3)
    return value
"""
CALL = Call({name: np.ones((1, 1, 2, 2), np.float32) for name in ("query", "key", "value")}, {}, DType.FLOAT32,
            ((1, 1, 2, 2),))
DEADLY = replace(CALL, arrays={name: np.zeros((1, 1, 2, 2), np.float32) for name in ("query", "key", "value")})


def written(folder: Path, seconds: float) -> str:
    (folder / "slow.py").write_text(SLOW.format(seconds=seconds), encoding="utf-8")
    return f"{folder}/slow.py:attend"


def test_an_import_that_takes_too_long_says_so(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"importing .* had not ended after 1 s\. Give it longer: --deadline"):
        load(written(tmp_path, 30), Surroundings(deadline=1))


def test_importing_anew_after_a_death_costs_the_item_nothing(tmp_path: Path) -> None:
    callee = load(written(tmp_path, 3), Surroundings(deadline=8)).callee
    callee.begin_item()
    with pytest.raises(SubjectDied, match="exit code 3"):
        callee.perform(DEADLY)
    assert callee.perform(CALL).output.all()
    assert callee.client._spent < 3  # type: ignore[attr-defined]  # a callee in a process of its own has a client
