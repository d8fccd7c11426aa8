"""Runs the scripts of findings, each in a process of its own: is it so, here and with these versions?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial

from attnspec.core.paths import portable
from attnspec.subjects.findings import Finding
from attnspec.subjects.manifest import Registered

LONGEST = 300  # seconds; a script compiles a kernel at most


_UNCAUGHT = re.compile(r"\A\s*Traceback|^Node\.js v\d", re.MULTILINE)
"""What Python and Node write where nobody catches an exception."""


class Shown(Enum):
    """What came of a script. Interpreters exit with 1 as well where nobody catches; their last words tell it."""

    CONFIRMED = "confirmed"
    NOT_SO = "not so here"
    CANNOT_RUN = "cannot run here"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A finding's script, run once. `said` is what it printed, or why it could not run."""

    finding: Finding
    shown: Shown
    said: str


def confirmations(findings: Iterable[Finding], known: Mapping[str, Registered],
                  workers: int = 1) -> Iterator[Confirmation]:
    """Each script run once, in the order of the findings, in the surroundings of a subject that it concerns."""
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(partial(_confirmed, known=known), findings)


def _confirmed(finding: Finding, known: Mapping[str, Registered]) -> Confirmation:
    concerned = [subject for name, subject in known.items() if finding.concerns(name)]
    present = [subject for subject in concerned if not subject.missing]
    if concerned and not present:
        return Confirmation(finding, Shown.CANNOT_RUN, concerned[0].missing)
    version = present[0].library.version if present else ""
    if not finding.is_of(version):
        reason = f"it is said of versions {finding.versions}; {version} is installed"
        return Confirmation(finding, Shown.CANNOT_RUN, reason)
    return _run(finding, present[0] if present else None)


def _run(finding: Finding, subject: Registered | None) -> Confirmation:
    command = [*_interpreter(subject), str(finding.script)]
    process = subject.process if subject else {}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False,
                               env={**os.environ, **process})
    except subprocess.TimeoutExpired:
        return Confirmation(finding, Shown.BROKEN, f"took more than {LONGEST} s")
    last = portable(ended.stderr).strip().rpartition("\n")[2]
    if "ModuleNotFoundError" in last:
        return Confirmation(finding, Shown.CANNOT_RUN, last)
    if ended.returncode not in (0, 1) or _UNCAUGHT.search(ended.stderr):
        return Confirmation(finding, Shown.BROKEN, last or f"ended with exit code {ended.returncode}")
    shown = Shown.CONFIRMED if ended.returncode else Shown.NOT_SO
    return Confirmation(finding, shown, portable(ended.stdout).strip())


def _interpreter(subject: Registered | None) -> tuple[str, ...]:
    """What runs the scripts of a subject's library: the interpreter of its host, if that is no Python."""
    program = subject.library.program if subject else None
    return program.command[:1] if program else (sys.executable, "-W", "ignore")
