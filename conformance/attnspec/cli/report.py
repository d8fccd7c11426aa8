"""`report`: records to a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.apart import keep_apart
from attnspec.cli.baseline import conditions_of, unfit
from attnspec.cli.combine import tell_interrupted
from attnspec.cli.comparison import AGAINST, HISTORY, compared_with, drawn, record_files, told
from attnspec.cli.verdict_files import BADGE, JUNIT, write_badge, write_junit
from attnspec.core.errors import CONFORMS, FileLocation, UsageError
from attnspec.record.read import RunRecord, read_records, unpacked_name
from attnspec.subjects.baseline import write_baseline

if TYPE_CHECKING:
    from attnspec.report.comparison import RunComparison


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
    write_page(read, target, compared=compared, past=drawn(history, read) if history else None)
    for path, runs in files.items():
        tell_interrupted(path, runs)
    click.echo(f"page: {target}")
    for name, also in wanted.items():
        if also is not None:
            _write_also(name, read, also, compared)
            click.echo(f"{name}: {also}")
    for line in told(compared, against) if compared and against else ():
        click.echo(line)
    return compared.exit_code if compared else CONFORMS


def _write_also(name: str, records: list[RunRecord], path: Path, compared: RunComparison | None) -> None:
    from attnspec.report.comparison_text import write_comparison  # noqa: PLC0415  (weight: only --against needs it)

    if name == "markdown" and compared:
        write_comparison(compared, path)
    else:
        _WRITERS[name](records, path)


def _write_audit(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.audit.markdown import write_audit_text  # noqa: PLC0415  (weight: Jinja2)

    write_audit_text(records, path)


def _write_known(records: list[RunRecord], path: Path) -> None:
    for record in records:
        if why := unfit(path, record.outcomes, is_whole=not record.interrupted):
            raise UsageError(f"the baseline was not written, since {why}.", where=FileLocation(str(path)))
        write_baseline(path, record.outcomes, strict=record.header.strict, conditions=conditions_of(record.header))


_WRITERS: Mapping[str, Callable[[list[RunRecord], Path], None]] = {
    "badge": write_badge, "baseline": _write_known, "junit": write_junit, "markdown": _write_audit}
