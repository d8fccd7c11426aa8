"""`--baseline`: what a gate knows is kept in a file, changed only on request, and a run is held against it."""

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

_ORDER = tuple(Novelty)
_SHOWN_NOVELTIES = (Novelty.REGRESSION, Novelty.NEW, Novelty.CHANGED, Novelty.UNTRIED,
                    Novelty.DEEPER, Novelty.MENDED)
"""What may be worse before what is better: a list may be cut."""
UPDATE_OPTION = "--update-baseline"
_NAMES_WIDTH = 60  # characters of a list of subjects
_COLOURS = {Novelty.NEW: "red", Novelty.REGRESSION: "red", Novelty.MENDED: "green"}


def held_against(digest: Digest, most: int = 0) -> Iterator[str]:
    """Lines that say how the run stands to its baseline, one a change; none if it was held against no baseline.

    most: tell so many changes; 0: all.  What to do is not said to whoever does it: `--update-baseline`.
    """
    baseline = digest.header.baseline if digest.header else ""
    if not baseline:
        return
    changes = list(_format_outcome_lines(digest.outcomes))
    told = changes[:most] if most else changes
    yield (f"Held against {baseline}: "
           f"{_format_baseline_changes(digest.outcomes, is_changed=bool(changes))}.")
    yield from told
    if len(changes) > len(told):
        yield f"  and {count_noun(len(changes) - len(told), 'change')} more (-v shows them)"
    command = digest.header.command if digest.header else ()
    if changes and UPDATE_OPTION not in command:
        yield "  If a change is intended, run with --update-baseline and review the difference of the list."


def format_gone(digest: Digest) -> str:
    """`2 known failures (1 mended, 1 changed), 1 convention (causal_alignment)`: those that are no failures any more,
    and what is followed otherwise; empty if there are none.
    """
    changes = [each.change
               for each in digest.outcomes if each.change and is_gone(each) and digest.gates(each)]
    found = Counter(each.novelty for each in changes if not each.convention)
    detail = ", ".join(f"{found[each]} {each.value}" for each in _ORDER if found[each])
    conventions = list(dict.fromkeys(each.convention for each in changes if each.convention))
    told = [f"{count_noun(found.total(), 'known failure')} ({detail})"] if found else []
    told += ([f"{count_noun(len(conventions), 'convention')} ({', '.join(conventions)})"]
             if conventions else [])
    return ", ".join(told)


def _format_baseline_changes(outcomes: Sequence[Outcome], *, is_changed: bool) -> str:
    """What the comparison came to; of what was not judged it says nothing."""
    if is_idle(outcomes):
        return "nothing was judged, so nothing could be compared"
    if lost := sum(each.verdict is Verdict.NOT_RUN for each in outcomes):
        return f"{_format_known_failures(outcomes)}; {count_noun(lost, 'item')} could not be judged"
    return f"{_format_known_failures(outcomes)}{'' if is_changed else ', nothing new'}"


def _format_known_failures(outcomes: Sequence[Outcome]) -> str:
    """`3 known failures as listed (2 torch/this, 1 without a finding)`; findings only where any is named."""
    known = [each.finding for each in outcomes if each.verdict is Verdict.EXPECTED]
    if not known:
        return "no known failure" + " fails as listed" * any(each.change and is_gone(each)
                                                             for each in outcomes)
    ranked = Counter(known).most_common() if any(known) else []
    detail = ", ".join(f"{number} {finding or 'without a finding'}" for finding, number in ranked)
    return f"{count_noun(len(known), 'known failure')} as listed{f' ({detail})' if detail else ''}"


