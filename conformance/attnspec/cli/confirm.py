"""`confirm`: are the published findings so, here and with these versions?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from attnspec.cli import completion
from attnspec.cli.numbers import WORKERS
from attnspec.cli.options import DEVICE, IMPLEMENTATIONS, Given, elsewhere, surroundings_of
from attnspec.core.characters import visible
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, UsageError
from attnspec.runner.confirming import Confirmation, ScriptOutcome, confirmations
from attnspec.subjects.baseline import read_baseline
from attnspec.subjects.findings import Finding, read_findings
from attnspec.subjects.registry import library_folders, registered

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
    for each in confirmations(findings, registered(implementations), workers, there):
        seen[each.shown] += 1
        _tell(each, is_brief=is_brief)
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


def _tell(each: Confirmation, *, is_brief: bool) -> None:
    click.echo(f"{click.style(each.shown.value, fg=_COLOURS[each.shown])}  {each.finding.id}")
    if each.said and (not is_brief or each.shown is not ScriptOutcome.CONFIRMED):
        click.echo("\n".join(f"    {line}" for line in visible(each.said).splitlines()))


def _exit_code(seen: Counter[ScriptOutcome]) -> int:
    if seen[ScriptOutcome.BROKEN] or not (seen[ScriptOutcome.CONFIRMED] or seen[ScriptOutcome.NOT_SO]):
        return CANNOT_RUN
    return VIOLATED if seen[ScriptOutcome.NOT_SO] else CONFORMS
