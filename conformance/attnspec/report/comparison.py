"""What changed: a run beside its list of known failures, beside an earlier run, and beside all runs of a folder.

A comparison is also written in Markdown, as one pastes it into a pull request.
"""

from __future__ import annotations

import enum
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, UsageError
from attnspec.core.nouns import EXCUSED, FAILURES, DType, Novelty, Verdict, does_gate_run
from attnspec.core.paths import write_whole
from attnspec.core.texts import count_noun
from attnspec.record.outcome import ClauseText, Outcome
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.figures import (
    DECIDED,
    SHORT_NAMES,
    SIGNS,
    Sign,
    escape_text,
    format_code,
    format_figure,
    format_row,
    overall_verdict,
)
from attnspec.report.joined import JoinedRecords, JoinedRun, join_records

UNEXPLAINED = "No finding explains these."
Told = tuple[Outcome, str]  # with the rest of a sentence about its clause


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A subject under a clause, at these dtypes. `says`: how it differs from what is listed; empty if it does not."""

    subject: str
    clause: ClauseText
    dtypes: str
    says: str


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """Entries of one kind: what changed in one way, or what one finding explains. `says`: that finding's words."""

    name: str
    says: str
    items: int
    entries: tuple[KnownEntry, ...]


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A run compared with a baseline of known failures. `libraries`: name and version of those that were judged."""

    run: JoinedRun
    libraries: tuple[str, ...]
    known_groups: tuple[KnownGroup, ...]
    changes: tuple[KnownGroup, ...]

    @property
    def baseline(self) -> str:
        """The file of known failures."""
        return self.run.record.header.baseline

    @property
    def python(self) -> str:
        """The Python that the run was made with."""
        return self.run.record.header.environment.get("python", "")

    @property
    def items(self) -> int:
        """How many known failures are as listed."""
        return sum(group.items for group in self.known_groups)

    @property
    def tally(self) -> Mapping[str, int]:
        """How many are new, a regression, … changed: all kinds, in this order."""
        found = {group.name: group.items for group in self.changes}
        return {each.value: found.get(each.value, 0) for each in Novelty}

    @property
    def changed_count(self) -> int:
        """How many failures have changed in all."""
        return sum(self.tally.values())


def is_gone(outcome: Outcome) -> bool:
    """Whether an entry is no failure: a known one that is none any more, or a convention that has changed."""
    return (outcome.change is not None
            and (bool(outcome.change.convention) or outcome.change.verdict not in FAILURES))


def describe_exceptions(outcomes: Iterable[Outcome], choices: Sequence[str] = ()) -> str:
    """What goes with "conforms": `, but for 3 known failures and 1 documented choice (torch/this)`, and what of the
    list is mended; empty if nothing does. choices: the findings of what a library documents that it does.
    """
    told = tuple(outcomes)
    known = sum(each.verdict is Verdict.EXPECTED and each.finding not in choices for each in told)
    novelties = Counter(each.change.novelty
                        for each in told if each.change and not each.change.convention)
    unknowable = sum(novelties[each] for each in EXCUSED)
    exceptions = [count_noun(known, "known failure")] if known else []
    exceptions += ([f"{count_noun(unknowable, 'failure')} that the list could not know"]
                   if unknowable else [])
    exceptions += ([f"{count_noun(len(choices), 'documented choice')} ({', '.join(choices)})"]
                   if choices else [])
    exceptions_told = f", but for {' and '.join(exceptions)}" if exceptions else ""
    return f"{exceptions_told}{_good_news(novelties[Novelty.MENDED], known)}"


def _good_news(mended: int, known: int) -> str:
    """`; all 3 listed failures are mended: renew the list (--update-baseline)`; empty if nothing is mended."""
    if not mended:
        return ""
    which = (count_noun(mended, "listed failure") if known or mended == 1
             else f"all {mended} listed failures")
    which = f"the only {which.removeprefix('1 ')}" if mended == 1 and not known else which
    return f"; {which} {'is' if mended == 1 else 'are'} mended: renew the list (--update-baseline)"


def compared_runs(joined: JoinedRecords) -> tuple[BaselineComparison, ...]:
    """The runs that were held against a baseline."""
    clauses = {clause.id: clause for clause in joined.clauses}
    return tuple(_compare_with_baseline(run, clauses)
                 for run in joined.runs if run.record.header.baseline)


def _compare_with_baseline(run: JoinedRun,
                           clauses: Mapping[str, ClauseText]) -> BaselineComparison:
    outcomes, cards = run.record.outcomes, [known.card for known in run.record.subjects]
    told = {finding.id: finding.says for card in cards for finding in card.findings}
    known: dict[str, list[Outcome]] = defaultdict(list)
    changed: dict[Novelty, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict is Verdict.EXPECTED:
            known[outcome.finding].append(outcome)
        elif outcome.change:
            changed[outcome.change.novelty].append(outcome)
    libraries = dict.fromkeys(card.release for card in cards)
    return BaselineComparison(
        run, tuple(filter(None, libraries)),
        tuple(group_of(name, told.get(name, UNEXPLAINED), _told_outcomes(known[name]), clauses)
              for name in sorted(known, key=lambda name: -len(known[name]))),
        tuple(group_of(each.value, "", _told_outcomes(changed[each]), clauses)
              for each in Novelty if each in changed))


def _told_outcomes(outcomes: Iterable[Outcome]) -> list[Told]:
    return [(outcome, outcome.change.says if outcome.change else "") for outcome in outcomes]


def group_of(name: str, says: str, told: Sequence[Told],
             clauses: Mapping[str, ClauseText]) -> KnownGroup:
    """A group of outcomes, each with what is said of it: one entry a subject, a clause and what is said."""
    entries = [_known_entry(list(group), clauses)
               for _, group in groupby(sorted(told, key=_told_key), key=_told_key)]
    return KnownGroup(name, says, len(told), tuple(entries))


def _known_entry(told: Sequence[Told], clauses: Mapping[str, ClauseText]) -> KnownEntry:
    first, says = told[0]
    return KnownEntry(first.subject, clauses[first.clause],
                      " ".join(SHORT_NAMES[each.dtype] for each, _ in told), says)


def _told_key(told: Told) -> tuple[str, str, str]:
    outcome, says = told
    return outcome.subject, outcome.clause, says


MARGIN_FACTOR = 2.0
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
        if self.is_whole and self.common:
            return CONFORMS
        return CANNOT_RUN

    @property
    def headline(self) -> str:
        """`2 new failures, 1 changed, 1 fixed, 3 still failing`."""
        told = [f"{self.count(each)} {each.value}"
                for each in Status if each is not Status.NEW and self.count(each)]
        new = self.count(Status.NEW)
        return ", ".join([count_noun(new, "new failure") if new else "no new failure", *told])

    @property
    def notes(self) -> tuple[str, ...]:
        """Further sentences that a reader of the comparison needs."""
        return tuple(sentence for condition, sentence in (
            (not self.common, "The two runs have no verdict on the same item."),
            (not self.is_whole, "The new run was not judged to its end, so more may be new."),
            (self.unjudged,
             f"{count_noun(self.unjudged, 'item')} held before and {_verb_has(self.unjudged)} no verdict now."),
            (self.other_cases,
             f"{count_noun(self.other_cases, 'failure')} now {_verb_shows(self.other_cases)} on another "
                               "case, so the margins are not compared."),
            (self.left_out, f"Only the old run judged {', '.join(self.left_out)}."),
        ) if condition)


def compare_runs(new: Sequence[RunRecord], old: Sequence[RunRecord]) -> RunComparison:
    """Hold a run against an earlier one. Raises UsageError where a record has one subject in several environments."""
    joined, earlier = join_records(show_hidden(new)), join_records(show_hidden(old))
    now, before = _group_by_item(joined, "new"), _group_by_item(earlier, "old")
    subjects = {subject.card.id for subject in (*joined.subjects, *joined.faults)}
    there = {key: outcome for key, outcome in before.items() if key[0] in subjects}
    told: dict[Status, list[tuple[Outcome, str]]] = defaultdict(list)
    for key in dict.fromkeys((*now, *there)):
        for status, says in _status_of(now.get(key), there.get(key), strict=joined.is_strict):
            told[status].append((now.get(key) or there[key], says))
    clauses = {clause.id: clause for clause in (*earlier.clauses, *joined.clauses)}
    pairs = [(now[key], there[key]) for key in now.keys() & there.keys()]
    return RunComparison(
        groups=tuple(group_of(each.value, "", told[each], clauses)
                     for each in Status if each in told),
        differences=tuple(_differences(joined, earlier)),
        other_cases=sum(_is_failing(one) and _is_failing(other) and _is_other_case(one, other)
                        for one, other in pairs),
        unjudged=sum(_holds_or_advises(each) and (key not in now or not _is_decided(now[key]))
                     for key, each in there.items()),
        left_out=tuple(sorted({key[0] for key in before} - subjects)),
        common=sum(_is_decided(one) and _is_decided(other) for one, other in pairs),
        is_whole=not any(run.record.is_interrupted for run in joined.runs)
        and all(each.verdict is not Verdict.NOT_RUN for each in now.values()))


def _group_by_item(joined: JoinedRecords, which: str) -> Mapping[Key, Outcome]:
    people = {subject.number: subject for subject in (*joined.subjects, *joined.faults)}
    if twice := sorted({subject.card.id for subject in people.values() if subject.is_ambiguous}):
        raise UsageError(f"the {which} record has {twice[0]} in several environments, "
                         "so that nobody can say which one "
                         "is compared. Name records of one environment each.")
    return {(people[number].card.id, clause, dtype): outcome
            for (number, clause, dtype), outcome in joined.outcomes.items()}


def _status_of(now: Outcome | None, before: Outcome | None, *,
               strict: bool) -> Iterator[tuple[Status, str]]:
    """The status of an item with the rest of a sentence about it; nothing where it failed neither now nor before."""
    was, word = _verdict_word(before), _verdict_word(now)
    if now and _is_failing(now) and not (before and _is_failing(before)):
        is_gating = fails_and_gates(now, strict=strict)
        yield Status.NEW if is_gating else Status.ADVISED, f"{word} now, {was} before"
    elif now and _is_failing(now) and before:
        change = _describe_change(now, before)
        yield (Status.CHANGED, change) if change else (Status.STILL, word)
    elif before and _is_failing(before):
        is_fixed = now is not None and _holds_or_advises(now)
        yield Status.FIXED if is_fixed else Status.LOST, f"{word} now, {was} before"


def fails_and_gates(outcome: Outcome, *, strict: bool) -> bool:
    """Whether an outcome fails under a clause that gates, whether or not a baseline lists it."""
    verdict = (Verdict.VIOLATED if _verdict_if_unknown(outcome) is Verdict.EXPECTED
               else _verdict_if_unknown(outcome))
    return _is_failing(outcome) and does_gate_run(verdict, outcome.level, strict=strict)


def _describe_change(now: Outcome, before: Outcome) -> str:
    """How a failure differs from what it was; empty if it does not."""
    verdicts = _verdict_if_unknown(now), _verdict_if_unknown(before)
    if verdicts[0] is not verdicts[1] and FAILURES.issuperset(verdicts):
        return f"{_verdict_word(now)} now, {_verdict_word(before)} before"
    if now.failure_kind and before.failure_kind and now.failure_kind != before.failure_kind:
        return f"now: {now.failure_kind}; before: {before.failure_kind}"
    margin, was = _recorded_margin(now), _recorded_margin(before)
    if margin is None or was is None or _is_other_case(now, before) or not has_moved(margin, was):
        return ""
    return f"margin {format_figure(margin)} now, {format_figure(was)} before"


def has_moved(margin: float, was: float) -> bool:
    """Whether a margin moved by more than rounding can move it. A margin that is no finite number stays one."""
    if math.isfinite(margin) and math.isfinite(was):
        return abs(margin - was) > MARGIN_FACTOR
    return math.isfinite(margin) is not math.isfinite(was)


def _recorded_margin(outcome: Outcome) -> float | None:
    """The margin on the case that the record holds."""
    measured = outcome.evidence.measured if outcome.evidence else None
    return measured.margin if measured else None


def _is_other_case(now: Outcome, before: Outcome) -> bool:
    """Whether both were measured, on different cases: then their margins say nothing about each other."""
    is_measured = _recorded_margin(now) is not None and _recorded_margin(before) is not None
    return is_measured and _recipe_of_outcome(now) != _recipe_of_outcome(before)


def _recipe_of_outcome(outcome: Outcome) -> str:
    return outcome.evidence.recipe if outcome.evidence else ""


def _verdict_if_unknown(outcome: Outcome) -> Verdict:
    """The verdict, were nothing known of it."""
    if outcome.change:
        return outcome.change.verdict
    return outcome.verdict


def _is_failing(outcome: Outcome) -> bool:
    return _verdict_if_unknown(outcome) in _FAILING


def _holds_or_advises(outcome: Outcome) -> bool:
    return _verdict_if_unknown(outcome) is Verdict.HELD


def _is_decided(outcome: Outcome) -> bool:
    return _is_failing(outcome) or _holds_or_advises(outcome)


def _verdict_word(outcome: Outcome | None) -> str:
    if outcome:
        return SIGNS[_verdict_if_unknown(outcome)].word
    return _NOT_ASKED


def _differences(joined: JoinedRecords, earlier: JoinedRecords) -> Iterator[Difference]:
    """Finds in what the runs differ beside their verdicts: the first place to look for a cause."""
    new, old = _facts_of_run(joined), _facts_of_run(earlier)
    for name in dict.fromkeys((*new, *old)):
        if new.get(name) != old.get(name):
            yield Difference(name, old.get(name, "none"), new.get(name, "none"))


def _facts_of_run(joined: JoinedRecords) -> Mapping[str, str]:
    """Collects what a run was made with and of, by name; several values of one name stand side by side."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in joined.subjects:
        if subject.card.version:
            found[subject.card.distribution or subject.card.library][subject.card.version] = None
    for run in joined.runs:
        header = run.record.header
        for name, value in (("spec", header.spec_digest[:12]), ("effort", header.effort),
                            ("seed", str(header.seed)),
                            ("cases at further dtypes", str(header.sample or "all")),
                            ("sizes", ", ".join(header.sizes)), *header.environment.items()):
            found[name][value] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _verb_has(number: int) -> str:
    return "has" if number == 1 else "have"


