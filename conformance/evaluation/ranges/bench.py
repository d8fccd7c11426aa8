"""Judges each adapter of a library with several releases of its range, each in an environment of its own."""

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
from attnspec.core.nouns import FAILURES, Effort, Level, Verdict
from attnspec.core.paths import portable_text
from attnspec.core.plan import Plan
from attnspec.record.outcome import Outcome, does_explain
from attnspec.runner.judge import load_engine, pronounce_verdict
from attnspec.spec.clause import first_of
from attnspec.subjects.installed import RangeEnd, installed_version, look_in
from attnspec.subjects.manifest import Registered

from evaluation.ranges.tried import Fate, Tried

EFFORT = Effort.GLANCE
LONGEST = 1800  # seconds that pip may take
_DONE = "installed.txt"


class NotInstalled(Exception):  # noqa: N818  (named for what happened)
    """There is no environment with this release, and why."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where environments are made, and what the adapters are judged by. plan: without targets."""

    folder: Path
    plan: Plan

    def try_release(self, library: str, end: RangeEnd, subjects: Sequence[Registered]) -> Iterator[Tried]:
        """Each of these adapters of the library with that release."""
        try:
            python = self._environment(library, end)
        except NotInstalled as reason:
            fate = Fate.NOT_TESTED if end.not_tested else Fate.NOT_INSTALLED
            yield from (untested(subject.id, end, fate, str(reason)) for subject in subjects)
            return
        plan = replace(self.plan, python=python)
        look_in(plan.surroundings({}))
        version = _python_of(python)
        for subject in subjects:
            tried = untested(subject.id, end, Fate.NOT_TESTED, subject.not_here) if subject.not_here else judge_at(
                subject.id, end, replace(plan, targets=(subject.id,)))
            yield replace(tried, release=installed_version(subject.library.distribution), python=version)

    def clear(self, library: str, end: RangeEnd) -> None:
        """Remove the environment of a release; what lies below it, which others share, stays."""
        shutil.rmtree(self.folder.absolute() / _name(library, end), ignore_errors=True)

    def _environment(self, library: str, end: RangeEnd) -> str:
        """The interpreter of its environment, which is made if it is not there. Raises NotInstalled."""
        if end.not_tested:
            raise NotInstalled(end.not_tested)
        name = f"upon-{zlib.crc32(f'{end.python} {end.upon}'.encode()):08x}"
        below = self._make_environment(name, end.python, end.upon)
        return str(self._make_environment(_name(library, end), end.python, end.install, below) / "bin" / "python")

    def _make_environment(self, name: str, python: str, install: str, below: Path | None = None) -> Path:
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


def recipe_of(end: RangeEnd) -> str:
    """How an end is installed, in one line."""
    if end.not_tested:
        return ""
    python = f"python{end.python}: " if end.python else ""
    return f"{python}{f'{end.upon}; ' if end.upon else ''}{end.install}"


def untested(subject: str, end: RangeEnd, fate: Fate, words: str) -> Tried:
    """What came of an adapter, of which nothing more is known."""
    return Tried(subject, end.which.value, recipe_of(end), "", end.python, fate, portable_text(words))


def judge_at(target: str, end: RangeEnd, plan: Plan) -> Tried:
    """What comes of an adapter: the five fixed inputs of `smoke` first, which cost nothing, then all clauses."""
    from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke_subject  # noqa: PLC0415  (weight: see above)

    try:
        subject = load_subject(target, plan)
        _ = smoke_subject(subject)  # raises where the adapter fails; what a library does wrong is told by the clauses
        plan = replace(plan, dtypes=(first_of(subject.declaration.dtypes),), effort=EFFORT)
        return replace(_glance_at(target, end, plan), effort=EFFORT.value)
    except ReleaseError as cause:
        return untested(target, end, Fate.UNJUDGED, str(cause))
    except AttnspecError as cause:
        return untested(target, end, Fate.REFUSED, str(cause))


def _glance_at(target: str, end: RangeEnd, plan: Plan) -> Tried:
    """What comes of it at a glance, at one dtype. What a finding of the library explains is known of the release."""
    judge, failures = load_engine(plan), list[Outcome]()
    for item in judge.items():
        outcome = pronounce_verdict(judge, item, plan=plan)
        if outcome.verdict is Verdict.NOT_RUN:
            return untested(target, end, Fate.UNJUDGED, outcome.reason)
        failures += [outcome] if outcome.verdict in {*FAILURES, Verdict.EXPECTED} else []
    known = judge.card(target).findings
    by_finding = {failure.clause: [each.id for each in known if does_explain(each, failure)] for failure in failures}
    found = tuple(dict.fromkeys(name for names in by_finding.values() for name in names))
    rest = [failure for failure in failures if failure.level is Level.MUST and not by_finding[failure.clause]]
    tried = untested(target, end, Fate.FAILS if rest else Fate.WORKS, _words(rest))
    return replace(tried, known=found)


def _words(failures: Sequence[Outcome]) -> str:
    """The first failure in full, and which others there are."""
    if not failures:
        return ""
    first, *others = failures
    sentence = first.reason or (first.evidence.sentence if first.evidence else "")
    also = f"; fails, too: {', '.join(each.clause for each in others)}" if others else ""
    return f"{first.clause} is {first.verdict.value}: {sentence}{also}"


def _name(library: str, end: RangeEnd) -> str:
    """The folder of its environment."""
    return f"{library}-{end.which.value}-{zlib.crc32(end.install.encode()):08x}"


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
