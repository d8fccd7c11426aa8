"""`campaign`: sound implementations judged on cases by the million. Started again on the same record, it goes on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import click
from attnspec.cli.group import own_up
from attnspec.cli.options import (
    COUNT,
    IMPLEMENTATIONS,
    SEED,
    SHARD,
    SPEC,
    WORKERS,
    Given,
    OneOf,
    Seconds,
    available_cpus,
    checked_plan,
    keep_apart,
    typed_command,
)
from attnspec.cli.outputs import VisibleHandler
from attnspec.core.errors import CONFORMS, VIOLATED
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan, Shard
from attnspec.core.texts import count_noun
from attnspec.record.events import BlockJudged, Event
from attnspec.record.read import RunRecord, read_record, show_hidden
from attnspec.record.write import RecordWriter, WriteMode, reopen_record
from attnspec.runner.session import Result, Session, describe_environment
from attnspec.subjects.findings import findings_of

from evaluation import PROGRAM
from evaluation.cli.running_line import RunningLine
from evaluation.false_alarms.jobs import (
    CAMPAIGN,
    RECIPES_OF,
    as_part,
    cases_of_part,
    code_of,
    recipes_of,
    reopen_campaign,
    rows_of_part,
    with_blocks,
)
from evaluation.false_alarms.rows import CHOSEN, RECIPES, blocks_needed, in_order
from evaluation.report.false_alarms import Margins, margins


class CaseCounter:
    """A handler that tells how many cases there are so far; it lives through all rounds of a command."""

    def __init__(self, stream: TextIO, wanted: int, kept: Sequence[BlockJudged]) -> None:
        self._line, self._wanted = RunningLine(stream), wanted
        self._cases = self._before = sum(block.cases for block in kept)
        self._accused = sum(block.violations for block in kept)
        self._began = time.monotonic()

    def start(self) -> None:
        """Say where the campaign stands."""
        self._tell()

    def handle(self, event: Event) -> None:
        """Count a block; a violation or a loss is told at once."""
        if not isinstance(event, BlockJudged):
            return
        self._cases += event.cases
        self._accused += event.violations
        for line in alarms(event):
            self._line.say(click.style(line, fg="red"))
        if self._line.is_due:
            self._tell()

    def shutdown(self) -> None:
        """The last word of a round."""
        self._tell()
        self._line.keep()

    def _tell(self) -> None:
        new, seconds = self._cases - self._before, time.monotonic() - self._began
        pace = f", {1000 * seconds / new:.2f} ms a case" if new else ""
        self._line.tell(f"{self._cases:,} of {self._wanted:,} cases, {count_noun(self._accused, 'violation')}{pace}")


def alarms(block: BlockJudged) -> Iterator[str]:
    """What is told of a block at once: lines to replay, and at which case the process died."""
    yield from (f"violated: attnspec replay '{line}'" for line in block.accused)
    if block.lost and block.violations:
        yield f"died: {block.subject} {block.dtype.value} {block.part}: {block.lost}"


def table(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    """A line a row, the totals, and the findings that were known."""
    rows = margins(blocks)
    width = max((len(row.subject) for row in rows), default=0)
    yield f"{'subject':<{width}}  {'dtype':<8}  {'cases':>9}  {'slices':>10}  violations  worst margin"
    for row in rows:
        closest = f"{row.margin:>12.4f}  {row.clause}" if row.worst else f"{'none':>12}"
        yield (f"{row.subject:<{width}}  {row.dtype.value:<8}  {row.cases:>9,}  {row.slices:>10,}  "
               f"{row.violations:>10}  {closest}")
    yield _totals(rows)
    yield from _list_violations(rows)
    yield from _list_lost_blocks(blocks)
    yield from _list_known_findings(blocks)


def _totals(rows: Sequence[Margins]) -> str:
    subjects = len({row.subject for row in rows})
    cases = f"{sum(row.cases for row in rows):,} cases"
    return (f"{cases} of {count_noun(subjects, 'subject')} in {count_noun(len(rows), 'row')}, "
            f"{sum(row.slices for row in rows):,} head slices: "
            f"{count_noun(sum(row.violations for row in rows), 'violation')}; no claim on "
            f"{sum(row.no_claims for row in rows):,} more problems, which the rounding bound does not cover.")


def _list_violations(rows: Sequence[Margins]) -> Iterator[str]:
    for row in rows:
        yield from (click.style(f"violated: attnspec replay '{line}'", fg="red") for line in row.accused)


def _list_lost_blocks(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    for reason, count in Counter(block.lost for block in blocks if block.lost).items():
        first = next(block for block in blocks if block.lost == reason)
        more = f" and {count_noun(count - 1, 'block')} more" if count > 1 else ""
        yield f"not judged: {first.subject} {first.dtype.value} {first.part}{more}: {reason}"


def _list_known_findings(blocks: Sequence[BlockJudged]) -> Iterator[str]:
    for name in dict.fromkeys(name for block in blocks for name in block.known):
        met: Counter[str] = Counter()
        for block in blocks:
            met[block.subject] += block.known.get(name, 0)
        where = ", ".join(f"{count_noun(count, 'case')} of {subject}" for subject, count in met.items() if count)
        yield f"known finding, counted neither as held nor as violated: {name} ({where}). {_says(name)}".rstrip()


def _says(name: str) -> str:
    """What the library's folder says of a finding; empty where a record names one that is there no more."""
    return next((finding.says for finding in findings_of(name.partition("/")[0], ()) if finding.id == name), "")


