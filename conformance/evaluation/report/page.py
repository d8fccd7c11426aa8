"""The page of a measurement of power or of a campaign: attnspec's page, with a section for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from attnspec.core.paths import write_whole
from attnspec.record.read import RunRecord
from attnspec.report import page
from attnspec.report.sections import PageSection
from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup

from evaluation.report.false_alarms import campaign
from evaluation.report.power_figures import percent
from evaluation.report.power_view import is_of_power, power

FOLDER = Path(__file__).parents[1] / "page"
"""Where the templates of this package lie."""

POWER_EXITS = {
    0: "no false alarm, and no less power than the earlier record, if one was given",
    1: "power fell, or there is a false alarm",
    2: "not known: interrupted, or a part of the run was lost",
}
CAMPAIGN_EXITS = {0: "no false alarm", 1: "a false alarm", 2: "not all cases were judged"}


def write_page(records: Sequence[RunRecord], path: Path) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    write_whole(path, render(records), "page")


def render(records: Sequence[RunRecord]) -> str:
    """The page as one HTML document; verdicts that the records hold as well are on it, too."""
    return page.render_page(records, further=(power_section, campaign_section))


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The environment of attnspec's page, which finds the templates of this package, too."""
    shared = page.page_environment()
    assert shared.loader is not None  # attnspec's page is made of files
    environment = shared.overlay(loader=ChoiceLoader([FileSystemLoader(FOLDER), shared.loader]))
    environment.filters = {**shared.filters, "percent": percent}
    environment.globals = {**shared.globals, "picture_css": _own_file("picture.css")}
    return environment


def _own_file(name: str) -> Markup:
    """A file of this package, inlined as it is."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def _style() -> Markup:
    return _own_file("picture.css") + _own_file("sections.css")


def power_section(records: Sequence[RunRecord]) -> PageSection | None:
    """The power that all records together measured; None where none measures any."""
    measured = power(records)
    if measured is None:
        return None
    html = templates().get_template("power.html").render(power=measured)
    return PageSection("Power", "power", measured.headline, measured.css, Markup(html), POWER_EXITS, is_of_power,
                       _style())


def campaign_section(records: Sequence[RunRecord]) -> PageSection | None:
    """The campaign that all records together are; None where none is one."""
    tried = campaign(records)
    if tried is None:
        return None
    html = templates().get_template("campaign.html").render(campaign=tried)
    return PageSection("False alarms", "campaign", tried.headline, tried.css, Markup(html), CAMPAIGN_EXITS,
                       lambda record: bool(record.blocks), _style())
