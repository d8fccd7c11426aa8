"""Memory that was freed stays for the next case, and goes back to the system after a kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from attnspec.trials.heap import hand_back, keep_heap
from test_rank import SOUND, ranked_by

MIB = 2**20


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's, and /proc Linux's")
def test_what_lies_free_between_kept_arrays_goes_back_to_the_system() -> None:
    keep_heap()
    kept, freed = [], []
    for _ in range(200):
        freed.append(np.ones(MIB // 8))
        kept.append(np.ones(250))
    freed.clear()
    before = resident()
    hand_back()
    assert resident() < before - 150 * MIB
    assert len(kept) == 200


def test_a_kernel_that_was_judged_leaves_no_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []
    monkeypatch.setattr("attnspec.ranking.kernels.hand_back", lambda: handed.append("once"))
    ranked_by(tmp_path, SOUND)
    assert handed == ["once"]