def verdict(code: int, cases: int, wanted: int) -> str:
    """What the campaign comes to, in one line."""
    if code == VIOLATED:
        return "False alarm: a correct implementation fails. Either it or the suite is wrong. (exit code 1)"
    if code == CONFORMS:
        return f"No false alarm in {cases:,} cases. (exit code 0)"
    return (f"{cases:,} of {wanted:,} cases were judged. Run the same command again to continue. "
            "(exit code 2)")


RECORD = Path("reports") / "run" / "campaign.jsonl"  # not named by the time, so that the next start goes on with it
ROUNDS = 5  # at most, in one command: how many cases a block holds is only known when it is judged


@click.command()
@click.option("--target", "targets", multiple=True, metavar="PATTERN",
              help="A correct implementation, or a pattern like 'sound/*'. [default: those of the campaign]")
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType), help="Only this dtype.")
@click.option("--cases", default=1_000_000, show_default=True, type=COUNT, help="How many cases in all.")
@click.option("--seed", default=0, show_default=True, type=SEED, help="The cases are drawn from this seed.")
@click.option("--record", default=RECORD, show_default=True, metavar="PATH",
              type=click.Path(dir_okay=False, path_type=Path),
              help="The record of the campaign. If it exists, the campaign continues.")
@click.option("-n", "--workers", default=available_cpus, type=WORKERS, metavar="N",
              help="Worker processes. [default: one per CPU]")
@click.option("--recipes", default=RECIPES, show_default=True, type=COUNT, metavar="N",
              help="Problems of each kind in a block. Fewer make shorter blocks.")
@click.option("--deadline", default=900.0, show_default=True, type=Seconds(),
              metavar="SECONDS", help="How long one block may take.")
@click.option("--html", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write an HTML page.")
@IMPLEMENTATIONS
@SPEC
@SHARD
def campaign(cases: int, record: Path, workers: int, html: Path | None, shard: Shard | None, **selected: Given) -> int:
    """Judge correct implementations on a million cases, to count false alarms: none may fail.

    If it was interrupted, or if you ask for more cases, it continues in the same record. Exit codes: 0 no violation, 1
    a violation that is not a known finding, 2 not all cases were judged.
    """
    keep_apart({"--record": record, "--html": html})
    plan = as_part(_plan(**selected), shard, cases)
    cases = cases_of_part(plan, cases)
    judged = _Campaign(plan, cases, record, workers).run()
    for line in table(show_hidden(judged.blocks)):
        click.echo(line)
    click.echo(f"record: {record}")
    if html:
        _write_page(judged, html)
    code = code_of(judged.blocks, cases)
    click.echo(verdict(code, sum(block.cases for block in judged.blocks), cases))
    return code


def _plan(targets: Sequence[str], recipes: int, **options: Given) -> Plan:
    plan = checked_plan(targets or CHOSEN, options)
    return replace(plan, targets=in_order(plan.targets), more={RECIPES_OF: (str(recipes),)})


@dataclass(frozen=True, slots=True)
class _Campaign:
    """How many cases of whom, and where they are kept."""

    plan: Plan
    cases: int
    path: Path
    workers: int

    def run(self) -> RunRecord:
        """Judge blocks in rounds until there are enough cases."""
        record = reopen_campaign(self.path, self.plan, describe_environment(self.workers))
        blocks = _judged_blocks(record)
        counting = CaseCounter(sys.stdout, self.cases, blocks)
        for _ in range(ROUNDS):
            missing = blocks_needed(rows_of_part(self.plan), self.cases, blocks, recipes_of(self.plan))
            if not missing and record:
                break
            result = self._round(with_blocks(self.plan, missing), counting, goes_on=record is not None)
            record = read_record(self.path)
            blocks = _judged_blocks(record)
            if result.defects:
                own_up(result.defects)
            if result.is_interrupted or result.defects:
                break
        assert record is not None  # the first round has written it
        return record

    def _round(self, plan: Plan, counting: CaseCounter, *, goes_on: bool) -> Result:
        if goes_on:
            reopen_record(self.path)
        session = Session(plan, workers=self.workers, command=typed_command(PROGRAM), source=CAMPAIGN)
        return session.run([VisibleHandler(counting),
                            RecordWriter(self.path, WriteMode.GO_ON if goes_on else WriteMode.REPLACE)])


def _judged_blocks(record: RunRecord | None) -> Sequence[BlockJudged]:
    return [block for block in record.blocks if not block.lost] if record else []


def _write_page(record: RunRecord, path: Path) -> None:
    from evaluation.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page([record], path)
    click.echo(f"page: {path}")