def _verb_shows(number: int) -> str:
    return "shows" if number == 1 else "show"


def write_comparison(compared: RunComparison, path: Path) -> None:
    """Write the comparison to `path`, making its folder."""
    write_whole(path, comparison_text(compared), "comparison")


def comparison_text(compared: RunComparison) -> str:
    """Writes what became of the old run's verdicts, group by group. The text ends its line."""
    return "\n".join(_format_comparison_lines(compared)).rstrip("\n") + "\n"


def _format_comparison_lines(compared: RunComparison) -> Iterator[str]:
    yield from (f"## Against the earlier run: {compared.headline}", "")
    yield from (f"- {escape_text(note)}" for note in compared.notes)
    if compared.notes:
        yield ""
    if compared.differences:
        yield from (format_row(["the runs differ in", "earlier", "this run"]),
                    format_row(["---"] * 3))
        yield from (format_row([escape_text(each.name), escape_text(each.old),
                                escape_text(each.new)])
                    for each in compared.differences)
        yield ""
    for group in compared.groups:
        yield from _format_known_group(group)
    yield ("An item is a clause at one dtype. A margin has changed if it moved by more than "
           f"{format_figure(MARGIN_FACTOR)}, because rounding alone can move it by that much.")


def _format_known_group(group: KnownGroup) -> Iterator[str]:
    name = group.name.capitalize()
    yield from (f"### {name}: {count_noun(group.items, 'item')}", "")
    yield from (format_row(["implementation", "clause", "level", "dtypes", ""]),
                format_row(["---"] * 5))
    for each in group.entries:
        yield format_row([format_code(each.subject), format_code(each.clause.id),
                          each.clause.level.value, each.dtypes,
                          escape_text(each.says)])
    yield ""


