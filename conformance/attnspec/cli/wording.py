"""How the console puts counts, verdicts and runs into words and colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import click

from attnspec.cli.digest import ALARMING
from attnspec.ground.nouns import Verdict
from attnspec.record.events import RunStarted
from attnspec.record.probed import SubjectProbed

COLOURS: Mapping[Verdict, str] = {
    Verdict.HELD: "green", Verdict.VIOLATED: "red", Verdict.ERRORED: "red", Verdict.CRASHED: "red",
    Verdict.TIMED_OUT: "red", Verdict.UNEXPECTED: "red", Verdict.NOT_RUN: "yellow", Verdict.NO_CLAIM: "bright_black",
    Verdict.INAPPLICABLE: "bright_black", Verdict.EXPECTED: "cyan",
}


def verdict_words(verdict: Verdict) -> str:
    """`timed out`."""
    return verdict.value.replace("_", " ")


def counted(counts: Counter[Verdict]) -> str:
    """`61 held, 2 violated, 20 inapplicable`, in the order of the enumeration, in colour."""
    met = [verdict for verdict in Verdict if counts[verdict]]
    return ", ".join(_coloured(f"{counts[verdict]} {verdict_words(verdict)}", verdict) for verdict in met) or "nothing"


def _coloured(text: str, verdict: Verdict) -> str:
    return click.style(text, fg=COLOURS[verdict], bold=verdict in ALARMING)


def named(probed: SubjectProbed) -> str:
    """`torch/mha [averaged], float32`."""
    variant = f" [{probed.variant}]" if probed.variant else ""
    return f"{probed.subject}{variant}, {probed.dtype.value}"


def plural(number: int, noun: str) -> str:
    """`1 item`, `3 items`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def opening(header: RunStarted) -> str:
    """What a run is, in one line."""
    environment = header.environment
    return (f"attnspec {environment['attnspec']}, spec {header.spec_version} ({header.spec_digest[:8]}): "
            f"{plural(header.items, 'item')} of {plural(len(header.planned), 'subject')}, {', '.join(header.dtypes)}; "
            f"effort {header.effort}, seed {header.seed}, {plural(int(environment['workers']), 'worker')}")
