"""A measurement of power on the console: how far it is, and at its end a table, who escaped, and what convicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

import click
from attnspec.cli.digest import format_opening
from attnspec.cli.outputs import is_coloured
from attnspec.core.errors import CANNOT_RUN, VIOLATED
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.core.texts import count_noun
from attnspec.record.events import SUITE, Event, Handler, RunFinished, RunStarted, SubjectPut
from attnspec.record.read import RunRecord

from evaluation.cli.running_line import RunningLine
from evaluation.power.against import Fallen, PowerComparison
from evaluation.power.jobs import comparison
from evaluation.report.power_figures import Escapee, FaultGroup, RuleShare, percent
from evaluation.report.power_view import AT_SIZES, Power, RuleRow, power

LISTED = 20   # faults that are told one by one of each kind
_GAP = "   "


class SubjectCounter(Handler):
    """A handler that tells how many subjects have been put, and at once who was lost or accused without cause."""

    def __init__(self, stream: TextIO) -> None:
        self._line = RunningLine(stream)
        self._done, self._missed, self._lost, self._of = 0, 0, 0, 0

    def handle(self, event: Event) -> None:
        """Count."""
        match event:
            case RunStarted():
                self._of = event.items
                self._line.say(format_opening(event))
            case SubjectPut():
                self._count(event)
            case RunFinished():
                self._line.wipe()

    def shutdown(self) -> None:
        """Leave the line clean, also after an interruption."""
        self._line.wipe()

    def _count(self, put: SubjectPut) -> None:
        self._done += 1
        suite = [said.convicted for said in put.convictions if said.rule == SUITE]  # empty where other rules are alone
        self._missed += put.is_fault and not put.equivalent and (bool(put.lost) or suite == [False])
        self._lost += bool(put.lost)
        if put.lost and self._lost <= LISTED:
            self._line.say(click.style(f"lost: {put.subject} {put.dtype.value}, {put.part}: {put.lost}", fg="red"))
        if self._line.is_due:
            missed = count_noun(self._missed, "fault")
            self._line.tell(f"{self._done} of {self._of} tested, {missed} not detected")


@dataclass(slots=True)
class PowerConsole(Handler):
    """Prints the table of power when the run is over. `places` are lines that say where record and page lie."""

    stream: TextIO
    plan: Plan
    places: Sequence[str] = ()
    _header: RunStarted | None = None
    _footer: RunFinished | None = None
    _puts: list[SubjectPut] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        """Keep it."""
        match event:
            case RunStarted():
                self._header = event
            case SubjectPut():
                self._puts.append(event)
            case RunFinished():
                self._footer = event

    def shutdown(self) -> None:
        """Print the summary, if the run came to an end (interrupted ones do, too)."""
        if self._header is None or self._footer is None:
            return
        record = RunRecord(self._header, (), (), self._footer, puts=tuple(self._puts))
        held = comparison(self._puts, self.plan)
        for line in (*summary(record), *format_comparison(held), "", *self.places, conclusion(record, held)):
            click.echo(line, file=self.stream, color=is_coloured(self.stream))


def summary(record: RunRecord) -> Iterator[str]:
    """The table, the faults that escaped, those that cannot be told, what convicted, and who was accused."""
    measured = power([record])
    assert measured is not None  # its header has rules
    yield ""
    yield from table(measured)
    yield from _list_escapees(measured)
    yield from _equivalent(measured)
    if measured.instruments:
        yield ""
        yield "detected by: " + ", ".join(f"{name or 'no instrument'} {count}" for name, count in measured.instruments)
    yield from _list_misnamed(measured)
    yield from _list_accused(measured)


def table(measured: Power) -> Iterator[str]:
    """One row a rule: convicted of faults at each dtype, cases to conviction, sound ones accused, rightly named."""
    head = ["rule", *(dtype.value for dtype in measured.dtypes), *([AT_SIZES] if measured.has_size_faults else []),
            "cases: median, 95 %, worst", "false alarms", "named rightly"]
    rows = [head, *(_row(row, measured) for row in measured.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(row: RuleRow, measured: Power) -> list[str]:
    accused = f"{row.accused.convicted} of {row.accused.tried}" if row.accused.tried else "–"
    named = percent(measured.naming.part) if row.rule == SUITE and measured.naming.tried else "–"
    at_sizes = [_share(row.at_sizes)] if measured.has_size_faults else []
    return [row.title, *map(_share, row.shares), *at_sizes, ", ".join(map(str, row.cases)), accused, named]


def _share(share: RuleShare | FaultGroup | None) -> str:
    """`312 of 327  95.4 %`."""
    return f"{share.convicted} of {share.tried}  {percent(share.part)}" if share and share.tried else "–"


def _list_escapees(measured: Power) -> Iterator[str]:
    if measured.suite is None or not measured.escapees:
        return
    yield ""
    yield click.style(f"Not detected: {count_noun(len(measured.escapees), 'fault')}", bold=True)
    for each in measured.escapees[:LISTED]:
        yield f"  {each.name} ({each.stage}; {_where(each)}){_story(each, measured)}"
    yield from _more(measured.escapees)


def _where(escapee: Escapee) -> str:
    """`float32`, or `float16 at 2 of 10 seeds`."""
    return ", ".join(dtype.value if tried == 1 else f"{dtype.value} at {missed} of {tried} seeds"
                     for dtype, missed, tried in escapee.missed)


def _story(escapee: Escapee, measured: Power) -> str:
    text = escapee.lost or measured.texts[escapee.name].story
    return f": {text}" if text else ""


def _more(things: Sequence[object]) -> Iterator[str]:
    if len(things) > LISTED:
        yield f"  and {len(things) - LISTED} more, in the record"


def _equivalent(measured: Power) -> Iterator[str]:
    if measured.equivalents:
        yield ""
        yield "Not counted, since it gives no wrong answer there:"
        for each in measured.equivalents[:LISTED]:
            yield f"  {each.name} ({_join_dtypes(each.dtypes)}): {each.reason}"
        yield from _more(measured.equivalents)


def _list_misnamed(measured: Power) -> Iterator[str]:
    wrong = measured.naming.wrong
    if not measured.naming.tried or not wrong:
        return
    yield ""
    yield f"Detected, but diagnosed as another fault: {count_noun(len(wrong), 'fault')}"
    for each in wrong[:LISTED]:
        yield f"  {each.name} ({_join_dtypes(each.dtypes)}): {each.named or 'no fault explains it'}"
    yield from _more(wrong)


def _list_accused(measured: Power) -> Iterator[str]:
    alarms = [alarm for alarm in (measured.suite.alarms if measured.suite else ()) if alarm and alarm.accused]
    for alarm in alarms:
        told_of = f"{', '.join(alarm.accused)} fail at {alarm.dtype.value}, though correct"
        yield click.style(told_of, fg="red", bold=True)


def format_comparison(held: PowerComparison | None) -> Iterator[str]:
    """How the measurement stands to the earlier one."""
    if held is None:
        return
    yield ""
    for each in held.fallen:
        yield click.style(_format_fallen(each), fg="red", bold=True)
    for fall in held.falls:
        yield click.style(f"{fall.dtype.value}: {percent(fall.now)} of the faults are detected, "
                          f"{percent(fall.before)} were before", fg="red")
    for name, is_convicted in held.new.items():
        yield f"new: {name}, {'detected' if is_convicted else 'not detected'}"
    yield from (f"gone: {name}" for name in held.gone)
    if not held.fell:
        yield "Every fault that was detected before still is."


def _format_fallen(fallen: Fallen) -> str:
    was = f" ({fallen.clause} did)" if fallen.clause else ""
    return (f"{fallen.name} is no longer detected at {fallen.dtype.value}, seed {fallen.seed}{was}: {fallen.because}")


def conclusion(record: RunRecord, held: PowerComparison | None) -> str:
    """What the run comes to, with the exit code."""
    footer = record.footer
    assert footer is not None  # it is asked for at the end
    end = f"(exit code {footer.exit_code})"
    if footer.interrupted:
        return f"Interrupted: the rest was not tested. {end}"
    if footer.exit_code == CANNOT_RUN:
        return f"Not everything could be tested. {end}"
    if footer.exit_code == VIOLATED:
        accused = "False alarm: a correct implementation fails. " if footer.counts.get("accused") else ""
        return f"{_fell(held)}{accused}{end}"
    return f"Measured in {footer.seconds:.0f} s. {end}"


def _fell(held: PowerComparison | None) -> str:
    if held is None or not held.fell:
        return ""
    lost = len({fallen.name for fallen in held.fallen})
    return f"Power has fallen: {count_noun(lost, 'fault')} no longer detected. "


def _join_dtypes(dtypes: Sequence[DType]) -> str:
    return ", ".join(dtype.value for dtype in dtypes)