COLUMN_WIDTH = 34   # width of a column of the picture, as of the table below it
TALLEST_BAR = 64   # of the tallest bar
_NUMBER_HEIGHT = 16    # above a bar, for its number

Item = tuple[str, str]  # subject, clause
File = Sequence[RunRecord]
"""The runs of one file: one, or those that `attnspec combine` joined."""


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One file. x, y, height: its bar, as high as the number of clauses that it violated.

    words: what it was made with.  is_judged: whether it decided anything.
    """

    number: int
    started: str
    words: str
    violated: int
    is_judged: bool
    is_whole: bool
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class HistoryCell:
    """A clause in one run. sign: its verdict over all dtypes, None where it was not asked."""

    sign: Sign | None
    title: str


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A subject under a clause that at least one run violated."""

    subject: str
    clause: ClauseText
    cells: tuple[HistoryCell, ...]


@dataclass(frozen=True, slots=True)
class History:
    """All that the section shows: runs from the oldest to the newest, and the clauses that any of them violated."""

    runs: tuple[HistoryRun, ...]
    rows: tuple[HistoryRow, ...]
    width: int
    height: int


def make_history(files: Iterable[File], newest: File) -> History:
    """The runs among these that judged a subject of the newest, which is one of them or comes beside them."""
    subjects = {outcome.subject for run in show_hidden(newest) for outcome in run.outcomes}
    strict = any(run.header.strict for run in newest)
    others = [list(file) for file in files if list(file) != list(newest)]
    in_order = sorted([*others, newest], key=lambda file: file[0].header.started)
    kept = [_keep_subjects(show_hidden(file), subjects) for file in in_order]
    joined = [join_records(file) for file in kept if any(run.outcomes for run in file)]
    found = [_group_item_outcomes(each) for each in joined]
    failing = [{item for item, outcomes in each.items() if any(fails_and_gates(one, strict=strict) for one in outcomes)}
               for each in found]
    runs = _history_runs(joined, [len(each) for each in failing])
    return History(tuple(runs), tuple(_history_rows(joined, found, failing)),
                   COLUMN_WIDTH * len(joined),
                   TALLEST_BAR + _NUMBER_HEIGHT)


