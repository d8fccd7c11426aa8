"""Compares a run with an earlier one: what fails that did not, what holds again, and what fails otherwise.

A comparison is also written in Markdown, as one pastes it into a pull request.
"""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, UsageError
from attnspec.core.files import write_whole
from attnspec.core.nouns import FAILURES, DType, Verdict, does_gate_run
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord
from attnspec.record.visible import show_hidden
from attnspec.report.figures import SIGNS, count_noun, format_figure
from attnspec.report.joined import JoinedRecords, join_records
from attnspec.report.known import KnownGroup, group_of
from attnspec.report.markdown import escape_text, format_code, format_row

ROUNDING = 2.0
"""How far rounding alone can move a margin: an answer lies within one allowance of what its formula gives, on either
side, so that two answers of one formula to one case lie within two of each other (docs/reading-a-report.md).
"""

Key = tuple[str, str, DType]  # subject, clause, dtype
_FAILING = FAILURES | {Verdict.EXPECTED, Verdict.UNEXPECTED}
_NOT_ASKED = "not asked"


class Status(enum.Enum):
    """How an item stands to the earlier run. Their order is that of a report."""

    NEW = "new"                # fails now and did not before
    ADVISED = "new (advised)"  # the same of a clause that does not gate
    CHANGED = "changed"        # failed and fails, in another way or by another margin
    FIXED = "fixed"            # failed and holds
    STILL = "still failing"
    LOST = "not judged now"    # failed, and nothing is known of it now


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which the runs themselves differ, such as the version of a library."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs compared: what became of the old one's verdicts.

    groups: the items by status, in the order of Status, none empty.
    other_cases: failures that stayed, whose margins are of different cases and so not compared.  unjudged: items that
    held before and have no verdict now.  left_out: subjects that only the old run judged.  common: items that both
    decided.  is_whole: whether the new run reached its end and ran all that it was to run.
    """

    groups: tuple[KnownGroup, ...]
    differences: tuple[Difference, ...]
    other_cases: int
    unjudged: int
    left_out: tuple[str, ...]
    common: int
    is_whole: bool

    def count(self, status: Status) -> int:
        """How many items have this status."""
        return sum(group.items for group in self.groups if group.name == status.value)

    @property
    def exit_code(self) -> int:
        """1 if anything is new, 2 where nobody can say so, else 0."""
        if self.count(Status.NEW):
            return VIOLATED
        return CONFORMS if self.is_whole and self.common else CANNOT_RUN

    @property
    def headline(self) -> str:
        """`2 new failures, 1 changed, 1 fixed, 3 still failing`."""
        told = [f"{self.count(each)} {each.value}" for each in Status if each is not Status.NEW and self.count(each)]
        new = self.count(Status.NEW)
        return ", ".join([count_noun(new, "new failure") if new else "no new failure", *told])

    @property
    def notes(self) -> tuple[str, ...]:
        """What else has to be known, one sentence each."""
        return tuple(sentence for condition, sentence in (
            (not self.common, "The two runs have no verdict on the same item."),
            (not self.is_whole, "The new run was not judged to its end, so more may be new."),
            (self.unjudged,
             f"{count_noun(self.unjudged, 'item')} held before and {_has(self.unjudged)} no verdict now."),
            (self.other_cases, f"{count_noun(self.other_cases, 'failure')} now {_shows(self.other_cases)} on another "
                               "case, so the margins are not compared."),
            (self.left_out, f"Only the old run judged {', '.join(self.left_out)}."),
        ) if condition)


def compare_runs(new: Sequence[RunRecord], old: Sequence[RunRecord]) -> RunComparison:
    """Hold a run against an earlier one. Raises UsageError where a record has one subject in several environments."""
    joined, earlier = join_records(show_hidden(new)), join_records(show_hidden(old))
    now, before = _by_item(joined, "new"), _by_item(earlier, "old")
    subjects = {subject.card.id for subject in (*joined.subjects, *joined.faults)}
    there = {key: outcome for key, outcome in before.items() if key[0] in subjects}
    told: dict[Status, list[tuple[Outcome, str]]] = defaultdict(list)
    for key in dict.fromkeys((*now, *there)):
        for status, says in _stands(now.get(key), there.get(key), strict=joined.is_strict):
            told[status].append((now.get(key) or there[key], says))
    clauses = {clause.id: clause for clause in (*earlier.clauses, *joined.clauses)}
    pairs = [(now[key], there[key]) for key in now.keys() & there.keys()]
    return RunComparison(
        groups=tuple(group_of(each.value, "", told[each], clauses) for each in Status if each in told),
        differences=tuple(_differences(joined, earlier)),
        other_cases=sum(_fails(one) and _fails(other) and _is_other_case(one, other) for one, other in pairs),
        unjudged=sum(_holds_or_advises(each) and (key not in now or not _is_decided(now[key]))
                     for key, each in there.items()),
        left_out=tuple(sorted({key[0] for key in before} - subjects)),
        common=sum(_is_decided(one) and _is_decided(other) for one, other in pairs),
        is_whole=not any(run.record.interrupted for run in joined.runs)
        and all(each.verdict is not Verdict.NOT_RUN for each in now.values()))


def _by_item(joined: JoinedRecords, which: str) -> Mapping[Key, Outcome]:
    people = {subject.number: subject for subject in (*joined.subjects, *joined.faults)}
    if twice := sorted({subject.card.id for subject in people.values() if subject.is_ambiguous}):
        raise UsageError(f"the {which} record has {twice[0]} in several environments, so that nobody can say which one "
                         "is compared. Name records of one environment each.")
    return {(people[number].card.id, clause, dtype): outcome
            for (number, clause, dtype), outcome in joined.outcomes.items()}


def _stands(now: Outcome | None, before: Outcome | None, *, strict: bool) -> Iterator[tuple[Status, str]]:
    """The status of an item with the rest of a sentence about it; nothing where it failed neither now nor before."""
    was, word = _word(before), _word(now)
    if now and _fails(now) and not (before and _fails(before)):
        is_gating = fails_and_gates(now, strict=strict)
        yield Status.NEW if is_gating else Status.ADVISED, f"{word} now, {was} before"
    elif now and _fails(now) and before:
        change = _change(now, before)
        yield (Status.CHANGED, change) if change else (Status.STILL, word)
    elif before and _fails(before):
        is_fixed = now is not None and _holds_or_advises(now)
        yield Status.FIXED if is_fixed else Status.LOST, f"{word} now, {was} before"


def fails_and_gates(outcome: Outcome, *, strict: bool) -> bool:
    """Whether an outcome fails under a clause that gates, whether or not a baseline lists it."""
    verdict = Verdict.VIOLATED if _verdict(outcome) is Verdict.EXPECTED else _verdict(outcome)
    return _fails(outcome) and does_gate_run(verdict, outcome.level, strict=strict)


def _change(now: Outcome, before: Outcome) -> str:
    """How a failure differs from what it was; empty if it does not."""
    verdicts = _verdict(now), _verdict(before)
    if verdicts[0] is not verdicts[1] and FAILURES.issuperset(verdicts):
        return f"{_word(now)} now, {_word(before)} before"
    if now.failure_kind and before.failure_kind and now.failure_kind != before.failure_kind:
        return f"now: {now.failure_kind}; before: {before.failure_kind}"
    margin, was = _margin(now), _margin(before)
    if margin is None or was is None or _is_other_case(now, before) or not has_moved(margin, was):
        return ""
    return f"margin {format_figure(margin)} now, {format_figure(was)} before"


def has_moved(margin: float, was: float) -> bool:
    """Whether a margin moved by more than rounding can move it. A margin that is no finite number stays one."""
    if math.isfinite(margin) and math.isfinite(was):
        return abs(margin - was) > ROUNDING
    return math.isfinite(margin) is not math.isfinite(was)


def _margin(outcome: Outcome) -> float | None:
    """The margin on the case that the record holds."""
    measured = outcome.evidence.measured if outcome.evidence else None
    return measured.margin if measured else None


def _is_other_case(now: Outcome, before: Outcome) -> bool:
    """Whether both were measured, on different cases: then their margins say nothing about each other."""
    is_measured = _margin(now) is not None and _margin(before) is not None
    return is_measured and _recipe(now) != _recipe(before)


def _recipe(outcome: Outcome) -> str:
    return outcome.evidence.recipe if outcome.evidence else ""


def _verdict(outcome: Outcome) -> Verdict:
    """The verdict, were nothing known of it."""
    return outcome.change.verdict if outcome.change else outcome.verdict


def _fails(outcome: Outcome) -> bool:
    return _verdict(outcome) in _FAILING


def _holds_or_advises(outcome: Outcome) -> bool:
    return _verdict(outcome) is Verdict.HELD


def _is_decided(outcome: Outcome) -> bool:
    return _fails(outcome) or _holds_or_advises(outcome)


def _word(outcome: Outcome | None) -> str:
    return SIGNS[_verdict(outcome)].word if outcome else _NOT_ASKED


def _differences(joined: JoinedRecords, earlier: JoinedRecords) -> Iterator[Difference]:
    """In what the runs differ beside their verdicts: the first place to look for a cause."""
    new, old = _facts(joined), _facts(earlier)
    for name in dict.fromkeys((*new, *old)):
        if new.get(name) != old.get(name):
            yield Difference(name, old.get(name, "none"), new.get(name, "none"))


def _facts(joined: JoinedRecords) -> Mapping[str, str]:
    """What a run was made with and of, by name; several values of one name stand beside each other."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in joined.subjects:
        if subject.card.version:
            found[subject.card.distribution or subject.card.library][subject.card.version] = None
    for run in joined.runs:
        header = run.record.header
        for name, value in (("spec", header.spec_digest[:12]), ("effort", header.effort), ("seed", str(header.seed)),
                            ("cases at further dtypes", str(header.sample or "all")),
                            ("sizes", ", ".join(header.sizes)), *header.environment.items()):
            found[name][value] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


