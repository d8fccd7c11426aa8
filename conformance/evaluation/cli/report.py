"""`report`: the page, the picture and the table of a measurement of power or of a campaign."""

from __future__ import annotations

from pathlib import Path

import click
from attnspec.cli.options import keep_apart
from attnspec.cli.report import tell_interrupted
from attnspec.core.errors import CONFORMS
from attnspec.record.read import RunRecord, read_records, show_hidden, unpacked_name


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path))
@click.option("-o", "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="The page to write. [default: next to the first record]")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Also draw the power or the campaign of the first record as an SVG.")
@click.option("--table", is_flag=True, help="Also print the rules of a measurement of power as a table in Markdown.")
def report(records: tuple[Path, ...], html: Path | None, picture: Path | None, *, table: bool) -> int:
    """Write one page from the records of measurements of power and of campaigns; verdicts may be among them.

    Exit code: 0 written.
    """
    from evaluation.report.drawing import write_picture  # noqa: PLC0415  (weight: Jinja2)
    from evaluation.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    target = html or unpacked_name(records[0]).with_suffix(".html")
    keep_apart({"--html": target, "--picture": picture}, records)
    files = {path: read_records(path) for path in records}
    read = [run for runs in files.values() for run in runs]
    write_page(read, target)
    for path, runs in files.items():
        tell_interrupted(path, runs)
    click.echo(f"page: {target}")
    if picture:
        write_picture(read[0], picture)
        click.echo(f"picture: {picture}")
    if table:
        _print_table(read)
    return CONFORMS


def _print_table(records: list[RunRecord]) -> None:
    from evaluation.report.power_view import markdown_table  # noqa: PLC0415  (weight: Jinja2)

    click.echo(f"\n{markdown_table(*map(show_hidden, records))}", nl=False)
