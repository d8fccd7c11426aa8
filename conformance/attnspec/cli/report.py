"""`report`: records to a page, beside an earlier record (`--against`) or a folder of them (`--history`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.apart import keep_apart
from attnspec.cli.baseline import conditions_of, why_no_baseline
from attnspec.cli.combine import tell_interrupted
from attnspec.cli.verdict_files import BADGE, JUNIT, write_badge, write_junit
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, UsageError
from attnspec.record.read import PACKED, RunRecord, read_records, unpacked_name
from attnspec.report.figures import count_noun
from attnspec.subjects.baseline import write_baseline

if TYPE_CHECKING:
    from attnspec.report.comparison import History, KnownGroup, RunComparison

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
    from attnspec.report.comparison import compare_runs  # noqa: PLC0415  (weight: only this option needs it)

    earlier = read_records(old)
    _ensure_verdicts(earlier, FileLocation(str(old)))
    _ensure_verdicts(records)
    return compare_runs(records, earlier)


def read_history(folder: Path, records: Sequence[RunRecord]) -> History:
    """The history of a folder and these records. Raises RecordError, and UsageError where these have no verdicts."""
    from attnspec.report.comparison import make_history  # noqa: PLC0415  (weight: only this option needs it)

    _ensure_verdicts(records)
    return make_history(map(read_records, record_files(folder)), records)


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


def format_comparison(compared: RunComparison, old: Path) -> Iterator[str]:
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
        return f"{count_noun(compared.count(Status.NEW), 'new failure')}."
    return "No new failure." if compared.exit_code == CONFORMS else "It is not known whether anything is new."


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path))
@click.option("-o", "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="The page to write. [default: next to the first record]")
@JUNIT
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Also write an audit as Markdown; with --against, the comparison.")
@click.option("--baseline", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Also write the failures as a baseline, or update one that exists.")
@BADGE
@AGAINST
@HISTORY
def report(records: tuple[Path, ...], html: Path | None, against: Path | None, history: Path | None,
           **wanted: Path | None) -> int:
    """Write one page from the records of one or several runs.

    Exit codes: 0 written; with --against 1 if a failure is new, 2 if nobody can say so.
    """
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)
    from attnspec.report.sections import check_shown  # noqa: PLC0415  (weight: see above)

    target = html or unpacked_name(records[0]).with_suffix(".html")
    past = record_files(history) if history else []
    written = {"--html": target, **{f"--{name}": also for name, also in wanted.items()}}
    keep_apart(written, [*records, *past, *([against] if against else [])])
    files = {path: read_records(path) for path in records}
    for path, runs in files.items():
        check_shown(runs, way=f"In a checkout: python -m evaluation report {path}")
    read = [run for runs in files.values() for run in runs]
    compared = compared_with(against, read) if against else None
    write_page(read, target, compared=compared, past=read_history(history, read) if history else None)
    for path, runs in files.items():
        tell_interrupted(path, runs)
    click.echo(f"page: {target}")
    for name, also in wanted.items():
        if also is not None:
            _write_also(name, read, also, compared)
            click.echo(f"{name}: {also}")
    for line in format_comparison(compared, against) if compared and against else ():
        click.echo(line)
    return compared.exit_code if compared else CONFORMS


def _write_also(name: str, records: list[RunRecord], path: Path, compared: RunComparison | None) -> None:
    from attnspec.report.comparison import write_comparison  # noqa: PLC0415  (weight: only --against needs it)

    if name == "markdown" and compared:
        write_comparison(compared, path)
    else:
        _WRITERS[name](records, path)


def _write_audit(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.audit.markdown import write_audit_text  # noqa: PLC0415  (weight: Jinja2)

    write_audit_text(records, path)


def _write_known(records: list[RunRecord], path: Path) -> None:
    for record in records:
        if why := why_no_baseline(path, record.outcomes, is_whole=not record.interrupted):
            raise UsageError(f"the baseline was not written, since {why}.", where=FileLocation(str(path)))
        write_baseline(path, record.outcomes, strict=record.header.strict, conditions=conditions_of(record.header))


_WRITERS: Mapping[str, Callable[[list[RunRecord], Path], None]] = {
    "badge": write_badge, "baseline": _write_known, "junit": write_junit, "markdown": _write_audit}
