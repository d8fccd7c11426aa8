"""Pictures that stand alone, as SVG: for a README, a slide, a thread."""

from __future__ import annotations

from pathlib import Path

from attnspec.core.errors import UsageError
from attnspec.core.paths import write_whole
from attnspec.core.texts import count_noun
from attnspec.record.read import RunRecord, show_hidden

from evaluation.report.false_alarms import campaign
from evaluation.report.page import templates
from evaluation.report.power_view import Power, power


def write_picture(record: RunRecord, path: Path) -> None:
    """Draw what the record measured, power or a campaign for false alarms. Raises UsageError where it is neither."""
    if not record.puts and not record.blocks:
        raise UsageError("the record holds verdicts; pictures are drawn of power and of campaigns for false alarms.")
    record = show_hidden(record)
    (write_power_picture if record.puts else write_campaign_picture)(record, path)


def write_power_picture(record: RunRecord, path: Path) -> None:
    """Draw how much each rule convicts against the number of cases. Raises UsageError where no power was measured."""
    measured = power([record])
    if measured is None or measured.suite is None:
        raise UsageError("the record holds no measurement of power, so there is nothing to draw.")
    _write("power.svg", path, power=measured, subtitle=_subtitle(record, measured))


def write_campaign_picture(record: RunRecord, path: Path) -> None:
    """Draw how close sound implementations came to being accused. Raises UsageError where none was judged."""
    tried = campaign([record])
    if tried is None:
        raise UsageError("the record holds no campaign for false alarms, so there is nothing to draw.")
    _write("campaign.svg", path, campaign=tried)


def _subtitle(record: RunRecord, measured: Power) -> str:
    listed = ", ".join(dtype.value for dtype in measured.dtypes)
    faults, seeds = count_noun(measured.faults, "wrong implementation"), count_noun(measured.seeds, "seed")
    return f"{faults} at {listed}; {seeds}, effort {record.header.effort}. Sound: implementations × dtypes."


def _write(template: str, path: Path, **told: object) -> None:
    write_whole(path, templates().get_template(template).render(**told), "picture")
