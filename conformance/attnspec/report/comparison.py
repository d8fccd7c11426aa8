"""Compares a run with its known failures, with an earlier run, and with a folder of runs.

The comparison with an earlier run is also written as Markdown, for a pull request.
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
DescribedOutcome = tuple[Outcome, str]  # an outcome, and what is said of it behind its clause


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A subject and a clause that it fails, at these dtypes. says: how the failure differs from
    what is listed; empty if it does not.
    """

    subject: str
    clause: ClauseText
    dtypes: str
    says: str


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """Failures that changed in the same way, or that the same finding explains. says: the words of
    that finding.  items: how many pairs of a clause and a dtype.
    """

    name: str
    says: str
    items: int
    entries: tuple[KnownEntry, ...]


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A run compared with its list of known failures. libraries: name and version of each that was
    judged.
    """

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
        """How many failures are of each kind of novelty, kinds with none included."""
        numbers = {group.name: group.items for group in self.changes}
        return {each.value: numbers.get(each.value, 0) for each in Novelty}

    @property
    def changed_count(self) -> int:
        """How many failures have changed in all."""
        return sum(self.tally.values())


def is_gone(outcome: Outcome) -> bool:
    """Whether a listed failure is no failure any more, or a convention that has changed."""
    change = outcome.change
    return change is not None and (bool(change.convention) or change.verdict not in FAILURES)


def describe_exceptions(outcomes: Iterable[Outcome], choices: Sequence[str] = ()) -> str:
    """Writes what follows "conforms": `, but for 3 known failures and 1 documented choice (x/y)`.

    Listed failures that are mended come behind it; the text is empty if there is nothing to say.
    choices: the ids of findings that the library documents as its choice.
    """
    every = tuple(outcomes)
    known = sum(each.verdict is Verdict.EXPECTED and each.finding not in choices for each in every)
    changes = [each.change for each in every if each.change]
    novelties = Counter(change.novelty for change in changes if not change.convention)
    unknowable = sum(novelties[each] for each in EXCUSED)
    exceptions = []
    if known:
        exceptions.append(count_noun(known, "known failure"))
    if unknowable:
        exceptions.append(f"{count_noun(unknowable, 'failure')} that the list could not know")
    if choices:
        exceptions.append(f"{count_noun(len(choices), 'documented choice')} ({', '.join(choices)})")
    but_for = f", but for {' and '.join(exceptions)}" if exceptions else ""
    return f"{but_for}{_good_news(novelties[Novelty.MENDED], known)}"


def _good_news(mended: int, known: int) -> str:
    """`; all 3 listed failures are mended: renew the list (--update-baseline)`, or nothing."""
    if not mended:
        return ""
    if known:
        which = count_noun(mended, "listed failure")
    elif mended == 1:
        which = "the only listed failure"
    else:
        which = f"all {mended} listed failures"
    return f"; {which} {'is' if mended == 1 else 'are'} mended: renew the list (--update-baseline)"


def compared_runs(joined: JoinedRecords) -> tuple[BaselineComparison, ...]:
    """Compares each run that had a list of known failures with that list."""
    clauses = {clause.id: clause for clause in joined.clauses}
    return tuple(_compare_with_baseline(run, clauses)
                 for run in joined.runs if run.record.header.baseline)


def _compare_with_baseline(run: JoinedRun,
                           clauses: Mapping[str, ClauseText]) -> BaselineComparison:
    cards = [known.card for known in run.record.subjects]
    sentences = {finding.id: finding.says for card in cards for finding in card.findings}
    known: dict[str, list[DescribedOutcome]] = defaultdict(list)
    changes: dict[Novelty, list[DescribedOutcome]] = defaultdict(list)
    for outcome in run.record.outcomes:
        says = outcome.change.says if outcome.change else ""
        if outcome.verdict is Verdict.EXPECTED:
            known[outcome.finding].append((outcome, says))
        elif outcome.change:
            changes[outcome.change.novelty].append((outcome, says))
    libraries = dict.fromkeys(card.release for card in cards)
    return BaselineComparison(
        run, tuple(filter(None, libraries)),
        tuple(_make_group(name, sentences.get(name, UNEXPLAINED), known[name], clauses)
              for name in sorted(known, key=lambda name: -len(known[name]))),
        tuple(_make_group(each.value, "", changes[each], clauses)
              for each in Novelty if each in changes))


def _make_group(name: str, says: str, outcomes: Sequence[DescribedOutcome],
                clauses: Mapping[str, ClauseText]) -> KnownGroup:
    """Makes one entry of all dtypes at which the same is said of a subject and a clause."""
    ordered = sorted(outcomes, key=_entry_key)
    entries = [_known_entry(list(group), clauses) for _, group in groupby(ordered, key=_entry_key)]
    return KnownGroup(name, says, len(outcomes), tuple(entries))


def _known_entry(outcomes: Sequence[DescribedOutcome],
                 clauses: Mapping[str, ClauseText]) -> KnownEntry:
    first, says = outcomes[0]
    dtypes = " ".join(SHORT_NAMES[each.dtype] for each, _ in outcomes)
    return KnownEntry(first.subject, clauses[first.clause], dtypes, says)


def _entry_key(described: DescribedOutcome) -> tuple[str, str, str]:
    outcome, says = described
    return outcome.subject, outcome.clause, says


MARGIN_FACTOR = 2.0
"""How far rounding alone can move a margin.

