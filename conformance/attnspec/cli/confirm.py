"""`confirm`: are the published findings so, here and with these versions?

The script of each finding runs in a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import click

from attnspec.cli import completion
from attnspec.cli.numbers import WORKERS
from attnspec.cli.options import DEVICE, IMPLEMENTATIONS, Given, elsewhere, surroundings_of
from attnspec.core.characters import escape_hidden
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, TargetError, UsageError
from attnspec.core.paths import portable_text
from attnspec.core.surroundings import Surroundings
from attnspec.subjects.baseline import read_baseline
from attnspec.subjects.findings import Finding, read_findings
from attnspec.subjects.installed import kind_of_device
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import library_folders, registered_subjects

HERE = Surroundings()
LONGEST = 300  # seconds; a script compiles a kernel at most


_UNCAUGHT = re.compile(r"\A\s*Traceback|^Node\.js v\d", re.MULTILINE)
"""What Python and Node write where nobody catches an exception."""


class ScriptOutcome(Enum):
    """What came of a finding's script.

    Interpreters exit with 1 as well where nobody catches an exception; their last words tell it.
    """

    CONFIRMED = "confirmed"
    NOT_SO = "not so here"
    CANNOT_RUN = "cannot run here"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A finding's script, run once. `said` is what it printed, or why it could not run."""

    finding: Finding
    script_outcome: ScriptOutcome
    printed_text: str


def confirm_findings(findings: Iterable[Finding], known: Mapping[str, Registered], workers: int = 1,
                     there: Surroundings = HERE) -> Iterator[Confirmation]:
    """Each script run once, in the order of the findings, in the surroundings of a subject that it concerns; there, if
    they name a command.
    """
    places = [(finding, _place(finding, known)) for finding in findings]  # in turn: one host is asked, by one at a time
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(partial(_confirm_finding, there=there), places)


def _place(finding: Finding, known: Mapping[str, Registered]) -> Registered | str | None:
    """A subject that the finding concerns and that is here, None if it concerns none; or why its script cannot run."""
    concerned = [subject for name, subject in known.items() if finding.concerns(name)]
    present = [subject for subject in concerned if not subject.why_missing]
    if concerned and not present:
        return concerned[0].why_missing
    if not finding.is_on(kind_of_device()):
        return f"it shows on {finding.device} alone; name a device: attnspec confirm --device {finding.device}"
    version = present[0].library.version if present else ""
    if not finding.is_of(version):
        return f"the finding is about versions {finding.versions}; {version} is installed"
    return present[0] if present else None


def _confirm_finding(placed: tuple[Finding, Registered | str | None], there: Surroundings) -> Confirmation:
    finding, place = placed
    return (Confirmation(finding, ScriptOutcome.CANNOT_RUN, place) if isinstance(place, str)
            else _run(finding, place, there))


def _run(finding: Finding, subject: Registered | None, there: Surroundings) -> Confirmation:
    process = dict(subject.process) if subject else {}
    command = [*_interpreter(subject, there), str(finding.script) if there.is_here else "-"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False,
                               input=None if there.is_here else _handed_over(finding, process),
                               env={**os.environ, **process})
    except subprocess.TimeoutExpired:
        return Confirmation(finding, ScriptOutcome.BROKEN, f"took more than {LONGEST} s")
    except OSError as cause:
        raise TargetError(f"the command {command[0]!r} cannot be started: {cause.strerror}.") from None
    last = portable_text(ended.stderr).strip().rpartition("\n")[2]
    if "ModuleNotFoundError" in last:
        return Confirmation(finding, ScriptOutcome.CANNOT_RUN, last)
    if ended.returncode not in (0, 1) or _UNCAUGHT.search(ended.stderr):
        return Confirmation(finding, ScriptOutcome.BROKEN, last or f"ended with exit code {ended.returncode}")
    shown = ScriptOutcome.CONFIRMED if ended.returncode else ScriptOutcome.NOT_SO
    return Confirmation(finding, shown, portable_text(ended.stdout).strip())


