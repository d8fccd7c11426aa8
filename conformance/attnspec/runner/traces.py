"""What a dead worker left behind (see guard.py), read by the controller."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.nouns import Verdict
from attnspec.core.paths import portable

STDERR_END = 2000  # characters kept at either end of what libraries printed
_TIMEOUT = "Timeout ("  # how faulthandler begins when a deadline passes


@dataclass(frozen=True, slots=True)
class LastWords:
    """How a worker ended: by its deadline or otherwise, on which case, and where every thread stood."""

    verdict: Verdict
    recipe: str
    traceback: str
    stderr: str


def last_words(folder: Path, worker: str) -> LastWords:
    """Of a worker that died while an item was on trial."""
    trace = _read(folder / f"{worker}.trace")
    verdict = Verdict.TIMED_OUT if trace.startswith(_TIMEOUT) else Verdict.CRASHED
    printed = _read(folder / f"{worker}.stderr")
    recipe, _, _ = _read(folder / f"{worker}.crumb").partition("\n")  # behind it stands what is left of longer ones
    return LastWords(verdict, recipe, portable(trace.strip()), _ends(printed))


def failures(folder: Path) -> list[str]:
    """How the items that were on trial when their workers were ended had failed by then: a line of a record each."""
    found = [_read(path).splitlines() for path in sorted(folder.glob("*.failure"))]
    return [lines[0] for lines in found if lines]


def _ends(text: str) -> str:
    text = portable(text)
    return text if len(text) <= 2 * STDERR_END else f"{text[:STDERR_END]}\n…\n{text[-STDERR_END:]}"


def _read(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def silent(folder: Path, now: float, longest: float) -> list[str]:
    """The workers that have shown no sign of life for so many seconds."""
    beats = {path.stem: _read(path) for path in sorted(folder.glob("*.beat"))}
    return [worker for worker, beat in beats.items() if beat and now - float(beat) > longest]


def end_worker(folder: Path, worker: str) -> None:
    """End one, and forget its signs of life."""
    (folder / f"{worker}.beat").unlink(missing_ok=True)
    with suppress(ProcessLookupError, ValueError):
        os.kill(int(_read(folder / f"{worker}.pid")), signal.SIGKILL)


def end_workers(folder: Path) -> None:
    """After an interruption: workers may be deep in foreign code that hears no signal but this one."""
    for path in sorted(folder.glob("*.pid")):
        with suppress(ProcessLookupError):
            os.kill(int(_read(path)), signal.SIGKILL)
