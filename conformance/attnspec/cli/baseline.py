"""`--baseline`: keeps a file of known failures, and compares runs with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import click

from attnspec.cli.digest import Digest, name_few
from attnspec.cli.options import Given
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, Novelty, Verdict
from attnspec.core.texts import count_noun
from attnspec.record.events import Event, Handler, ItemFinished, RunFinished, RunStarted
from attnspec.record.outcome import Outcome
from attnspec.report.comparison import is_gone
from attnspec.runner.jobs import is_idle
from attnspec.subjects.baseline import DIGEST_DIGITS, Conditions, read_conventions, write_baseline

_SHOWN_NOVELTIES = (Novelty.REGRESSION, Novelty.NEW, Novelty.CHANGED, Novelty.UNTRIED,
                    Novelty.DEEPER, Novelty.MENDED)
"""The order of changes: what may be worse comes first, because a list may be cut."""
UPDATE_OPTION = "--update-baseline"
_NAMES_WIDTH = 60  # characters of a list of subjects
_COLOURS = {Novelty.NEW: "red", Novelty.REGRESSION: "red", Novelty.MENDED: "green"}


def held_against(digest: Digest, most: int = 0) -> Iterator[str]:
    """Compares the run with its list of known failures, a line a change; nothing without a list.
    most: how many changes are shown; 0: all.
    """
    baseline = digest.header.baseline if digest.header else ""
    if not baseline:
        return
    changes = list(_format_outcome_lines(digest.outcomes))
    shown = changes[:most] if most else changes
    comparison = _format_baseline_changes(digest.outcomes, is_changed=bool(changes))
    yield f"Held against {baseline}: {comparison}."
    yield from shown
    if len(changes) > len(shown):
        yield f"  and {count_noun(len(changes) - len(shown), 'change')} more (-v shows them)"
    command = digest.header.command if digest.header else ()
    if changes and UPDATE_OPTION not in command:
        yield "  If a change is intended, run with --update-baseline and review the difference of the list."


def format_gone(digest: Digest) -> str:
    """`2 known failures (1 mended, 1 changed), 1 convention (causal_alignment)`, or nothing. These
    are listed failures that are none any more, and conventions that have changed.
    """
    changes = [each.change for each in digest.outcomes
               if each.change and is_gone(each) and digest.gates(each)]
    counts = Counter(each.novelty for each in changes if not each.convention)
    conventions = dict.fromkeys(each.convention for each in changes if each.convention)
    parts = []
    if counts:
        detail = ", ".join(f"{counts[each]} {each.value}" for each in Novelty if counts[each])
        parts.append(f"{count_noun(counts.total(), 'known failure')} ({detail})")
    if conventions:
        parts.append(f"{count_noun(len(conventions), 'convention')} ({', '.join(conventions)})")
    return ", ".join(parts)


def _format_baseline_changes(outcomes: Sequence[Outcome], *, is_changed: bool) -> str:
    if is_idle(outcomes):
        return "nothing was judged, so nothing could be compared"
    known = _format_known_failures(outcomes)
    if lost := sum(each.verdict is Verdict.NOT_RUN for each in outcomes):
        return f"{known}; {count_noun(lost, 'item')} could not be judged"
    return known if is_changed else f"{known}, nothing new"


def _format_known_failures(outcomes: Sequence[Outcome]) -> str:
    """`3 known failures as listed (2 torch/this, 1 without a finding)`."""
    known = [each.finding for each in outcomes if each.verdict is Verdict.EXPECTED]
    if not known and any(each.change and is_gone(each) for each in outcomes):
        return "no known failure fails as listed"
    if not known:
        return "no known failure"
    text = f"{count_noun(len(known), 'known failure')} as listed"
    if any(known):
        detail = ", ".join(f"{number} {finding or 'without a finding'}"
                           for finding, number in Counter(known).most_common())
        text += f" ({detail})"
    return text


def _format_outcome_lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yields a line for each subject, clause and change; what may be worse comes first."""
    changed = sorted((each for each in outcomes if each.change), key=_outcome_key)
    for (number, subject, clause, says), group in groupby(changed, key=_outcome_key):
        novelty = _SHOWN_NOVELTIES[number]
        kind = click.style(novelty.value, fg=_COLOURS.get(novelty, "yellow"), bold=True)
        dtypes = ", ".join(each.dtype.value for each in group)
        yield f"  {kind}: {subject} {clause} ({dtypes}) {says}"


def _outcome_key(outcome: Outcome) -> tuple[int, str, str, str]:
    assert outcome.change is not None  # the others were left out
    return (_SHOWN_NOVELTIES.index(outcome.change.novelty), outcome.subject, outcome.clause,
            outcome.change.says)


BASELINE = click.option("--baseline", metavar="PATH",
                        type=click.Path(dir_okay=False, path_type=Path),
                        help="A list of known failures: only what differs from it fails. "
                             "The first run writes it.")