def _keep_subjects(file: File, subjects: set[str]) -> list[RunRecord]:
    """The file with the outcomes of these subjects alone."""
    return [RunRecord(run.header,
                      tuple(known for known in run.subjects if known.card.id in subjects),
                      tuple(outcome for outcome in run.outcomes if outcome.subject in subjects),
                      run.footer)
            for run in file]


def _history_rows(joined: Sequence[JoinedRecords],
                  found: Sequence[Mapping[Item, Sequence[Outcome]]],
                  failing: Sequence[set[Item]]) -> Iterator[HistoryRow]:
    """Makes a row for each clause that some run violates; those of the newest run come first."""
    texts = {clause.id: clause for each in joined for clause in each.clauses}
    order = list(texts)
    latest = failing[-1] if failing else set()
    for item in sorted(set().union(*failing),
                       key=lambda item: (item not in latest, item[0], order.index(item[1]))):
        yield HistoryRow(item[0], texts[item[1]],
                         tuple(_history_cell(each.get(item, [])) for each in found))


def _group_item_outcomes(joined: JoinedRecords) -> Mapping[Item, Sequence[Outcome]]:
    found: dict[Item, list[Outcome]] = {}
    for outcome in joined.outcomes.values():
        found.setdefault((outcome.subject, outcome.clause), []).append(outcome)
    return found


