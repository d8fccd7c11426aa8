"""A measurement of power as a table in Markdown: for a README, held to the record by a test."""

from __future__ import annotations

from collections.abc import Sequence

from attnspec.ground.nouns import DType
from attnspec.record.read import RunRecord
from attnspec.report.figures import percent
from attnspec.report.power_figures import Group, Share
from attnspec.report.power_view import RuleRow, power
from attnspec.report.texts import web_address


def markdown_table(record: RunRecord) -> str:
    """One row a rule: the share of faults that it convicts at each dtype, how soon, and whom it accuses. Ends its line.

    Without a measurement of power it is empty.
    """
    measured = power([record])
    if measured is None or not measured.rows:
        return ""
    return "".join((_head(measured.dtypes), *map(_row, measured.rows)))


def _head(dtypes: Sequence[DType]) -> str:
    names = ("convicted by", *(dtype.value for dtype in dtypes), "cases: median, 95 %, worst", "sound ones accused")
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"


def _row(row: RuleRow) -> str:
    cells = (_title(row), *map(_share, row.shares), ", ".join(map(str, row.cases)), _accused(row.accused))
    return f"| {' | '.join(cells)} |\n"


def _title(row: RuleRow) -> str:
    title = row.title.replace("|", "\\|").replace("[", "\\[")
    return f"[{title}]({row.source})" if web_address(row.source) else f"**{title}**"


def _share(share: Share | None) -> str:
    return percent(share.part) if share else "–"


def _accused(group: Group) -> str:
    return f"{group.convicted} of {group.tried}" if group.tried else "–"
