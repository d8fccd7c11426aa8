"""The commands about manifests: `init`, `probe` and `confirm`.

`init` writes a manifest with an adapter. `probe` compares one with what the implementation really
does. `confirm` runs the scripts of published findings.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, TextIO

import click

from attnspec.cli import completion
from attnspec.cli.digest import name_probed
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import (
    DEADLINE,
    DEVICE,
    IMPLEMENTATIONS,
    LIFT,
    TARGETS,
    WORKERS,
    Given,
    OneOf,
    Seconds,
    checked_plan,
    elsewhere,
    keep_apart,
    run_options,
    surroundings,
    surroundings_of,
    typed_command,
)
from attnspec.cli.outputs import HandlerGroup, Outputs, VisibleHandler, is_coloured
from attnspec.core import paths
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, TargetError, UsageError
from attnspec.core.nouns import DType
from attnspec.core.paths import portable_text, write_whole
from attnspec.core.surroundings import Surroundings
from attnspec.core.texts import count_noun, escape_hidden
from attnspec.probing.jobs import PROBE_JOBS
from attnspec.record.events import Event, Found, Handler, RunFinished, SubjectProbed
from attnspec.runner.session import Session
from attnspec.subjects.baseline import read_baseline
from attnspec.subjects.findings import Finding, read_findings
from attnspec.subjects.installed import kind_of_device
from attnspec.subjects.manifest import MANIFEST_FILE, Registered, library_folders
from attnspec.subjects.outline import spelled_out
from attnspec.subjects.registry import registered_subjects

if TYPE_CHECKING:
    from attnspec.scaffold.written_adapter import WrittenAdapter


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=completion.targets)
@click.option("--into", default=Path("implementations"), show_default=True, metavar="DIR",
              type=click.Path(file_okay=False, path_type=Path),
              help="The folder of implementations to write into.")
@click.option("--deadline", default=300.0, show_default=True, type=Seconds(),
              metavar="SECONDS", help="How long the search may take.")
@click.option("--candidates", multiple=True, metavar="PATH", type=click.Path(path_type=Path),
              help="A file, or a folder of them, whose class or function takes the place of TARGET's, as "
                   "KernelBench's ModelNew that of Model: an adapter for each, too. May be given several times.")
@elsewhere
def init(target: str, into: Path, candidates: tuple[Path, ...], **there: Given) -> int:
    """Write an adapter and a manifest for TARGET, package.module:name or path/to/file.py:name, ready to be judged.

    It calls TARGET in many ways, to find out which arrays it takes, which parameter is the mask, and whether True keeps
    or removes a key. The adapter that it writes has been tested to compute attention. TARGET is a function of arrays,
    a function that takes its parameters too, or a class of PyTorch, Equinox, Flax, Haiku or Keras.
    """
    from attnspec.scaffold.callee_process import locate_target  # noqa: PLC0415  (used with the others only)
    from attnspec.scaffold.written_adapter import candidates_for, write_for  # noqa: PLC0415  (weight: NumPy)

    target = spelled_out(target)
    written, callee = write_for(target, surroundings_of(there), into), locate_target(target).target
    folder = into / _free_name(written.library, into)
    others = list(candidates_for(callee, written, candidates))
    write_files(folder, written)
    for each in others:
        write_whole(folder / f"{each.module}.py", each.source, "candidate")
        write_files(folder, each.written)
    for sentence in written.sentences:
        prefix = "found: "
        if sentence in written.warnings:
            prefix = ""
        elif sentence in written.remarks:
            prefix = "note: "
        click.echo(f"{prefix}{escape_hidden(sentence)}")
    click.echo(f"wrote {folder / f'{written.name}.py'} and {folder / MANIFEST_FILE}")
    options = {name: there[name] for name in ("python", "host") if there[name]}
    if written.demanded_keywords:
        options["must_take"] = " ".join(written.demanded_keywords)
    if others:
        click.echo(f"and {count_noun(len(others), 'adapter')} beside it, of its candidates.\n"
                   f"Next: attnspec rank '{folder.name}/*' --implementations {into}")
        return CONFORMS
    click.echo("\n".join(_next_steps(f"{folder.name}/{written.name}", into, options)))
    return CONFORMS


def _next_steps(subject: str, into: Path, options: Mapping[str, str]) -> Iterator[str]:
    """Says how the adapter is judged. options: those that it needs, such as where it lives."""
    typed = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}"
                    for name, value in options.items())
    arguments = "".join(f', {name}="{value}"' for name, value in options.items())
    if demanded := options.get("must_take"):
        yield (f"{demanded.replace(' ', ', ')}: it has a parameter or a name for that, and does not do it. "
               "That may be wrong, and is not judged: --must-take lets a check fail for it. "
               "If something else is meant, leave that option out.")
    yield f"Next: attnspec check {subject} --implementations {into}{typed}"
    yield (f'In a test file: test_attention = attnspec.gate("{subject}", '
           f'implementations="{into}"{arguments})')


def _free_name(library: str, into: Path) -> str:
    """The library's name, or another one if attnspec ships a folder of that name."""
    shipped = paths.folder("implementations") / library
    is_taken = shipped.is_dir() and shipped.absolute() != (into / library).absolute()
    return f"{library}_own" if is_taken else library