def _format_outcome_lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Formats a line for a subject, a clause and what is said of it; new ones come first, mended ones last."""
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
    """The file, and whether this run writes it. One that is there is heeded all the same.

    Then the cases that it records are put first, and an update loses nothing that it would not have come across.
    """

    path: Path | None
    is_written: bool

    @classmethod
    def from_options(cls, options: dict[str, Given]) -> BaselineFile:
        """Takes its two options out of the others. Raises UsageError for an update of nothing."""
        path, update = options.pop("baseline"), options.pop("update_baseline")
        if update and path is None:
            raise UsageError("--update-baseline needs to know which: --baseline PATH.")
        if path and str(path).startswith("--"):
            raise UsageError(f"--baseline needs a path; {path} is the next option.")
        return cls(path, is_written=path is not None and (update or not path.exists()))

    @property
    def heeded_file(self) -> str:
        """The file that this run heeds; empty if none."""
        if self.path and self.path.exists():
            return str(self.path.absolute())
        return ""

    def handlers(self, *, strict: bool, folders: Sequence[str]) -> Sequence[Handler]:
        """Makes what writes the file, if this run does. `folders`: further implementations, whose findings
        explain.
        """
        if self.path and self.is_written:
            return [_Writer(self.path, strict, folders)]
        return []


@dataclass(slots=True)
class _Writer(Handler):
    """A handler."""

    path: Path
    strict: bool
    folders: Sequence[str]
    _outcomes: list[Outcome] = field(default_factory=list)
    _conditions: Conditions | None = None
    _is_whole: bool = False

    def handle(self, event: Event) -> None:
        """Keep the outcomes, what they were found under, and whether the run came to its end."""
        match event:
            case RunStarted():
                self._conditions = conditions_of(event)
            case ItemFinished(outcome=outcome):
                self._outcomes.append(outcome)
            case RunFinished(interrupted=interrupted):
                self._is_whole = not interrupted

    def shutdown(self) -> None:
        """Writes the file; not from half a run, which would make unknown what it did not reach."""
        if why := why_no_baseline(self.path, self._outcomes, is_whole=self._is_whole):
            click.echo(f"baseline: {self.path} was not written, since {why}", err=True)
            return
        known = write_baseline(self.path, self._outcomes, strict=self.strict, folders=self.folders,
                               conditions=self._conditions)
        unexplained = sum(not each.finding for each in known)
        without = (f", {unexplained} of them without a finding" if 0 < unexplained < len(known)
                   else "")
        count = _count_lost_items(self._outcomes)
        lost = f". Not judged, so left as before: {count}" if count else ""
        click.echo(f"baseline: wrote {self.path} with "
                   f"{count_noun(len(known), 'known failure')}{without}{lost}"
                   f"{_format_kept_entries(self.path, self._outcomes)}. Commit it: "
                   "from now on the gate fails "
                   "only where something changes", err=True)


def conditions_of(header: RunStarted) -> Conditions | None:
    """Reads from a header what a run was made under; None where the header does not say it."""
    version = header.environment.get("attnspec", "")
    is_known = version and header.spec_digest and header.effort in {each.value for each in Effort}
    return Conditions(version, header.spec_digest[:DIGEST_DIGITS], Effort(header.effort),
                      header.seed,
                      header.strict) if is_known else None


def why_no_baseline(path: Path, outcomes: Sequence[Outcome], *, is_whole: bool) -> str:
    """Why no baseline can come of a run; empty if one can. A file that is there keeps what was not judged now."""
    if not is_whole:
        return "the run was interrupted"
    if is_idle(outcomes):
        return "nothing was judged"
    lost = "" if path.exists() else _count_lost_items(outcomes)
    if lost:
        return f"{lost} could not be judged: fix that, and run it again"
    return ""


def _format_kept_entries(path: Path, outcomes: Iterable[Outcome]) -> str:
    """`. Conventions at float16 were not probed in this run, so left as before`; empty if all that are listed were.

    A glance probes at the first dtype alone.
    """
    probed = {(each.subject, each.dtype) for each in outcomes if each.probed}
    whom = {subject for subject, _ in probed}
    left = [dtype.value for dtype in DType for each in read_conventions(path)
            if dtype in each.dtypes and each.subject in whom and (each.subject,
                                                                  dtype) not in probed]
    names = ", ".join(dict.fromkeys(left))
    if names:
        return f". Conventions at {names} were not probed in this run, so left as before"
    return ""


def _count_lost_items(outcomes: Iterable[Outcome]) -> str:
    """`4 items of mine:attend`: what was not run; empty if nothing was left out."""
    lost = Counter(each.subject for each in outcomes if each.verdict is Verdict.NOT_RUN)
    if lost:
        return f"{count_noun(lost.total(), 'item')} of {name_few(list(lost), _NAMES_WIDTH)}"
    return ""
