"""Renders the page: templates, style and script lie in reports/page/ and end up in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnspec.ground.conventions import CONVENTIONS
from attnspec.record.read import RunRecord
from attnspec.report.audit.habits import Habits, habits
from attnspec.report.audit.view import Audit, audit, is_audit
from attnspec.report.campaign_view import Campaign, campaign
from attnspec.report.findings import findings
from attnspec.report.joined import Joined, join
from attnspec.report.known import held
from attnspec.report.ledger import themes
from attnspec.report.pictures import LEVELS
from attnspec.report.power_view import Power, power
from attnspec.report.readings import readings
from attnspec.report.signs import SIGNS
from attnspec.report.summary import LEGEND, Summary, summarise
from attnspec.report.templates import templates
from attnspec.report.trust import trust
from attnspec.report.unheard import never_decided, silences

AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key and value heads", "T": "query length", "S": "key and value length",
    "D": "head width (d_k)", "Dv": "head width of the values", "M": "model width (d_model)",
}


def write_page(records: Sequence[RunRecord], path: Path) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(records), encoding="utf-8")


def render(records: Sequence[RunRecord]) -> str:
    """The page of one or several runs as one HTML document that needs nothing else.

    It shows what the records hold: verdicts, a measurement of power, a campaign for false alarms, or several of these.
    """
    return templates().get_template("page.html").render(_view(records))


def _view(records: Sequence[RunRecord]) -> Mapping[str, object]:
    """All that the templates speak of."""
    joined = join(records)
    measured, tried = power(records), campaign(records)
    is_judged = bool(joined.outcomes) or not (measured or tried or joined.probes)
    summary = summarise(joined, strict=_is_strict(joined))
    looked = audit(joined) if is_judged and is_audit(joined) else None
    found = looked.habits if looked else habits(joined) if joined.probes else None
    return {
        "joined": joined, "strict": _is_strict(joined), "summary": summary, "environment": _environments(joined),
        "power": measured, "campaign": tried, "is_judged": is_judged, "audit": looked, "habits": found,
        "title": _audited(looked, summary) if looked else _title(summary, measured, tried, found, is_judged=is_judged),
        **(_spoken(joined) if looked else _judged(joined) if is_judged else {}),
        "held": held(joined), "conventions": CONVENTIONS, "legend": LEGEND, "axes": AXES, "levels": LEVELS,
    }


def _audited(looked: Audit, summary: Summary) -> tuple[str, str]:
    return looked.headline, "bad" if looked.unexplained or summary.interrupted else "idle"


def _judged(joined: Joined) -> Mapping[str, object]:
    """What only a page with verdicts speaks of."""
    return {
        "findings": findings(joined, strict=_is_strict(joined)), "themes": themes(joined), "trust": trust(joined),
        "readings": readings(joined), **_spoken(joined),
    }


def _spoken(joined: Joined) -> Mapping[str, object]:
    """What pages of either kind speak of where there are verdicts."""
    return {
        "silences": silences(joined), "never": never_decided(joined),
        "present": {SIGNS[outcome.verdict].word for outcome in joined.outcomes.values()},
    }


def _title(
    summary: Summary, measured: Power | None, tried: Campaign | None, found: Habits | None, *, is_judged: bool,
) -> tuple[str, str]:
    """The sentence over the page, and its colour: that of the verdicts, the power, the campaign, or the probes."""
    told = measured or tried
    if is_judged:
        return summary.title, summary.css
    if told is not None:
        return told.headline, told.css
    assert found is not None  # else it would be judged
    return found.title


def _is_strict(joined: Joined) -> bool:
    return any(run.record.header.strict for run in joined.runs)


def _environments(joined: Joined) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Rows of the environment table: a name, its value in every run, and whether the runs differ in it."""
    each = [run.record.header.environment for run in joined.runs]
    names = dict.fromkeys(name for environment in each for name in environment)
    rows = [(name, tuple(environment.get(name, "") for environment in each)) for name in names]
    return tuple((name, values, len(set(values)) > 1) for name, values in rows)
