"""`report --against` and `--history`: an earlier record and a folder of them, and what the console says of the one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.wording import plural
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, UsageError
from attnspec.record.read import PACKED, RunRecord, read_records

if TYPE_CHECKING:
    from attnspec.report.comparison import RunComparison
    from attnspec.report.history import History
    from attnspec.report.known import KnownGroup

LISTED = 20  # entries of each group that are told
FEWER = {"still failing": 3}  # of a group that asks for nothing
_COLOURS = {"new": "red", "new (advised)": "yellow", "changed": "yellow", "fixed": "green"}
_ENDS = {VIOLATED: "red", CONFORMS: "green", CANNOT_RUN: "yellow"}

AGAINST = click.option("--against", type=click.Path(path_type=Path, dir_okay=False), metavar="OLD",
                       help="Compare with this earlier record: what is new, changed and fixed. Exit code 1 if "
                            "anything is new.")
HISTORY = click.option("--history", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
                       help="A folder of records: also draw how many clauses each run violates, oldest run first.")


def compared_with(old: Path, records: Sequence[RunRecord]) -> RunComparison:
    """The comparison with an earlier record. Raises RecordError, and UsageError where one of them has no verdicts."""
    from attnspec.report.comparison import compare  # noqa: PLC0415  (weight: only this option needs it)

    earlier = read_records(old)
    _ensure_verdicts(earlier, FileLocation(str(old)))
    _ensure_verdicts(records)
    return compare(records, earlier)


def drawn(folder: Path, records: Sequence[RunRecord]) -> History:
    """The history of a folder and these records. Raises RecordError, and UsageError where these have no verdicts."""
    from attnspec.report.history import history  # noqa: PLC0415  (weight: only this option needs it)

    _ensure_verdicts(records)
    return history(map(read_records, record_files(folder)), records)


def _ensure_verdicts(runs: Sequence[RunRecord], where: FileLocation | None = None) -> None:
    if not any(run.outcomes for run in runs):
        raise UsageError("there are no verdicts to compare: `attnspec check` and `attnspec audit` write records that "
                         "have some.", where=where)


def record_files(folder: Path) -> list[Path]:
    """The records of a folder, packed ones too, but none that was killed before its first line.

    Raises UsageError where there is none.
    """
    files = sorted({file for ending in ("", *PACKED) for file in folder.glob(f"*.jsonl{ending}")})
    found = [file for file in files if file.stat().st_size]
    if not found:
        raise UsageError("there is no record (*.jsonl, *.jsonl.gz, *.jsonl.xz) in this folder. Keep one of each run "
                         "there: attnspec check … --record FOLDER/NAME.jsonl", where=FileLocation(str(folder)))
    return found


def told(compared: RunComparison, old: Path) -> Iterator[str]:
    """How the run stands to the earlier one: one line an entry, and at its end what it comes to."""
    yield f"Against {old}: {compared.headline}."
    yield from (f"  {note}" for note in compared.notes)
    if compared.differences:
        yield f"  The runs differ in {'; '.join(f'{d.name} ({d.old} → {d.new})' for d in compared.differences)}."
    for group in compared.groups:
        yield from _entries(group)
    code = compared.exit_code
    yield click.style(f"{_verdict(compared)} (exit code {code})", fg=_ENDS[code], bold=True)


def _entries(group: KnownGroup) -> Iterator[str]:
    name = click.style(group.name, fg=_COLOURS.get(group.name), bold=group.name in _COLOURS)
    most = FEWER.get(group.name, LISTED)
    for each in group.entries[:most]:
        yield f"  {name}: {each.subject} {each.clause.id} ({each.dtypes}) {each.says}"
    if len(group.entries) > most:
        yield f"  {name}: and {len(group.entries) - most} more, on the page"


def _verdict(compared: RunComparison) -> str:
    from attnspec.report.comparison import Status  # noqa: PLC0415  (weight: as above)

    if compared.exit_code == VIOLATED:
        return f"{plural(compared.count(Status.NEW), 'new failure')}."
    return "No new failure." if compared.exit_code == CONFORMS else "It is not known whether anything is new."