Each answer lies within one allowance of what its formula gives, so two answers of one formula lie
within two allowances of each other (docs/reading-a-report.md).
"""

Key = tuple[str, str, DType]  # subject, clause, dtype
_FAILING = FAILURES | {Verdict.EXPECTED, Verdict.UNEXPECTED}
_NOT_ASKED = "not asked"


class Status(enum.Enum):
    """What became of an item since the earlier run, in the order of the report."""

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
    """What became of an earlier run's verdicts in a new run.

    groups: the items by status, in the order of Status; none is empty.  other_cases: how many
    failures remain whose margins are not compared, because the two runs measured different cases.
    unjudged: how many items held before and have no verdict now.  left_out: subjects that only the
    earlier run judged.  common: how many items both runs decided. is_whole: whether the new run
    ran all that it was to run.
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
        """The exit code: 1 if a failure is new, 2 if the runs cannot be compared, else 0."""
        if self.count(Status.NEW):
            return VIOLATED
        if self.is_whole and self.common:
            return CONFORMS
        return CANNOT_RUN

    @property
    def headline(self) -> str:
        """`2 new failures, 1 changed, 1 fixed, 3 still failing`."""
        others = [f"{self.count(each)} {each.value}"
                  for each in Status if each is not Status.NEW and self.count(each)]
        new = self.count(Status.NEW)
        return ", ".join([count_noun(new, "new failure") if new else "no new failure", *others])

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what limits the comparison."""
        notes = []
        if not self.common:
            notes.append("The two runs have no verdict on the same item.")
        if not self.is_whole:
            notes.append("The new run was not judged to its end, so more may be new.")
        if self.unjudged:
            has = "has" if self.unjudged == 1 else "have"
            notes.append(f"{count_noun(self.unjudged, 'item')} held before and {has} no verdict now.")
        if self.other_cases:
            shows = "shows" if self.other_cases == 1 else "show"
            notes.append(f"{count_noun(self.other_cases, 'failure')} now {shows} on another case, "
                         "so the margins are not compared.")
        if self.left_out:
            notes.append(f"Only the old run judged {', '.join(self.left_out)}.")
        return tuple(notes)


def compare_runs(new: Sequence[RunRecord], old: Sequence[RunRecord]) -> RunComparison:
    """Compares a run with an earlier one. Raises UsageError if a record has one subject in several
    environments.
    """
    joined, earlier = join_records(show_hidden(new)), join_records(show_hidden(old))
    now, every_before = _group_by_item(joined, "new"), _group_by_item(earlier, "old")
    subjects = {subject.card.id for subject in (*joined.subjects, *joined.faults)}
    before = {key: outcome for key, outcome in every_before.items() if key[0] in subjects}
    by_status: dict[Status, list[DescribedOutcome]] = defaultdict(list)
    for key in dict.fromkeys((*now, *before)):
        for status, says in _status_of(now.get(key), before.get(key), strict=joined.is_strict):
            by_status[status].append((now.get(key) or before[key], says))
    clauses = {clause.id: clause for clause in (*earlier.clauses, *joined.clauses)}
    pairs = [(now[key], before[key]) for key in now.keys() & before.keys()]
    was_interrupted = any(run.record.is_interrupted for run in joined.runs)
    return RunComparison(
        groups=tuple(_make_group(each.value, "", by_status[each], clauses)
                     for each in Status if each in by_status),
        differences=tuple(_differences(joined, earlier)),
        other_cases=sum(_is_failing(one) and _is_failing(other) and _is_other_case(one, other)
                        for one, other in pairs),
        unjudged=sum(_is_held(each) and (key not in now or not _is_decided(now[key]))
                     for key, each in before.items()),
        left_out=tuple(sorted({key[0] for key in every_before} - subjects)),
        common=sum(_is_decided(one) and _is_decided(other) for one, other in pairs),
        is_whole=not was_interrupted
        and all(each.verdict is not Verdict.NOT_RUN for each in now.values()))


def _group_by_item(joined: JoinedRecords, which: str) -> Mapping[Key, Outcome]:
    people = {subject.number: subject for subject in (*joined.subjects, *joined.faults)}
    if twice := sorted({subject.card.id for subject in people.values() if subject.is_ambiguous}):
        raise UsageError(f"the {which} record has {twice[0]} in several environments, so that nobody can say "
                         "which one is compared. Name records of one environment each.")
    return {(people[number].card.id, clause, dtype): outcome
            for (number, clause, dtype), outcome in joined.outcomes.items()}


def _status_of(now: Outcome | None, before: Outcome | None, *,
               strict: bool) -> Iterator[tuple[Status, str]]:
    """Yields the status of an item that fails or failed, and what is said of it."""
    was, word = _verdict_word(before), _verdict_word(now)
    if now and _is_failing(now) and not (before and _is_failing(before)):
        is_gating = fails_and_gates(now, strict=strict)
        yield Status.NEW if is_gating else Status.ADVISED, f"{word} now, {was} before"
    elif now and _is_failing(now) and before:
        change = _describe_change(now, before)
        yield (Status.CHANGED, change) if change else (Status.STILL, word)
    elif before and _is_failing(before):
        status = Status.FIXED if now is not None and _is_held(now) else Status.LOST
        yield status, f"{word} now, {was} before"


def fails_and_gates(outcome: Outcome, *, strict: bool) -> bool:
    """Whether an outcome fails under a clause that gates, whether or not a baseline lists it."""
    verdict = _verdict_if_unknown(outcome)
    if verdict is Verdict.EXPECTED:
        verdict = Verdict.VIOLATED
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
    """Whether a margin moved by more than rounding can move it, or is finite in one run only."""
    if math.isfinite(margin) and math.isfinite(was):
        return abs(margin - was) > MARGIN_FACTOR
    return math.isfinite(margin) is not math.isfinite(was)


def _recorded_margin(outcome: Outcome) -> float | None:
    """The margin on the case that the record holds."""
    measured = outcome.evidence.measured if outcome.evidence else None
    return measured.margin if measured else None


def _is_other_case(now: Outcome, before: Outcome) -> bool:
    """Whether both were measured, on different cases: then their margins cannot be compared."""
    one, other = now.evidence, before.evidence
    if not (one and one.measured and other and other.measured):
        return False
    return one.recipe != other.recipe


def _verdict_if_unknown(outcome: Outcome) -> Verdict:
    """The verdict that the outcome would have without a list of known failures."""
    if outcome.change:
        return outcome.change.verdict
    return outcome.verdict


def _is_failing(outcome: Outcome) -> bool:
    return _verdict_if_unknown(outcome) in _FAILING


def _is_held(outcome: Outcome) -> bool:
    return _verdict_if_unknown(outcome) is Verdict.HELD


def _is_decided(outcome: Outcome) -> bool:
    return _is_failing(outcome) or _is_held(outcome)


def _verdict_word(outcome: Outcome | None) -> str:
    if outcome:
        return SIGNS[_verdict_if_unknown(outcome)].word
    return _NOT_ASKED


def _differences(joined: JoinedRecords, earlier: JoinedRecords) -> Iterator[Difference]:
    """Finds in what the runs differ besides their verdicts: a cause is looked for there first."""
    new, old = _facts_of_run(joined), _facts_of_run(earlier)
    for name in dict.fromkeys((*new, *old)):
        if new.get(name) != old.get(name):
            yield Difference(name, old.get(name, "none"), new.get(name, "none"))


def _facts_of_run(joined: JoinedRecords) -> Mapping[str, str]:
    """Collects by name what a run was made with; several values stand side by side."""
    facts: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in joined.subjects:
        if subject.card.version:
            facts[subject.card.distribution or subject.card.library][subject.card.version] = None
    for run in joined.runs:
        header = run.record.header
        values = {"spec": header.spec_digest[:12], "effort": header.effort,
                  "seed": str(header.seed), "cases at further dtypes": str(header.sample or "all"),
                  "sizes": ", ".join(header.sizes), **header.environment}
        for name, value in values.items():
            facts[name][value] = None
    return {name: ", ".join(values) for name, values in facts.items()}


def write_comparison(compared: RunComparison, path: Path) -> None:
    """Write the comparison to `path`, making its folder."""
    write_whole(path, comparison_text(compared), "comparison")


def comparison_text(compared: RunComparison) -> str:
    """Writes a comparison as Markdown, group by group, with a line end at its end."""
    return "\n".join(_format_comparison_lines(compared)).rstrip("\n") + "\n"


def _format_comparison_lines(compared: RunComparison) -> Iterator[str]:
    yield from (f"## Against the earlier run: {compared.headline}", "")
    yield from (f"- {escape_text(note)}" for note in compared.notes)
    if compared.notes:
        yield ""
    if compared.differences:
        yield from (format_row(["the runs differ in", "earlier", "this run"]),
                    format_row(["---"] * 3))
        for each in compared.differences:
            yield format_row([*map(escape_text, (each.name, each.old, each.new))])
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
                          each.clause.level.value, each.dtypes, escape_text(each.says)])
    yield ""


COLUMN_WIDTH = 34  # of a run, in the picture and in the table below it; here and below in pixels
TALLEST_BAR = 64
_NUMBER_HEIGHT = 16  # room for the number above a bar

Item = tuple[str, str]  # subject, clause
File = Sequence[RunRecord]
"""The runs of one file: one, or those that `attnspec combine` joined."""


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One file of the history, drawn as a bar whose height shows the number of violated clauses.

    words: what it was made with.  is_judged: whether it decided anything.  x, y, height: of its
    bar, in pixels.
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
    """A clause in one run. sign: its verdict over all dtypes; None if the run did not ask it."""

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
    """The runs from the oldest to the newest, and a row for each clause that one violated."""

    runs: tuple[HistoryRun, ...]
    rows: tuple[HistoryRow, ...]
    width: int
    height: int


def make_history(files: Iterable[File], newest: File) -> History:
    """Orders the runs that judged a subject of the newest. newest: may be one of the files."""
    subjects = {outcome.subject for run in show_hidden(newest) for outcome in run.outcomes}
    strict = any(run.header.strict for run in newest)
    others = [list(file) for file in files if list(file) != list(newest)]
    in_order = sorted([*others, newest], key=lambda file: file[0].header.started)
    selected = [_select_subjects(show_hidden(file), subjects) for file in in_order]
    joined = [join_records(file) for file in selected if any(run.outcomes for run in file)]
    outcomes = [_group_item_outcomes(each) for each in joined]
    failing = [_failing_items(each, strict=strict) for each in outcomes]
    runs = _history_runs(joined, [len(each) for each in failing])
    return History(tuple(runs), tuple(_history_rows(joined, outcomes, failing)),
                   COLUMN_WIDTH * len(joined), TALLEST_BAR + _NUMBER_HEIGHT)


def _select_subjects(file: File, subjects: set[str]) -> list[RunRecord]:
    return [RunRecord(run.header,
                      tuple(known for known in run.subjects if known.card.id in subjects),
                      tuple(outcome for outcome in run.outcomes if outcome.subject in subjects),
                      run.footer)
            for run in file]


def _failing_items(outcomes: Mapping[Item, Sequence[Outcome]], *, strict: bool) -> set[Item]:
    return {item for item, each in outcomes.items()
            if any(fails_and_gates(one, strict=strict) for one in each)}


def _history_rows(joined: Sequence[JoinedRecords],
                  outcomes: Sequence[Mapping[Item, Sequence[Outcome]]],
                  failing: Sequence[set[Item]]) -> Iterator[HistoryRow]:
    """Makes a row for each clause that some run violates; those of the newest run come first."""
    texts = {clause.id: clause for each in joined for clause in each.clauses}
    order = list(texts)
    latest = failing[-1] if failing else set()
    for item in sorted(set().union(*failing),
                       key=lambda item: (item not in latest, item[0], order.index(item[1]))):
        yield HistoryRow(item[0], texts[item[1]],
                         tuple(_history_cell(each.get(item, [])) for each in outcomes))


def _group_item_outcomes(joined: JoinedRecords) -> Mapping[Item, Sequence[Outcome]]:
    groups: dict[Item, list[Outcome]] = {}
    for outcome in joined.outcomes.values():
        groups.setdefault((outcome.subject, outcome.clause), []).append(outcome)
    return groups


def _history_cell(outcomes: Sequence[Outcome]) -> HistoryCell:
    if not outcomes:
        return HistoryCell(None, "not asked")
    sign = SIGNS[overall_verdict(outcome.verdict for outcome in outcomes)]
    words = (f"{each.dtype.value} {SIGNS[each.verdict].word}" for each in outcomes)
    return HistoryCell(sign, ", ".join(words))


def _history_runs(joined: Sequence[JoinedRecords], numbers: Sequence[int]) -> Iterator[HistoryRun]:
    """Makes the bars. numbers: how many clauses each run violated."""
    most = max([1, *numbers])
    for place, (each, violated) in enumerate(zip(joined, numbers, strict=True)):
        records = [run.record for run in each.runs]
        height = TALLEST_BAR * violated / most
        yield HistoryRun(
            number=place + 1, started=records[0].header.started, words=_run_words(each),
            violated=violated,
            is_judged=any(outcome.verdict in DECIDED for outcome in each.outcomes.values()),
            is_whole=not any(record.is_interrupted for record in records), x=COLUMN_WIDTH * place,
            y=round(_NUMBER_HEIGHT + TALLEST_BAR - height, 1), height=round(height, 1))


def _run_words(joined: JoinedRecords) -> str:
    """`torch 2.13.0; effort quick, seed 0, spec 1234abcd`."""
    versions = dict.fromkeys(subject.card.release for subject in joined.subjects)
    header = joined.runs[0].record.header
    settings = f"effort {header.effort}, seed {header.seed}, spec {header.spec_digest[:8]}"
    return "; ".join(filter(None, [", ".join(filter(None, versions)), settings]))
