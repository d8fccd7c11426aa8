"""The end of a run on the console: counts, every violated clause, what was not judged, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

import click

from attnspec.cli.digest import ALARMING, Digest
from attnspec.cli.known import but_for, held_against, is_otherwise, otherwise
from attnspec.cli.wording import counted, named, plural, verdict_words
from attnspec.ground.exits import CONFORMS, VIOLATED
from attnspec.ground.nouns import Level, Verdict
from attnspec.record.events import Event
from attnspec.record.outcome import Outcome
from attnspec.runner.tally import idle
from attnspec.runner.texts import violation

FULL = 20      # violations told in full; the rest in one line each
REASONS = 12   # reasons for not judging that are listed
_UNJUDGED = (Verdict.NOT_RUN, Verdict.NO_CLAIM, Verdict.INAPPLICABLE)


class Verdicts:
    """A handler that speaks when the run is over. `places` are lines that say where record and page lie."""

    def __init__(self, stream: TextIO, *, is_coloured: bool, places: Sequence[str] = ()) -> None:
        self._stream, self._is_coloured, self._places = stream, is_coloured, places
        self._digest = Digest()

    def start(self) -> None:
        """Nothing to open."""

    def handle(self, event: Event) -> None:
        """Add up."""
        self._digest.add(event)

    def shutdown(self) -> None:
        """Print the summary, if the run came to an end (interrupted ones do, too)."""
        if self._digest.footer is not None:
            for line in summary(self._digest, self._places):
                click.echo(line, file=self._stream, color=self._is_coloured)


def summary(digest: Digest, places: Sequence[str]) -> Iterator[str]:
    """The lines."""
    if len(digest.counts) > 1:
        yield ""
        width = max(map(len, digest.counts))
        yield from (f"{subject:<{width}}  {counted(counts)}" for subject, counts in digest.counts.items())
    yield from _violations(digest)
    yield from _contradictions(digest)
    yield from _unjudged(digest.outcomes)
    yield from held_against(digest)
    yield ""
    yield from places
    yield conclusion(digest)


def _violations(digest: Digest) -> Iterator[str]:
    alarming = sorted((outcome for outcome in digest.outcomes if outcome.verdict in ALARMING),
                      key=lambda each: (not digest.gates(each), *_key(each)[:2]))
    groups = [list(group) for _, group in groupby(alarming, key=_key)]
    for group in groups[:FULL]:
        yield from _told(digest, group)
    if len(groups) > FULL:
        yield ""
        yield from (f"{subject}: {clause} {verdict_words(verdict)}"
                    for subject, clause, verdict in map(_key, (group[0] for group in groups[FULL:])))


def _key(outcome: Outcome) -> tuple[str, str, Verdict]:
    return outcome.subject, outcome.clause, outcome.verdict


def _told(digest: Digest, group: list[Outcome]) -> Iterator[str]:
    """The first in full, with the other dtypes that fare alike."""
    first, *others = group
    clause = digest.clause(first.clause)
    text = violation(first, says=str(clause.get("says", "")), where=str(clause.get("where", "")))
    head, _, rest = text.partition("\n")
    level = "" if first.level is Level.MUST else f" [{first.level.value}]"
    yield ""
    yield click.style(head + level, fg="red" if digest.gates(first) else "yellow", bold=True)
    yield rest
    if others:
        yield f"  also: {', '.join(outcome.dtype.value for outcome in others)}"


def _unjudged(outcomes: Sequence[Outcome]) -> Iterator[str]:
    found = Counter((each.verdict, each.reason) for each in outcomes if each.verdict in _UNJUDGED)
    if not found:
        return
    yield ""
    yield "Not judged:"
    ranked = sorted(found, key=lambda key: (_UNJUDGED.index(key[0]), -found[key], key[1]))
    for verdict, reason in ranked[:REASONS]:
        whom = dict.fromkeys(each.subject for each in outcomes if (each.verdict, each.reason) == (verdict, reason))
        why = f"{verdict_words(verdict)}: {reason or 'no reason was given'}"
        yield f"  {found[verdict, reason]:>4} {why} ({_few(list(whom))})"
    if len(ranked) > REASONS:
        yield f"       and {plural(len(ranked) - REASONS, 'further reason')}, in the record"


def _contradictions(digest: Digest) -> Iterator[str]:
    """What probes found against what is claimed, and what could not be probed."""
    against, lost = digest.contradictions, [probe for probe in digest.probes if probe.lost]
    if against:
        yield ""
        yield "Not as the manifest claims:"
        yield from (f"  {named(probe)}: {found.question} {found.answer}, not {found.claimed}"
                    for probe, found in against[:FULL])
        if len(against) > FULL:
            yield f"  and {plural(len(against) - FULL, 'answer')} more, in the record"
    if lost:
        yield ""
        yield from (f"Not probed: {named(probe)}: {probe.lost}" for probe in lost[:REASONS])


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _faults(digest: Digest, gating: set[tuple[str, str]]) -> Iterator[str]:
    if gating:
        subjects = dict.fromkeys(subject for subject, _ in gating)
        yield f"{plural(len(gating), 'clause')} not met by {_few(list(subjects))}"
    yield from otherwise(digest)
    if against := digest.contradictions:
        whom = _few(list(dict.fromkeys(probe.subject for probe, _ in against)))
        yield f"{plural(len(against), 'answer')} of {whom} not as the manifest claims"


def conclusion(digest: Digest) -> str:
    """What the run comes to, with the exit code."""
    footer = digest.footer
    if footer is None or footer.interrupted:
        return "Interrupted: what is missing was not run. (exit code 2)"
    gating = {(each.subject, each.clause) for each in digest.outcomes if digest.gates(each) and not is_otherwise(each)}
    if footer.exit_code == VIOLATED:
        return f"Does not conform: {' and '.join(_faults(digest, gating))}. (exit code 1)"
    if footer.exit_code == CONFORMS:
        return f"Conforms{but_for(digest)}. (exit code 0)"
    what = "Nothing was executed" if idle(digest.outcomes) else "Not everything was run"
    return f"{what}, so this run says nothing. (exit code 2)" if idle(digest.outcomes) else f"{what}. (exit code 2)"
