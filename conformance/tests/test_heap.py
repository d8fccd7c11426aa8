"""Memory that was freed stays for the next case, and goes back to the system after a kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_rank import SOUND, ranked_by

FREED = """
import ctypes
from pathlib import Path

import numpy as np
from attnspec.trials.evaluator import keep_heap, release_free_pages


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4 // 1024


def handed_back(by):
    kept, freed = [], []
    for _ in range(200):
        freed.append(np.ones(2**17))
        kept.append(np.ones(250))
    freed.clear()
    before = resident()
    by()
    return before - resident()


keep_heap()
print(handed_back(lambda: ctypes.CDLL(None).malloc_trim(0)), handed_back(release_free_pages))
"""
"""Frees 200 arrays of 1 MiB that lie between small ones, twice: how many MiB the system gets back, by whom."""


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's, and /proc Linux's")
def test_what_lies_free_between_kept_arrays_goes_back_to_the_system() -> None:
    told = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    by_itself, by_attnspec = map(int, told.split())
    if by_itself < 150:
        pytest.skip(f"malloc_trim by itself gives {by_itself} of 200 MiB back here: another malloc?")
    assert by_attnspec > 150


def test_a_kernel_that_was_judged_leaves_no_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []
    monkeypatch.setattr("attnspec.trials.evaluator.release_free_pages", lambda: handed.append("once"))
    ranked_by(tmp_path, SOUND)
    assert handed == ["once"]
