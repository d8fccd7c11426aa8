"""The end of a run on the console: what it comes to and why, what matters most of it, and what it comes to again."""

from __future__ import annotations

import enum
import math
import shutil
from collections.abc import Iterator, Sequence
from typing import TextIO

import click

from attnspec.cli import findings, unjudged
from attnspec.cli.conclusion import conclusion, remedy, standing, verdict
from attnspec.cli.digest import Digest
from attnspec.cli.known import held_against
from attnspec.cli.wording import counted, named, plural
from attnspec.ground.keywords import listed
from attnspec.record.events import Event

SHOWN = 3      # failures told in full
LINES = 40     # of the summary as a reader sees them; with what comes before it, a run stays below 45
WIDTH = 80     # characters a line where nobody knows how wide the reader's are
CHANGES = 12   # lines of what is new, mended or changed against a baseline
LISTED = 20    # answers against a manifest, and probes that were lost, that are listed


class Detail(enum.Enum):
    """How much is told: what fits a screen, or everything."""

    SHORT = "short"
    FULL = "full"


class Verdicts:
    """A handler that speaks when the run is over. `places` are lines that say where record and page lie."""

    def __init__(self, stream: TextIO, *, is_coloured: bool, places: Sequence[str] = (),
                 detail: Detail = Detail.SHORT) -> None:
        self._stream, self._is_coloured, self._places, self._detail = stream, is_coloured, places, detail
        self._digest = Digest()

    def start(self) -> None:
        """Nothing to open."""

    def handle(self, event: Event) -> None:
        """Add up."""
        self._digest.add(event)

    def shutdown(self) -> None:
        """Print the summary, if the run came to an end (interrupted ones do, too)."""
        if self._digest.footer is not None:
            width = shutil.get_terminal_size().columns if self._stream.isatty() else WIDTH
            for line in summary(self._digest, self._places, self._detail, width):
                click.echo(line, file=self._stream, color=self._is_coloured)


def summary(digest: Digest, places: Sequence[str], detail: Detail = Detail.SHORT, width: int = WIDTH) -> list[str]:
    """The lines. In short as many failures in full as there is room for, at most SHOWN and at least one."""
    if detail is Detail.FULL:
        return [*_head(digest), *findings.everything(digest), *_contradictions(digest),
                *_paragraph(unjudged.in_full(digest)), *_paragraph(held_against(digest)), "", *places,
                conclusion(digest)]
    ranked = findings.ranked(digest)
    drafts = (_draft(digest, ranked, shown, places) for shown in range(min(SHOWN, len(ranked)), 0, -1))
    return next((draft for draft in drafts if _rows(draft, width) <= LINES), _draft(digest, ranked, 1, places))


def _draft(digest: Digest, ranked: Sequence[findings.Finding], shown: int, places: Sequence[str]) -> list[str]:
    in_full = [line for finding in ranked[:shown] for line in findings.told(digest, finding)]
    others = [*findings.named(digest, ranked[shown:]), *findings.recommendations(digest), *unjudged.in_short(digest)]
    lost = unjudged.not_run(digest)
    return [*_head(digest), *in_full, *_contradictions(digest), *_paragraph(lost), *([""] if in_full else []), *others,
            *_paragraph(held_against(digest, CHANGES)), *places, conclusion(digest)]


def _rows(lines: Sequence[str], width: int) -> int:
    return sum(max(1, math.ceil(len(click.unstyle(line)) / width)) for line in lines)


def _head(digest: Digest) -> Iterator[str]:
    """The verdict, and how each subject fared."""
    yield ""
    yield verdict(digest)
    if len(digest.subjects) == 1:
        yield from remedy(digest)
        yield from (f"{subject}: {counted(counts)}" for subject, counts in digest.counts.items())
    else:
        width = max(map(len, digest.subjects), default=0)
        yield from (f"{subject:<{width}}  {standing(digest.of(subject))}" for subject in digest.subjects)
    for subject, known in digest.cards.items():
        left = listed(known.card.defaults)
        yield from ([f"left at their defaults{_of(subject, digest)}: {left}"] if left else [])


def _of(subject: str, digest: Digest) -> str:
    return f" in {subject}" if len(digest.subjects) > 1 else ""


def _paragraph(lines: Sequence[str] | Iterator[str]) -> list[str]:
    """The lines after an empty one, if there are any."""
    told = list(lines)
    return ["", *told] if told else []


def _contradictions(digest: Digest) -> Iterator[str]:
    """What probes found against what is claimed, and what could not be probed."""
    against, lost = digest.contradictions, [probe for probe in digest.probes if probe.lost]
    if against:
        yield ""
        yield "Not as the manifest claims:"
        yield from (f"  {named(probe)}: {found.question} {found.answer}, not {found.claimed}"
                    for probe, found in against[:LISTED])
        if len(against) > LISTED:
            yield f"  and {plural(len(against) - LISTED, 'answer')} more, in the record"
    if lost:
        yield ""
        yield from (f"Not probed: {named(probe)}: {probe.lost}" for probe in lost[:LISTED])