def _shows(number: int) -> str:
    return "shows" if number == 1 else "show"


def write_comparison(compared: RunComparison, path: Path) -> None:
    """Write the comparison to `path`, making its folder."""
    write_whole(path, comparison_text(compared), "comparison")


def comparison_text(compared: RunComparison) -> str:
    """What became of the old run's verdicts, group by group. Ends its line."""
    return "\n".join(_lines(compared)).rstrip("\n") + "\n"


def _lines(compared: RunComparison) -> Iterator[str]:
    yield from (f"## Against the earlier run: {compared.headline}", "")
    yield from (f"- {escape_text(note)}" for note in compared.notes)
    yield from ([""] if compared.notes else [])
    if compared.differences:
        yield from (format_row(["the runs differ in", "earlier", "this run"]), format_row(["---"] * 3))
        yield from (format_row([escape_text(each.name), escape_text(each.old), escape_text(each.new)])
                    for each in compared.differences)
        yield ""
    for group in compared.groups:
        yield from _group(group)
    yield ("An item is a clause at one dtype. A margin has changed if it moved by more than "
           f"{format_figure(ROUNDING)}, because rounding alone can move it by that much.")


def _group(group: KnownGroup) -> Iterator[str]:
    name = group.name.capitalize()
    yield from (f"### {name}: {count_noun(group.items, 'item')}", "")
    yield from (format_row(["implementation", "clause", "level", "dtypes", ""]), format_row(["---"] * 5))
    for each in group.entries:
        yield format_row([format_code(each.subject), format_code(each.clause.id), each.clause.level.value, each.dtypes,
                          escape_text(each.says)])
    yield ""