UPDATE = click.option(UPDATE_OPTION, is_flag=True,
                      help="Write what this run finds into the baseline.")


@dataclass(frozen=True, slots=True)
class BaselineFile:
    """The file of known failures, and whether this run writes it.

    A file that exists is heeded even by a run that writes it: the cases that it records are tried
    first, so an update loses no failure only because it did not come across it.
    """

    path: Path | None
    is_written: bool

    @classmethod
    def from_options(cls, options: dict[str, Given]) -> BaselineFile:
        """Takes its two options out of the others. Raises UsageError if they do not fit."""
        path, update = options.pop("baseline"), options.pop("update_baseline")
        if update and path is None:
            raise UsageError("--update-baseline needs to know which: --baseline PATH.")
        if path and str(path).startswith("--"):
            raise UsageError(f"--baseline needs a path; {path} is the next option.")
        return cls(path, is_written=path is not None and (update or not path.exists()))

    @property
    def heeded_file(self) -> str:
        """The path of the file if it exists, else empty."""
        if self.path and self.path.exists():
            return str(self.path.absolute())
        return ""

    def handlers(self, *, strict: bool, folders: Sequence[str]) -> Sequence[Handler]:
        """The handler that writes the file, if this run does. folders: further implementations,
        whose findings explain failures.
        """
        if self.path and self.is_written:
            return [_Writer(self.path, strict, folders)]
        return []


@dataclass(slots=True)
class _Writer(Handler):
    """A handler that writes the list of known failures once the run is over."""

    path: Path
    strict: bool
    folders: Sequence[str]
    _outcomes: list[Outcome] = field(default_factory=list)
    _conditions: Conditions | None = None
    _is_whole: bool = False

    def handle(self, event: Event) -> None:
        """Collects the outcomes, the conditions of the run, and whether it was finished."""
        match event:
            case RunStarted():
                self._conditions = conditions_of(event)
            case ItemFinished(outcome=outcome):
                self._outcomes.append(outcome)
            case RunFinished(interrupted=interrupted):
                self._is_whole = not interrupted

    def shutdown(self) -> None:
        """Writes the file, unless the run was interrupted or judged nothing."""
        if why := why_no_baseline(self.path, self._outcomes, is_whole=self._is_whole):
            click.echo(f"baseline: {self.path} was not written, since {why}", err=True)
            return
        known = write_baseline(self.path, self._outcomes, strict=self.strict, folders=self.folders,
                               conditions=self._conditions)
        text = f"baseline: wrote {self.path} with {count_noun(len(known), 'known failure')}"
        unexplained = sum(not each.finding for each in known)
        if 0 < unexplained < len(known):
            text += f", {unexplained} of them without a finding"
        if lost := _count_lost_items(self._outcomes):
            text += f". Not judged, so left as before: {lost}"
        text += _format_kept_entries(self.path, self._outcomes)
        click.echo(f"{text}. Commit it: from now on the gate fails only where something changes",
                   err=True)


def conditions_of(header: RunStarted) -> Conditions | None:
    """The conditions of a run, from its header; None if it does not say them."""
    version = header.environment.get("attnspec", "")
    efforts = {each.value for each in Effort}
    if not version or not header.spec_digest or header.effort not in efforts:
        return None
    return Conditions(version, header.spec_digest[:DIGEST_DIGITS], Effort(header.effort),
                      header.seed, header.strict)


def why_no_baseline(path: Path, outcomes: Sequence[Outcome], *, is_whole: bool) -> str:
    """Why no list can be made of a run; empty if one can. An existing file keeps its entries for
    what was not judged now.
    """
    if not is_whole:
        return "the run was interrupted"
    if is_idle(outcomes):
        return "nothing was judged"
    lost = _count_lost_items(outcomes)
    if lost and not path.exists():
        return f"{lost} could not be judged: fix that, and run it again"
    return ""


def _format_kept_entries(path: Path, outcomes: Iterable[Outcome]) -> str:
    """Says at which dtypes the listed conventions were not probed in this run; may be empty. A run
    at a glance probes the first dtype only.
    """
    probed = {(each.subject, each.dtype) for each in outcomes if each.probed}
    subjects = {subject for subject, _ in probed}
    left = {dtype for each in read_conventions(path) if each.subject in subjects
            for dtype in each.dtypes if (each.subject, dtype) not in probed}
    names = ", ".join(dtype.value for dtype in DType if dtype in left)
    if names:
        return f". Conventions at {names} were not probed in this run, so left as before"
    return ""


def _count_lost_items(outcomes: Iterable[Outcome]) -> str:
    """`4 items of mine:attend`: what was not run; empty if all was run."""
    lost = Counter(each.subject for each in outcomes if each.verdict is Verdict.NOT_RUN)
    if lost:
        return f"{count_noun(lost.total(), 'item')} of {name_few(list(lost), _NAMES_WIDTH)}"
    return ""