def _handed_over(finding: Finding, process: Mapping[str, str]) -> str:
    """The script as text, for an interpreter that sees no file of this machine, with the variables that it needs."""
    text = finding.script.read_text(encoding="utf-8")
    return (f"import os\nos.environ.update({dict(process)!r})\n"
            f"exec(compile({text!r}, {finding.script.name!r}, 'exec'), {{'__name__': '__main__'}})\n")


def _interpreter(subject: Registered | None, there: Surroundings) -> tuple[str, ...]:
    """What runs the scripts of a subject's library: the interpreter of its host, if that is no Python; the one that is
    asked for; the one that its manifest names.
    """
    if subject and subject.library.program:
        return subject.library.program.command[:1]
    named = (subject.library.python,) if subject and subject.library.python else (sys.executable,)
    return (*(there.command or named), "-W", "ignore")


_COLOURS = {ScriptOutcome.CONFIRMED: "green", ScriptOutcome.NOT_SO: "red", ScriptOutcome.CANNOT_RUN: "yellow",
            ScriptOutcome.BROKEN: "red"}


@click.command()
@click.argument("names", nargs=-1, metavar="[LIBRARY]...", shell_complete=completion.libraries)
@click.option("-n", "workers", default=1, type=WORKERS, metavar="WORKERS",
              help="How many scripts run at the same time.")
@click.option("--quiet", "-q", "is_brief", is_flag=True, help="Do not show what the scripts print.")
@click.option("--baseline", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
              help="Only the findings that this baseline names.")
@IMPLEMENTATIONS
@DEVICE
@elsewhere
def confirm(
    names: tuple[str, ...], workers: int, *, is_brief: bool, baseline: Path | None, implementations: tuple[str, ...],
    **options: Given,
) -> int:
    """Run the script of every finding of each LIBRARY, or of all, and say whether the finding still holds.

    A script needs the library, but not attnspec. --python or --host says where the library is installed,
    and --device on which device the findings are about it.

    Exit codes: 0 all scripts that could run confirm their finding, 1 one does not, 2 one is broken or none could run.
    """
    there = surroundings_of(options)
    seen: Counter[ScriptOutcome] = Counter()
    findings = tuple(_findings(names, implementations))
    if baseline:
        findings = _named_in(baseline, findings, implementations)
        if not findings:
            click.echo(f"{baseline}: no entry of this list of known failures names a finding, so no script "
                       "was run. Give an entry `finding: ID` where a finding explains it, or leave out --baseline to "
                       "run them all.")
            return CONFORMS
    for each in confirm_findings(findings, registered_subjects(implementations), workers, there):
        seen[each.script_outcome] += 1
        _print_confirmation(each, is_brief=is_brief)
    click.echo(", ".join(f"{count} {shown.value}" for shown, count in seen.items()))
    return _exit_code(seen)


def _findings(names: Sequence[str], implementations: Sequence[str]) -> Iterator[Finding]:
    folders = {folder.name: folder for folder in library_folders(implementations)}
    for name in names or folders:
        if name not in folders:
            raise UsageError.unknown("library", name, folders)
        yield from read_findings(folders[name])


def _named_in(baseline: Path, findings: Sequence[Finding], implementations: Sequence[str]) -> tuple[Finding, ...]:
    listed = read_baseline(baseline, implementations)
    named = {each.finding for known in listed.values() for each in known}
    return tuple(finding for finding in findings if finding.id in named)


def _print_confirmation(each: Confirmation, *, is_brief: bool) -> None:
    click.echo(f"{click.style(each.script_outcome.value, fg=_COLOURS[each.script_outcome])}  {each.finding.id}")
    if each.printed_text and (not is_brief or each.script_outcome is not ScriptOutcome.CONFIRMED):
        click.echo("\n".join(f"    {line}" for line in escape_hidden(each.printed_text).splitlines()))


def _exit_code(seen: Counter[ScriptOutcome]) -> int:
    if seen[ScriptOutcome.BROKEN] or not (seen[ScriptOutcome.CONFIRMED] or seen[ScriptOutcome.NOT_SO]):
        return CANNOT_RUN
    return VIOLATED if seen[ScriptOutcome.NOT_SO] else CONFORMS
