"""What GitHub Actions shows of runs: the summary of a step, in Markdown, and errors at the lines of adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from attnspec.core.errors import FileLocation
from attnspec.core.nouns import Novelty
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord
from attnspec.record.visible import show_hidden
from attnspec.report.bugs import explain_bugs
from attnspec.report.figures import SIGNS, count_noun
from attnspec.report.joined import JoinedRecords, JudgedSubject, join_records
from attnspec.report.known import BaselineComparison, compared_runs, is_gone
from attnspec.report.likely_cause import ExplainedFailures, LikelyCause
from attnspec.report.markdown import escape_text, format_code, format_prose, format_row
from attnspec.report.summary import summarise_runs

_ALWAYS = frozenset({Novelty.NEW.value, Novelty.MENDED.value, Novelty.CHANGED.value})
MOST = 10
"""So many annotations of a kind GitHub shows of one step, and so many causes the summary tells."""


def step_summary(records: Sequence[RunRecord]) -> str:
    """The verdict, a row a subject, and the likely causes of what fails, as Markdown. Ends its line."""
    joined = join_records(show_hidden(records))
    return "\n".join(_summary(joined, strict=joined.is_strict)).rstrip("\n") + "\n"


def error_commands(records: Sequence[RunRecord], place_of: Callable[[str], FileLocation | None]) -> list[str]:
    """Commands that GitHub makes errors of, one a likely cause and at most MOST. place_of: the `def` of a subject."""
    joined = join_records(show_hidden(records))
    found = list(_causes(joined, strict=joined.is_strict))
    return [_annotation(subject, cause, place_of(subject.card.id)) for subject, cause in found[:MOST]]


def _summary(joined: JoinedRecords, *, strict: bool) -> Iterator[str]:
    found = summarise_runs(joined, strict=strict)
    yield from (f"## attention: {format_prose(found.title)}", "")
    yield from (format_row(["implementation", "verdict", "clauses"]), format_row(["---"] * 3))
    for each in found.standings:
        yield format_row([format_code(each.subject.label), escape_text(each.word), escape_text(each.sentence)])
    yield from (line for each in compared_runs(joined) for line in ("", _format_baseline_comparison(each)))
    causes = list(_causes(joined, strict=strict))
    for subject, cause in causes[:MOST]:
        yield from _format_cause(subject, cause)
    if len(causes) > MOST:
        yield from ("", f"And {count_noun(len(causes) - MOST, 'cause')} more, in the record.")


def _format_baseline_comparison(run: BaselineComparison) -> str:
    """`Held against `known.yaml`: 75 known failures as listed, 1 new, 0 mended, 2 changed.`"""
    tally = ", ".join(f"{number} {word}" for word, number in run.tally.items() if number or word in _ALWAYS)
    name, listed = format_code(Path(run.baseline).name), count_noun(run.items, "known failure")
    return f"Held against {name}: {listed} as listed, {tally}."


def _causes(joined: JoinedRecords, *, strict: bool) -> Iterator[tuple[JudgedSubject, ExplainedFailures]]:
    """What is behind the failures of each subject; a failure that nothing explains stands alone. Then what is not as a
    list of known failures says, though it is no failure: together where the same is said of it.
    """
    for subject in (*joined.subjects, *joined.faults):
        gating = [outcome for outcomes in joined.of_subject(subject).values() for outcome in outcomes
                  if outcome.does_gate(strict=strict)]
        for each in explain_bugs([outcome for outcome in gating if not is_gone(outcome)]):
            if each.cause:
                yield subject, each
            else:
                yield from ((subject, ExplainedFailures(None, (failure,))) for failure in each.failures)
        for says, gone in groupby(sorted(filter(is_gone, gating), key=_format_outcome), key=_format_outcome):
            yield subject, ExplainedFailures(LikelyCause(says), tuple(gone))


def _format_outcome(outcome: Outcome) -> str:
    return outcome.change.says if outcome.change else ""


def _format_cause(subject: JudgedSubject, cause: ExplainedFailures) -> Iterator[str]:
    first = cause.failures[0]
    yield from ("", f"### {format_prose(_headline(cause))}", "",
                f"{format_code(subject.label)}: {format_prose(_format_clauses(cause))}")
    if seen := _format_seen(first):
        yield from ("", format_prose(seen))
    if first.repeat:
        yield from ("", f"Repeat it: {format_code(first.repeat)}")


def _annotation(subject: JudgedSubject, cause: ExplainedFailures, place: FileLocation | None) -> str:
    """`::error file=…,line=…,title=…::message`, as docs.github.com/actions describes workflow commands."""
    where = {"file": place.file, "line": str(place.line)} if place else {}
    properties = {**where, "title": f"{subject.card.id}: {_headline(cause)}"}
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    first = cause.failures[0]
    lines = filter(None, (_format_clauses(cause), _format_seen(first), first.repeat and f"repeat it: {first.repeat}"))
    return f"::error {told}::{_data(chr(10).join(lines))}"


def _headline(cause: ExplainedFailures) -> str:
    """`each query sees one later key (`causal_off_by_one`)`; of what nothing explains its clause and verdict."""
    first = cause.failures[0]
    return str(cause.cause) if cause.cause else f"{first.clause} is {SIGNS[first.verdict].word}"


def _format_clauses(cause: ExplainedFailures) -> str:
    """`causal.alignment (float32) and 18 failures more`."""
    first, more = cause.failures[0], len(cause.failures) - 1
    others = f" and {count_noun(more, 'failure')} more" if more else ""
    return f"{first.clause} ({first.dtype.value}){others}"


def _format_seen(outcome: Outcome) -> str:
    return outcome.evidence.sentence if outcome.evidence else outcome.reason


def _data(text: str) -> str:
    """As a workflow command takes a message."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """As a workflow command takes a property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
