"""`report`: records to a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from attnspec.cli.apart import keep_apart
from attnspec.cli.baseline import unfit
from attnspec.cli.combine import tell_interrupted
from attnspec.core.errors import Place, UsageError
from attnspec.record.read import RunRecord, read_records
from attnspec.record.visible import visible
from attnspec.subjects.baseline import write_baseline


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Where. [default: beside the first record]")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Draw power or a campaign as an SVG, too; of the first record.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Write the verdicts as JUnit XML for a CI server, too.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Write an audit as a page of documentation in Markdown, too.")
@click.option("--baseline", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Write the failures as a baseline, or bring one up to date with them, too.")
@click.option("--table", is_flag=True, help="Print the rules of a measurement of power as a table in Markdown, too.")
def report(records: tuple[Path, ...], html: Path | None, *, table: bool, **wanted: Path | None) -> None:
    """Write one page from the records of one or several runs."""
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    target = html or records[0].with_name(records[0].name.removesuffix(".gz")).with_suffix(".html")
    keep_apart({"--html": target, **{f"--{name}": also for name, also in wanted.items()}}, records)
    files = {path: read_records(path) for path in records}
    read = [run for runs in files.values() for run in runs]
    write_page(read, target)
    for path, runs in files.items():
        tell_interrupted(path, runs)
    click.echo(f"page: {target}")
    for name, also in wanted.items():
        if also is not None:
            _WRITERS[name](read, also)
            click.echo(f"{name}: {also}")
    if table:
        _print_table(read[0])


def _draw(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.drawing import write_picture  # noqa: PLC0415  (weight: Jinja2)

    write_picture(records[0], path)


def _write_junit(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.junit import write_junit  # noqa: PLC0415  (weight: Jinja2)

    write_junit(records, path)


def _write_audit(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.audit.markdown import write_audit_text  # noqa: PLC0415  (weight: Jinja2)

    write_audit_text(records, path)


def _write_known(records: list[RunRecord], path: Path) -> None:
    for record in records:
        if why := unfit(path, record.outcomes, is_whole=not record.interrupted):
            raise UsageError(f"the baseline was not written, since {why}.", where=Place(str(path)))
        write_baseline(path, record.outcomes, strict=record.header.strict)


_WRITERS: Mapping[str, Callable[[list[RunRecord], Path], None]] = {
    "baseline": _write_known, "junit": _write_junit, "markdown": _write_audit, "picture": _draw}


def _print_table(record: RunRecord) -> None:
    from attnspec.report.power_view import markdown_table  # noqa: PLC0415  (weight: Jinja2)

    click.echo(f"\n{markdown_table(visible(record))}", nl=False)