def _history_cell(outcomes: Sequence[Outcome]) -> HistoryCell:
    if not outcomes:
        return HistoryCell(None, "not asked")
    sign = SIGNS[overall_verdict(outcome.verdict for outcome in outcomes)]
    return HistoryCell(sign, ", ".join(f"{each.dtype.value} {SIGNS[each.verdict].word}" for each in outcomes))


def _history_runs(joined: Sequence[JoinedRecords], numbers: Sequence[int]) -> Iterator[HistoryRun]:
    """numbers: how many clauses each of them violated."""
    most = max([1, *numbers])
    for place, (each, violated) in enumerate(zip(joined, numbers, strict=True)):
        records = [run.record for run in each.runs]
        high = TALLEST_BAR * violated / most
        yield HistoryRun(
            number=place + 1, started=records[0].header.started, words=_run_words(each),
            violated=violated,
            is_judged=any(outcome.verdict in DECIDED for outcome in each.outcomes.values()),
            is_whole=not any(record.is_interrupted for record in records), x=COLUMN_WIDTH * place,
            y=round(_NUMBER_HEIGHT + TALLEST_BAR - high, 1), height=round(high, 1))


def _run_words(joined: JoinedRecords) -> str:
    """`torch 2.13.0; effort quick, seed 0, spec 1234abcd`."""
    versions = dict.fromkeys(subject.card.release for subject in joined.subjects)
    header = joined.runs[0].record.header
    made = f"effort {header.effort}, seed {header.seed}, spec {header.spec_digest[:8]}"
    return "; ".join(filter(None, [", ".join(filter(None, versions)), made]))