def write_files(folder: Path, written: WrittenAdapter) -> None:
    """Writes the adapter and its entry in the manifest. Raises UsageError if it exists already."""
    adapter, manifest = folder / f"{written.name}.py", folder / MANIFEST_FILE
    if adapter.exists():
        raise UsageError(f"{adapter} exists already. Move it away, or name another folder: --into DIR.")
    write_whole(adapter, written.adapter, "adapter")
    head = written.manifest_head
    if manifest.exists():
        head = f"{manifest.read_text(encoding='utf-8').rstrip()}\n\n"
    write_whole(manifest, head + written.manifest_entry, "manifest")


_GAP = "  "


@dataclass(slots=True)
class ProbeConsole(Handler):
    """A handler that prints the answers of each subject. places: lines that come at the end."""

    stream: TextIO
    places: Sequence[str] = ()
    _probes: list[SubjectProbed] = field(default_factory=list)
    _footer: RunFinished | None = None

    def handle(self, event: Event) -> None:
        """Prints the answers of a probe."""
        match event:
            case SubjectProbed():
                self._probes.append(event)
                self._echo(format_probe(event))
            case RunFinished():
                self._footer = event

    def shutdown(self) -> None:
        """Prints what the probes come to, if the run was finished."""
        if self._footer is not None:
            self._echo(["", *self.places, format_probe_conclusion(self._probes, self._footer)])

    def _echo(self, lines: Sequence[str] | Iterator[str]) -> None:
        for line in lines:
            click.echo(line, file=self.stream, color=is_coloured(self.stream))


def format_probe(probed: SubjectProbed) -> Iterator[str]:
    """A heading, and a line for each answer; contradictions show what was claimed."""
    if not probed.found and not probed.lost:
        return  # a dtype that a bare function does not support
    yield ""
    yield click.style(name_probed(probed), bold=True)
    if probed.lost:
        yield click.style(f"  lost: {probed.lost}", fg="red")
    width = max((len(found.question) for found in probed.found), default=0)
    yield from (_format_answer_line(found, width) for found in probed.found)


def _format_answer_line(found: Found, width: int) -> str:
    detail = f"{_GAP}{found.detail}" if found.detail else ""
    line = f"{found.question:<{width}}{_GAP}{found.answer}"
    if found.is_contradiction:
        return click.style(f"! {line}, but the manifest claims {found.claimed}{detail}", fg="red",
                           bold=True)
    claimed = "(as claimed)" if found.claimed else ""
    return f"  {line}{_GAP}{claimed}{click.style(detail, dim=True)}".rstrip()


def format_probe_conclusion(probes: Sequence[SubjectProbed], footer: RunFinished) -> str:
    """The last line, with the exit code."""
    end = f"(exit code {footer.exit_code})"
    if footer.interrupted:
        return f"Interrupted: not everything was asked. {end}"
    wrong = sum(found.is_contradiction for each in probes for found in each.found)
    lost = sum(bool(each.lost) for each in probes)
    answers = count_noun(sum(len(each.found) for each in probes), "answer")
    if wrong:
        return f"{answers}, {wrong} of them against the manifest. {end}"
    if lost:
        return f"{answers}; {count_noun(lost, 'probe')} could not be run. {end}"
    return f"{answers}, none against the manifest. {end}"


