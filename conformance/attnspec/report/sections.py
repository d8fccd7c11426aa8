"""Sections of the page for what a run measured in place of verdicts: a ranking, and what the suite's makers measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from attnspec.core.errors import UsageError
from attnspec.record.read import RunRecord


@dataclass(frozen=True, slots=True)
class PageSection:
    """One section, drawn already.

    name: as the contents have it.  anchor: the id of its HTML.  headline, css: what it comes to, as a sentence and as
    a colour.  html, style: the section, and what it needs beside the page's own style.  exits: what the exit codes of
    such a run mean.  is_of: whether a record is of such a run.
    """

    name: str
    anchor: str
    headline: str
    css: str
    html: Markup
    exits: Mapping[int, str]
    is_of: Callable[[RunRecord], bool]
    style: Markup = Markup()  # noqa: RUF009  (a string, which nothing changes)


SectionMaker: TypeAlias = Callable[[Sequence[RunRecord]], PageSection | None]
"""Makes the section of all records together; None where none of them has anything for it."""


def check_shown(records: Iterable[RunRecord], sections: Iterable[PageSection] = (), *,
                way: str = "In a checkout: python -m evaluation report RECORD") -> None:
    """Raise UsageError for a record of which no section shows what it measured. way: how the user gets a page of it."""
    shown = tuple(sections)
    for record in records:
        if record.measures_attnspec and not any(section.is_of(record) for section in shown):
            raise UsageError(
                "a record measures attnspec itself, its power or its false alarms, and the installed package makes no "
                f"page of that. {way}")
