"""`campaign`: sound implementations judged on cases by the million. Started again on the same record, it goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from attnspec.campaign.docket import CAMPAIGN, RECIPES_OF, code_of, recipes_of, with_blocks
from attnspec.campaign.resume import begun
from attnspec.campaign.rows import RECIPES, needed, rows_of
from attnspec.campaign.subjects import CHOSEN, in_order
from attnspec.cli.campaign_console import Counting, table, verdict
from attnspec.cli.defect import own_up
from attnspec.cli.options import IMPLEMENTATIONS, SPEC, Given, OneOf, available_cpus, plan_from, typed
from attnspec.cli.targets import known_targets
from attnspec.ground.nouns import DType
from attnspec.ground.plan import Plan
from attnspec.record.campaign import BlockJudged
from attnspec.record.read import RunRecord, read_record
from attnspec.record.resume import reopen
from attnspec.record.write import RecordWriter
from attnspec.runner.session import Result, Session
from attnspec.runner.surroundings import environment

RECORD = Path("reports") / "run" / "campaign.jsonl"  # not named by the time, so that the next start goes on with it
ROUNDS = 5  # at most, in one command: how many cases a block holds is only known when it is judged


@click.command()
@click.option("--target", "targets", multiple=True, metavar="PATTERN",
              help="A sound implementation, or a pattern like 'sound/*'. [default: those of the campaign]")
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType), help="Only this dtype.")
@click.option("--cases", default=1_000_000, show_default=True, type=click.IntRange(1), help="How many in all.")
@click.option("--seed", default=0, show_default=True, help="Another seed draws other cases.")
@click.option("--record", default=RECORD, show_default=True, metavar="PATH",
              type=click.Path(dir_okay=False, path_type=Path),
              help="Where blocks of cases are kept; a campaign that is there goes on.")
@click.option("-n", "--workers", default=available_cpus, type=click.IntRange(1), metavar="N",
              help="Processes that judge. [default: one a CPU]")
@click.option("--recipes", default=RECIPES, show_default=True, type=click.IntRange(1), metavar="N",
              help="Problems of each kind in a block: fewer make shorter blocks.")
@click.option("--deadline", default=900.0, show_default=True, type=click.FloatRange(0, min_open=True),
              metavar="SECONDS", help="How long one block may take.")
@click.option("--html", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path), help="Write a page, too.")
@IMPLEMENTATIONS
@SPEC
def campaign(cases: int, record: Path, workers: int, html: Path | None, **selected: Given) -> int:
    """Judge sound implementations on a million cases; none may be accused.

    Interrupted, or asked for more cases, it goes on in the same record. Exit codes: 0 no violation, 1 one that is no
    known finding, 2 not all cases were judged.
    """
    judged = _Campaign(_plan(**selected), cases, record, workers).run()
    for line in table(judged.blocks):
        click.echo(line)
    click.echo(f"record: {record}")
    if html:
        _write_page(judged, html)
    code = code_of(judged.blocks, cases)
    click.echo(verdict(code, sum(block.cases for block in judged.blocks), cases))
    return code


def _plan(targets: Sequence[str], recipes: int, **options: Given) -> Plan:
    plan = plan_from(targets or CHOSEN, options)
    plan = replace(plan, targets=in_order(plan.targets), more={RECIPES_OF: (str(recipes),)})
    known_targets(plan)
    return plan


@dataclass(frozen=True, slots=True)
class _Campaign:
    """How many cases of whom, and where they are kept."""

    plan: Plan
    cases: int
    path: Path
    workers: int

    def run(self) -> RunRecord:
        """Judge blocks in rounds until there are enough cases."""
        record = begun(self.path, self.plan, environment(self.workers))
        blocks = _judged(record)
        counting = Counting(sys.stdout, self.cases, blocks)
        for _ in range(ROUNDS):
            missing = needed(rows_of(self.plan), self.cases, blocks, recipes_of(self.plan))
            if not missing and record:
                break
            result = self._round(with_blocks(self.plan, missing), counting, goes_on=record is not None)
            record = read_record(self.path)
            blocks = _judged(record)
            if result.defects:
                own_up(result.defects)
            if result.interrupted or result.defects:
                break
        assert record is not None  # the first round has written it
        return record

    def _round(self, plan: Plan, counting: Counting, *, goes_on: bool) -> Result:
        if goes_on:
            reopen(self.path)
        session = Session(plan, workers=self.workers, command=typed(), docket=CAMPAIGN)
        return session.run([counting, RecordWriter(self.path, goes_on=goes_on)])


def _judged(record: RunRecord | None) -> Sequence[BlockJudged]:
    return [block for block in record.blocks if not block.lost] if record else []


def _write_page(record: RunRecord, path: Path) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page([record], path)
    click.echo(f"page: {path}")
