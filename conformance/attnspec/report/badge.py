"""A badge of the verdict: the JSON that shields.io draws as its endpoint badge (https://shields.io/badges/endpoint-badge)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnspec.core.files import write_whole
from attnspec.core.nouns import Verdict
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord
from attnspec.record.visible import visible
from attnspec.report.joined import join
from attnspec.report.summary import summarise

_COLOURS: Mapping[str, str] = {"good": "brightgreen", "bad": "red", "idle": "lightgrey"}
_WITH_FAILURES = "yellow"
"""Of what conforms but for failures that are known, or that its list could not know."""


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs to `path`, making its folder."""
    write_whole(path, json.dumps(badge(records), ensure_ascii=False) + "\n", "badge")


def badge(records: Sequence[RunRecord]) -> Mapping[str, str | int]:
    """The verdict in the fields that shields.io reads: the title of the page, of one implementation without its id."""
    joined = join(visible(records))
    found = summarise(joined, strict=joined.is_strict)
    is_alone = len(found.standings) == 1 and not found.interrupted
    message = found.standings[0].word if is_alone else found.title
    has_failures = found.css == "good" and any(map(_is_excused, joined.outcomes.values()))
    colour = _WITH_FAILURES if has_failures else _COLOURS[found.css]
    return {"schemaVersion": 1, "label": "attention", "message": message, "color": colour}


def _is_excused(outcome: Outcome) -> bool:
    """Whether it fails, and a list of known failures is why it does not gate."""
    return outcome.verdict is Verdict.EXPECTED or outcome.is_excused
