"""A comparison of two runs in Markdown, as one pastes it into a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnspec.core.files import write_whole
from attnspec.report.comparison import ROUNDING, RunComparison
from attnspec.report.figures import counted, figure
from attnspec.report.known import KnownGroup
from attnspec.report.markdown import code, plain, row


def write_comparison(compared: RunComparison, path: Path) -> None:
    """Write the comparison to `path`, making its folder."""
    write_whole(path, comparison_text(compared), "comparison")


def comparison_text(compared: RunComparison) -> str:
    """What became of the old run's verdicts, group by group. Ends its line."""
    return "\n".join(_lines(compared)).rstrip("\n") + "\n"


def _lines(compared: RunComparison) -> Iterator[str]:
    yield from (f"## Against the earlier run: {compared.headline}", "")
    yield from (f"- {plain(note)}" for note in compared.notes)
    yield from ([""] if compared.notes else [])
    if compared.differences:
        yield from (row(["the runs differ in", "earlier", "this run"]), row(["---"] * 3))
        yield from (row([plain(each.name), plain(each.old), plain(each.new)]) for each in compared.differences)
        yield ""
    for group in compared.groups:
        yield from _group(group)
    yield (f"An item is a clause at one dtype. A margin has changed if it moved by more than {figure(ROUNDING)}, "
           "because rounding alone can move it by that much.")


def _group(group: KnownGroup) -> Iterator[str]:
    name = group.name.capitalize()
    yield from (f"### {name}: {counted(group.items, 'item')}", "")
    yield from (row(["implementation", "clause", "level", "dtypes", ""]), row(["---"] * 5))
    for each in group.entries:
        yield row([code(each.subject), code(each.clause.id), each.clause.level.value, each.dtypes, plain(each.says)])
    yield ""
