"""The runs of a folder, oldest to newest: which clauses each of them violated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord
from attnspec.record.visible import show_hidden
from attnspec.report.comparison import fails_and_gates
from attnspec.report.figures import DECIDED, SIGNS, Sign, overall_verdict
from attnspec.report.joined import JoinedRecords, join_records

COLUMN = 34   # width of a column of the picture, as of the table below it
HEIGHT = 64   # of the tallest bar
_ROOM = 16    # above a bar, for its number

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
    found = [_by_clause(each) for each in joined]
    failing = [{item for item, outcomes in each.items() if any(fails_and_gates(one, strict=strict) for one in outcomes)}
               for each in found]
    runs = _runs(joined, [len(each) for each in failing])
    return History(tuple(runs), tuple(_rows(joined, found, failing)), COLUMN * len(joined), HEIGHT + _ROOM)


def _keep_subjects(file: File, subjects: set[str]) -> list[RunRecord]:
    """The file with the outcomes of these subjects alone."""
    return [RunRecord(run.header, tuple(known for known in run.subjects if known.card.id in subjects),
                      tuple(outcome for outcome in run.outcomes if outcome.subject in subjects), run.footer)
            for run in file]


def _rows(joined: Sequence[JoinedRecords], found: Sequence[Mapping[Item, Sequence[Outcome]]],
          failing: Sequence[set[Item]]) -> Iterator[HistoryRow]:
    """Those that the newest run violates come first."""
    texts = {clause.id: clause for each in joined for clause in each.clauses}
    order = list(texts)
    latest = failing[-1] if failing else set()
    for item in sorted(set().union(*failing), key=lambda item: (item not in latest, item[0], order.index(item[1]))):
        yield HistoryRow(item[0], texts[item[1]], tuple(_cell(each.get(item, [])) for each in found))


def _by_clause(joined: JoinedRecords) -> Mapping[Item, Sequence[Outcome]]:
    found: dict[Item, list[Outcome]] = {}
    for outcome in joined.outcomes.values():
        found.setdefault((outcome.subject, outcome.clause), []).append(outcome)
    return found


def _cell(outcomes: Sequence[Outcome]) -> HistoryCell:
    if not outcomes:
        return HistoryCell(None, "not asked")
    sign = SIGNS[overall_verdict(outcome.verdict for outcome in outcomes)]
    return HistoryCell(sign, ", ".join(f"{each.dtype.value} {SIGNS[each.verdict].word}" for each in outcomes))


def _runs(joined: Sequence[JoinedRecords], numbers: Sequence[int]) -> Iterator[HistoryRun]:
    """numbers: how many clauses each of them violated."""
    most = max([1, *numbers])
    for place, (each, violated) in enumerate(zip(joined, numbers, strict=True)):
        records = [run.record for run in each.runs]
        high = HEIGHT * violated / most
        yield HistoryRun(
            number=place + 1, started=records[0].header.started, words=_words(each), violated=violated,
            is_judged=any(outcome.verdict in DECIDED for outcome in each.outcomes.values()),
            is_whole=not any(record.interrupted for record in records), x=COLUMN * place,
            y=round(_ROOM + HEIGHT - high, 1), height=round(high, 1))


def _words(joined: JoinedRecords) -> str:
    """`torch 2.13.0; effort quick, seed 0, spec 1234abcd`."""
    versions = dict.fromkeys(subject.card.release for subject in joined.subjects)
    header = joined.runs[0].record.header
    made = f"effort {header.effort}, seed {header.seed}, spec {header.spec_digest[:8]}"
    return "; ".join(filter(None, [", ".join(filter(None, versions)), made]))