@click.command()
@TARGETS
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
              help="Only this dtype. [default: all; every question is asked at the first, "
                   "float32 if it is supported]")
@run_options
@LIFT
@IMPLEMENTATIONS
@DEADLINE
@surroundings
def probe(targets: tuple[str, ...], workers: int, **options: Given) -> int:
    """Find out what each TARGET and its variants really do, and compare it with what the manifest claims.

    Exit codes: 0 nothing contradicts the manifest, 1 an answer does, 2 not every question could be asked.
    """
    keep_apart({f"--{name}": options[name] for name in ("record", "html")})
    outputs = Outputs.from_options(**{name: options.pop(name)
                                      for name in ("record", "no_record", "html", "as_json")})
    plan = checked_plan(targets, {**options, "spec": ""})
    answers = ProbeConsole(outputs.console_stream, outputs.places)
    session = Session(plan, workers=workers, command=typed_command(), source=PROBE_JOBS)
    return exit_code_of(session.run([VisibleHandler(answers),
                                     HandlerGroup(outputs.kept_handlers)]))


THIS_ENVIRONMENT = Surroundings()
SCRIPT_SECONDS = 300  # seconds; a script compiles a kernel at most


_UNCAUGHT = re.compile(r"\A\s*Traceback|^Node\.js v\d", re.MULTILINE)
"""What Python and Node write where nobody catches an exception."""


class ScriptOutcome(Enum):
    """What a finding's script comes to. Interpreters exit with 1 also for an uncaught exception;
    what they print tells the two apart.
    """

    CONFIRMED = "confirmed"
    NOT_SO = "not so here"
    CANNOT_RUN = "cannot run here"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A finding's script after a run. printed_text: what it printed, or why it could not run."""

    finding: Finding
    script_outcome: ScriptOutcome
    printed_text: str


def confirm_findings(findings: Iterable[Finding], known: Mapping[str, Registered],
                     workers: int = 1,
                     there: Surroundings = THIS_ENVIRONMENT) -> Iterator[Confirmation]:
    """Runs each script once, where a subject that the finding concerns lives, or `there`."""
    # in turn: one host is asked, by one at a time
    places = [(finding, _place_of_finding(finding, known)) for finding in findings]
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(partial(_confirm_finding, there=there), places)


def _place_of_finding(finding: Finding,
                      known: Mapping[str, Registered]) -> Registered | str | None:
    """A present subject that the finding concerns; None if it concerns none. A text says why the
    script cannot run.
    """
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


def _confirm_finding(placed: tuple[Finding, Registered | str | None],
                     there: Surroundings) -> Confirmation:
    finding, place = placed
    if isinstance(place, str):
        return Confirmation(finding, ScriptOutcome.CANNOT_RUN, place)
    return _run_script(finding, place, there)


def _run_script(finding: Finding, subject: Registered | None, there: Surroundings) -> Confirmation:
    variables = dict(subject.process) if subject else {}
    script, text = str(finding.script), None
    if not there.is_here:
        script, text = "-", _script_to_hand_over(finding, variables)
    command = [*_interpreter(subject, there), script]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SCRIPT_SECONDS,
                               check=False, input=text, env={**os.environ, **variables})
    except subprocess.TimeoutExpired:
        return Confirmation(finding, ScriptOutcome.BROKEN, f"took more than {SCRIPT_SECONDS} s")
    except OSError as cause:
        raise TargetError(f"the command {command[0]!r} cannot be started: {cause.strerror}.") from None
    last = portable_text(ended.stderr).strip().rpartition("\n")[2]
    if "ModuleNotFoundError" in last:
        return Confirmation(finding, ScriptOutcome.CANNOT_RUN, last)
    if ended.returncode not in (0, 1) or _UNCAUGHT.search(ended.stderr):
        return Confirmation(finding, ScriptOutcome.BROKEN,
                            last or f"ended with exit code {ended.returncode}")
    outcome = ScriptOutcome.CONFIRMED if ended.returncode else ScriptOutcome.NOT_SO
    return Confirmation(finding, outcome, portable_text(ended.stdout).strip())


