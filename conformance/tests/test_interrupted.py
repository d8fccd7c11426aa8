"""Who interrupts a run is told what the items that were running had found by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.record.read import read_record
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Failure
from attnspec.trials.trial import UNFINISHED_NOTE, Trial
from helpers.law import checks
from helpers.planted import plant_mistake

SLOW = """
import time
import numpy as np


def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    output = weights / weights.sum(axis=-1, keepdims=True) @ value
    if np.array_equal(query, np.rint(query)):
        return output
    time.sleep(2)  # so that to look for a smaller case takes minutes
    return output + 1


attend.dtypes = ["float32"]
attend.grouped = False
"""

CHECK = """
import signal, sys
from attnspec.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
sys.exit(main(["check", "one.py:attend", "two.py:attend", "--clause", "attention.definition", "--dtype", "float32",
               "--effort", "thorough", "-n", "2", "--record", "run.jsonl"]))
"""


def wait_for_failures(folder: Path, count: int) -> None:
    """Until so many workers have noted a failure."""
    end = time.monotonic() + 60
    while sum(path.stat().st_size > 0 for path in folder.glob("attnspec-scratch-*/*/*.failure")) < count:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are told apart by their files")
def test_what_running_items_have_found_is_in_the_record_and_on_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(SLOW, encoding="utf-8")
    with subprocess.Popen([sys.executable, "-c", CHECK], start_new_session=True, cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE) as process:
        try:
            wait_for_failures(tmp_path, 2)
        finally:
            os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "\nInterrupted with 2 failures so far; the rest was not run.\n" in said
    assert UNFINISHED_NOTE in said
    outcomes = read_record(tmp_path / "run.jsonl").outcomes
    assert [outcome.verdict for outcome in outcomes] == [Verdict.VIOLATED] * 2
    for outcome in outcomes:
        assert outcome.evidence
        assert outcome.evidence.sentence.endswith(UNFINISHED_NOTE)
        assert outcome.repeat.startswith(f"attnspec replay '{outcome.subject} attention.definition float32 B")


def test_a_failure_is_told_once_and_as_it_was_found() -> None:
    told: list[tuple[Failure, str]] = []
    check = checks()["attention.definition"]
    evaluator = Evaluator(plant_mistake(lambda sizes: sizes.T > 1), DType.FLOAT32)
    trial = Trial(check, evaluator, Effort.QUICK, seed_of(0, check.domain), lambda _: None,
                  tell_failure=lambda failure, case: told.append((failure, case.text)))
    tally = trial.hold()
    assert tally.failing_recipe
    assert len(told) == 1
    assert told[0][1] != tally.failing_recipe.text  # which was made small
