"""Tries each adapter of a library with the oldest and the newest release of its range, in an environment of its own."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnspec.core.errors import AttnspecError, ReleaseError
from attnspec.core.nouns import FAILURES, DType, Effort, Verdict
from attnspec.core.paths import portable
from attnspec.core.plan import Plan
from attnspec.record.tried import Fate, Tried
from attnspec.runner.judge import pronounce
from attnspec.runner.judge import summon as judge_of
from attnspec.spec.clause import first_of
from attnspec.subjects.installed import installed_version, look_in
from attnspec.subjects.manifest import Registered
from attnspec.subjects.tested import End

EXAMPLES = ("attention.worked_example", "rotary.definition")
"""Clauses whose cases are small at a glance: whether a release answers rightly at its extremes is asked by an audit."""

LONGEST = 1800  # seconds that pip may take
_DONE = "installed.txt"


class NotInstalled(Exception):  # noqa: N818  (named for what happened)
    """There is no environment with this release, and why."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where environments are made, and what the adapters are judged by. plan: without targets."""

    folder: Path
    plan: Plan

    def tried(self, library: str, end: End, subjects: Sequence[Registered]) -> Iterator[Tried]:
        """Each of these adapters of the library with that release."""
        try:
            python = self._environment(library, end)
        except NotInstalled as reason:
            fate = Fate.NOT_TESTED if end.not_tested else Fate.NOT_INSTALLED
            yield from (told(subject.id, end, fate, str(reason)) for subject in subjects)
            return
        plan = replace(self.plan, python=python)
        look_in(plan.surroundings({}))
        version = _python_of(python)
        for subject in subjects:
            fate, words = (Fate.NOT_TESTED, subject.not_here) if subject.not_here else fate_of(
                subject.id, replace(plan, targets=(subject.id,)))
            release = installed_version(subject.library.distribution)
            yield replace(told(subject.id, end, fate, words), release=release, python=version)

    def _environment(self, library: str, end: End) -> str:
        """The interpreter of its environment, which is made if it is not there. Raises NotInstalled."""
        if end.not_tested:
            raise NotInstalled(end.not_tested)
        below = self._made(f"upon-{zlib.crc32(f'{end.python} {end.upon}'.encode()):08x}", end.python, end.upon)
        name = f"{library}-{end.which.value}-{zlib.crc32(end.install.encode()):08x}"
        return str(self._made(name, end.python, end.install, below) / "bin" / "python")

    def _made(self, name: str, python: str, install: str, below: Path | None = None) -> Path:
        """An environment in which this is installed; what is installed `below` it is seen there, and not copied."""
        there = self.folder.absolute() / name
        done, text = there / _DONE, f"{python}\n{install}\n{below or ''}\n"
        if done.is_file() and done.read_text(encoding="utf-8") == text:
            return there
        _run([_interpreter(python), "-m", "venv", "--clear", str(there)])
        if below:
            (_packages(there) / "below.pth").write_text(f"{_packages(below)}\n", encoding="utf-8")
        if install:
            _run([str(there / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                  *shlex.split(install)])
        done.write_text(text, encoding="utf-8")
        return there


def recipe_of(end: End) -> str:
    """How an end is installed, in one line."""
    if end.not_tested:
        return ""
    python = f"python{end.python}: " if end.python else ""
    return f"{python}{f'{end.upon}; ' if end.upon else ''}{end.install}"


def told(subject: str, end: End, fate: Fate, words: str) -> Tried:
    """What came of an adapter, of which nothing more is known."""
    return Tried(subject, end.which.value, recipe_of(end), "", end.python, fate, portable(words))


def fate_of(target: str, plan: Plan) -> tuple[Fate, str]:
    """Whether the adapter answers the five fixed inputs of `smoke`, and examples rightly; and if not, why."""
    from attnspec.engine.summon import summon  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke  # noqa: PLC0415  (weight: see above)

    try:
        subject = summon(target, plan)
        wrong = [f"{line.sentence}: {line.detail}" for line in smoke(subject) if not line.passed]
        return (Fate.FAILS, wrong[0]) if wrong else _exemplary(plan, subject.declaration.dtypes)
    except ReleaseError as cause:
        return Fate.UNJUDGED, str(cause)
    except AttnspecError as cause:
        return Fate.REFUSED, str(cause)


def _exemplary(plan: Plan, dtypes: Sequence[DType]) -> tuple[Fate, str]:
    """Whether it answers the documented example of four tokens rightly, at one dtype; of a rotary embedding, a few."""
    plan = replace(plan, clauses=EXAMPLES, dtypes=(first_of(dtypes),), effort=Effort.GLANCE)
    judge = judge_of(plan)
    for item in judge.items():
        outcome = pronounce(judge, item, plan=plan)
        if outcome.verdict is Verdict.NOT_RUN:
            return Fate.UNJUDGED, outcome.reason
        if outcome.verdict in FAILURES:
            return Fate.FAILS, f"{item.clause} is {outcome.verdict.value}: {outcome.reason}"
    return Fate.WORKS, ""


def _interpreter(version: str) -> str:
    """The interpreter of this version, `3.9`; attnspec's own where none is named. Raises NotInstalled."""
    name = f"python{version}"
    found = shutil.which(name) if version else sys.executable
    if not found or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        raise NotInstalled(f"there is no {name} on the path that starts")
    return found


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def _python_of(python: str) -> str:
    """The version of an interpreter, `3.11`."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _run(command: Sequence[str]) -> None:
    """Raise NotInstalled, with the error's first line, where the command fails."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"pip had not ended after {LONGEST} s") from None
    if ended.returncode:
        raise NotInstalled(_reason(ended.stderr + ended.stdout))


def _reason(said: str) -> str:
    """The line of an error, of all that pip says."""
    errors = re.findall(r"^\s*(?:ERROR: )(.+)$", said, re.MULTILINE) or said.strip().splitlines()[-1:]
    return str(errors[-1]).strip() if errors else "the command failed and said nothing"