def _script_to_hand_over(finding: Finding, variables: Mapping[str, str]) -> str:
    """The script and its variables as text, for an interpreter that sees no file of ours."""
    text = finding.script.read_text(encoding="utf-8")
    return (f"import os\nos.environ.update({dict(variables)!r})\n"
            f"exec(compile({text!r}, {finding.script.name!r}, 'exec'), {{'__name__': '__main__'}})\n")


def _interpreter(subject: Registered | None, there: Surroundings) -> tuple[str, ...]:
    """The command that runs the scripts of a subject's library. It is the interpreter of its host
    if that is no Python, else the one that the user names, else the manifest's.
    """
    if subject and subject.library.program:
        return subject.library.program.command[:1]
    python = (subject.library.python if subject else "") or sys.executable
    return (*(there.command or (python,)), "-W", "ignore")


_COLOURS = {ScriptOutcome.CONFIRMED: "green", ScriptOutcome.NOT_SO: "red",
            ScriptOutcome.CANNOT_RUN: "yellow", ScriptOutcome.BROKEN: "red"}


@click.command()
@click.argument("names", nargs=-1, metavar="[LIBRARY]...", shell_complete=completion.libraries)
@click.option("-n", "workers", default=1, type=WORKERS, metavar="WORKERS",
              help="How many scripts run at the same time.")
@click.option("--quiet", "-q", "is_brief", is_flag=True,
              help="Do not show what the scripts print.")
@click.option("--baseline", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
              help="Only the findings that this baseline names.")
@IMPLEMENTATIONS
@DEVICE
@elsewhere
def confirm(
    names: tuple[str, ...], workers: int, *, is_brief: bool, baseline: Path | None,
    implementations: tuple[str, ...],
    **options: Given,
) -> int:
    """Run the script of every finding of each LIBRARY, or of all, and say whether the finding still holds.

    A script needs the library, but not attnspec. --python or --host says where the library is installed,
    and --device on which device the findings are about it.

    Exit codes: 0 all scripts that could run confirm their finding, 1 one does not, 2 one is broken or none could run.
    """
    there = surroundings_of(options)
    counts: Counter[ScriptOutcome] = Counter()
    findings = tuple(_findings_by_name(names, implementations))
    if baseline:
        findings = _findings_in_baseline(baseline, findings, implementations)
        if not findings:
            click.echo(f"{baseline}: no entry of this list of known failures names a finding, so no script was run. "
                       "Give an entry `finding: ID` where a finding explains it, or leave out --baseline to run "
                       "them all.")
            return CONFORMS
    for each in confirm_findings(findings, registered_subjects(implementations), workers, there):
        counts[each.script_outcome] += 1
        _print_confirmation(each, is_brief=is_brief)
    click.echo(", ".join(f"{count} {outcome.value}" for outcome, count in counts.items()))
    return _exit_code(counts)


def _findings_by_name(names: Sequence[str], implementations: Sequence[str]) -> Iterator[Finding]:
    folders = {folder.name: folder for folder in library_folders(implementations)}
    for name in names or folders:
        if name not in folders:
            raise UsageError.unknown("library", name, folders)
        yield from read_findings(folders[name])


def _findings_in_baseline(
    baseline: Path, findings: Sequence[Finding], implementations: Sequence[str],
) -> tuple[Finding, ...]:
    listed = read_baseline(baseline, implementations)
    named = {each.finding for known in listed.values() for each in known}
    return tuple(finding for finding in findings if finding.id in named)


def _print_confirmation(each: Confirmation, *, is_brief: bool) -> None:
    outcome = each.script_outcome
    click.echo(f"{click.style(outcome.value, fg=_COLOURS[outcome])}  {each.finding.id}")
    if each.printed_text and (not is_brief or outcome is not ScriptOutcome.CONFIRMED):
        click.echo(indent(escape_hidden(each.printed_text), "    ", lambda _: True))


def _exit_code(counts: Counter[ScriptOutcome]) -> int:
    if counts[ScriptOutcome.BROKEN]:
        return CANNOT_RUN
    if counts[ScriptOutcome.NOT_SO]:
        return VIOLATED
    return CONFORMS if counts[ScriptOutcome.CONFIRMED] else CANNOT_RUN
