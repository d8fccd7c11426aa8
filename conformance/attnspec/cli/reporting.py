"""`report`: records to a page."""

from __future__ import annotations

from pathlib import Path

import click

from attnspec.record.read import read_record


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Where. [default: beside the first record]")
def report(records: tuple[Path, ...], html: Path | None) -> None:
    """Write one page from the records of one or several runs."""
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    read = [read_record(path) for path in records]
    target = html or records[0].with_suffix(".html")
    write_page(read, target)
    for path, record in zip(records, read, strict=True):
        if record.interrupted:
            known = f"{record.done} of {record.header.items} items"
            click.echo(f"{path}: the run was interrupted; {known} are known")
    click.echo(f"page: {target}")
