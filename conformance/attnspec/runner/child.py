"""One module run as a child process that answers with one line: what it calls may crash or hang, and only it dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from attnspec.runner.environment import prepared


@dataclass(frozen=True, slots=True)
class Answered:
    """The last line that the child printed, or why there is none."""

    line: str = ""
    death: str = ""


def apart(module: str, argument: str, *, deadline: float,
          process: Mapping[str, str] = MappingProxyType({})) -> Answered:
    """Run `python -m module argument` where the user stands, for so many seconds; `process`: its own variables."""
    command = [sys.executable, "-m", module, argument]
    try:
        with prepared(process):
            child = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired:
        return Answered(death=f"it had not returned after {deadline:g} s")
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [""])[-1]
        return Answered(death=f"the process died ({_cause(child.returncode)}): {last}")
    # the last line: a subject may print whatever it likes before
    return Answered(child.stdout.splitlines()[-1])


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
