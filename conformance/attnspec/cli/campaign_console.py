"""A campaign on the console: how far it is, and at its end a line a row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

import click

from attnspec.campaign.known import KNOWN
from attnspec.cli.running_line import RunningLine
from attnspec.cli.wording import plural
from attnspec.ground.exits import CONFORMS, VIOLATED
from attnspec.record.campaign import BlockJudged
from attnspec.record.events import Event
from attnspec.report.campaign_figures import Margins, margins


class Counting:
    """A handler that tells how many cases there are so far; it lives through all rounds of a command."""

    def __init__(self, stream: TextIO, wanted: int, kept: Sequence[BlockJudged]) -> None:
        self._line, self._wanted = RunningLine(stream), wanted
        self._cases = self._before = sum(block.cases for block in kept)
        self._accused = sum(block.violations for block in kept)
        self._began = time.monotonic()

    def start(self) -> None:
        """Say where the campaign stands."""
        self._tell()

    def handle(self, event: Event) -> None:
        """Count a block; a violation or a loss is told at once."""
        if not isinstance(event, BlockJudged):
            return
        self._cases += event.cases
        self._accused += event.violations
        for line in alarms(event):
            self._line.say(click.style(line, fg="red"))
        if self._line.is_due:
            self._tell()

    def shutdown(self) -> None:
        """The last word of a round."""
        self._tell()
        self._line.keep()

    def _tell(self) -> None:
        new, seconds = self._cases - self._before, time.monotonic() - self._began
        pace = f", {1000 * seconds / new:.2f} ms a case" if new else ""
        self._line.tell(f"{self._cases:,} of {self._wanted:,} cases, {plural(self._accused, 'violation')}{pace}")


def alarms(block: BlockJudged) -> Iterator[str]:
    """What is told of a block at once: lines to replay, and at which case the process died."""
    yield from (f"violated: attnspec replay '{line}'" for line in block.accused)
    if block.lost and block.violations:
        yield f"died: {block.subject} {block.dtype.value} {block.part}: {block.lost}"


def table(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    """A line a row, the totals, and the findings that were known."""
    rows = margins(blocks)
    width = max((len(row.subject) for row in rows), default=0)
    yield f"{'subject':<{width}}  {'dtype':<8}  {'cases':>9}  {'slices':>10}  violations  worst margin"
    for row in rows:
        closest = f"{row.margin:>12.4f}  {row.clause}" if row.worst else f"{'none':>12}"
        yield (f"{row.subject:<{width}}  {row.dtype.value:<8}  {row.cases:>9,}  {row.slices:>10,}  "
               f"{row.violations:>10}  {closest}")
    yield _totals(rows)
    yield from _accused(rows)
    yield from _lost(blocks)
    yield from _known(blocks)


def _totals(rows: Sequence[Margins]) -> str:
    subjects = len({row.subject for row in rows})
    return (f"{sum(row.cases for row in rows):,} cases of {plural(subjects, 'subject')} in {plural(len(rows), 'row')}, "
            f"{sum(row.slices for row in rows):,} head slices: "
            f"{plural(sum(row.violations for row in rows), 'violation')}; no claim on "
            f"{sum(row.no_claims for row in rows):,} further problems.")


def _accused(rows: Sequence[Margins]) -> Iterator[str]:
    for row in rows:
        yield from (click.style(f"violated: attnspec replay '{line}'", fg="red") for line in row.accused)


def _lost(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    for reason, count in Counter(block.lost for block in blocks if block.lost).items():
        first = next(block for block in blocks if block.lost == reason)
        more = f" and {plural(count - 1, 'block')} more" if count > 1 else ""
        yield f"not judged: {first.subject} {first.dtype.value} {first.part}{more}: {reason}"


def _known(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    for finding in KNOWN:
        met = {block.subject: 0 for block in blocks if finding.name in block.known}
        for block in blocks:
            if block.subject in met:
                met[block.subject] += block.known.get(finding.name, 0)
        if met:
            where = ", ".join(f"{plural(count, 'case')} of {subject}" for subject, count in met.items())
            yield f"known finding, neither held nor a violation: {finding.name} ({where}). {finding.story}"


def verdict(code: int, cases: int, wanted: int) -> str:
    """What the campaign comes to, in one line."""
    if code == VIOLATED:
        return "A sound implementation was accused: the suite is wrong there, or the implementation. (exit code 1)"
    if code == CONFORMS:
        return f"Nobody was accused in {cases:,} cases. (exit code 0)"
    return (f"{cases:,} of {wanted:,} cases were judged. The same command goes on where this one stopped. "
            "(exit code 2)")
