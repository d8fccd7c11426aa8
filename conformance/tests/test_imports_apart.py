"""An import has a deadline to itself: what it takes, the first time and after a death, is no part of an item's time.
Nor is it longer than it must be.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.host import loading
from attnspec.subjects.call import Call, SubjectDied
from attnspec.subjects.registry import load_target

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
        load_target(written(tmp_path, 30), Surroundings(deadline=1))


@pytest.mark.nightly
def test_importing_anew_after_a_death_costs_the_item_nothing(tmp_path: Path) -> None:
    callee = load_target(written(tmp_path, 3), Surroundings(deadline=8)).callee
    callee.begin_item()
    with pytest.raises(SubjectDied, match="exit code 3"):
        callee.perform(DEADLY)
    assert callee.perform(CALL).output.all()
    assert callee.client._spent_seconds < 3  # type: ignore[attr-defined]  # a callee in a process of its own has a client


@pytest.mark.parametrize(("torch", "words"), [
    ("raise OSError('libnone.so')", r"nothing can be computed with torch on its device: OSError: libnone\.so\."),
    ("raise KeyError('HOME')", r"nothing can be computed with torch on its device: KeyError: 'HOME'\."),
    ("raise ImportError('no libnone')", r"the lift 'torch' needs torch, which cannot be imported \(no libnone\)"),
    ("import os; os.write(2, b'no GPU'); os._exit(5)",
     r"^trying torch ends the process \(exit code 5\)\. Its last words: no GPU$"),
])
def test_a_framework_that_cannot_be_used_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str,
                                                          words: str) -> None:
    """What an import raises is no end of the process, and is not said to be one."""
    (tmp_path / "mine.py").write_text("def attend(query, key, value): ...\nattend.lift = 'torch'\n", encoding="utf-8")
    (tmp_path / "torch.py").write_text(torch, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TargetError, match=words):
        load_target(f"{tmp_path}/mine.py:attend", Surroundings())


def test_an_import_that_ends_the_process_says_how(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os; os._exit(7)\n", encoding="utf-8")
    with pytest.raises(TargetError, match=r"^importing '.*mine\.py' ends the process \(exit code 7\)\.$"):
        load_target(f"{tmp_path}/mine.py:attend", Surroundings())

@pytest.mark.parametrize(("first", "after"), [("", None), ("gc.set_threshold(321)", 321)], ids=["says nothing", "says"])
def test_no_garbage_is_looked_for_in_what_is_imported(first: str, after: int | None) -> None:
    before = gc.get_threshold()
    text = f"import gc\nfound = gc.get_threshold()\n{first}\ndef meanwhile():\n    return found\n"
    try:
        meanwhile, _ = loading.load_with_backward({"text": text}, "meanwhile")
        assert (meanwhile()[0], gc.get_threshold()[0]) == (0, after or before[0])
    finally:
        gc.set_threshold(*before)
