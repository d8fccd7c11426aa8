"""`attnspec rank`: judges many kernels, and prints each in a line. It resumes a record."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from attnspec.cli import completion
from attnspec.cli.group import own_up
from attnspec.cli.options import (
    CLUSTER,
    COUNT,
    IMPLEMENTATIONS,
    JSON,
    LIFT,
    MUST_TAKE,
    RANDOM_SEED,
    SEED_OR_RANDOM,
    SPEC,
    SPEC_ADD,
    WORKERS,
    Given,
    OneOf,
    Seconds,
    available_cpus,
    cluster_carrier,
    in_run_order,
    keep_apart,
    plan_from,
    shard_options,
    sharing_of,
    surroundings,
    typed_command,
)
from attnspec.cli.outputs import VisibleHandler, is_coloured
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.core.texts import count_noun
from attnspec.ranking.jobs import (
    RANKING_SOURCE,
    as_ranking,
    count_standings,
    file_digest,
    find_kernels,
    ranking_exit_code,
    resume_ranking,
)
from attnspec.record.events import Event, Handler, ItemStarted, KernelRanked, KernelStanding, SubjectKnown
from attnspec.record.read import RunRecord, read_record, show_hidden
from attnspec.record.write import RecordWriter, StreamWriter, WriteMode, reopen_record
from attnspec.runner.session import INTERRUPTED, UNREACHED, Result, Session

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier


# not named by the time, so that the next start goes on with it
RANK_RECORD = Path("reports") / "run" / "rank.jsonl"
SEEDS_BELOW = 2**31  # of seeds that are drawn

STANDING_WORDS = {KernelStanding.CONFORMS: "conforms", KernelStanding.VIOLATED: "does not conform",
                  KernelStanding.NOT_JUDGED: "not judged"}
_COLOURS = {KernelStanding.CONFORMS: "green", KernelStanding.VIOLATED: "red",
            KernelStanding.NOT_JUDGED: "yellow"}
_EXIT_COLOURS = {CONFORMS: "green", VIOLATED: "red", CANNOT_RUN: "yellow"}


class KernelLines(Handler):
    """A handler that prints a line for each kernel that is judged."""

    def __init__(self, stream: TextIO, done: int, wanted: int) -> None:
        self._stream, self._done, self._wanted = stream, done, wanted

    def handle(self, event: Event) -> None:
        """Prints a kernel."""
        if isinstance(event, KernelRanked):
            self._done += 1
            count = f"{self._done:>{len(str(self._wanted))}}/{self._wanted}"
            click.echo(f"{count}  {line_of(event)}", file=self._stream, color=is_coloured(self._stream))
            self._stream.flush()


def line_of(kernel: KernelRanked) -> str:
    """`0.93  does not conform  k.py:attend  0.8 s  causal.definition: …`."""
    standing = click.style(f"{STANDING_WORDS[kernel.verdict]:<16}", fg=_COLOURS[kernel.verdict])
    score = "   -" if kernel.verdict is KernelStanding.NOT_JUDGED else f"{kernel.score:.2f}"
    line = f"{score}  {standing}  {kernel.subject}  {kernel.seconds:.1f} s"
    if reason := _format_kernel_reason(kernel):
        line += f"  {reason}"
    return line


def _format_kernel_reason(kernel: KernelRanked) -> str:
    if kernel.lost or kernel.verdict is KernelStanding.NOT_JUDGED:
        return (kernel.lost or kernel.reason).partition("\n")[0]
    if kernel.first is None:
        if kernel.refused:
            return f"refuses {', '.join(kernel.refused)}"
        return ""
    cause = kernel.first.cause or kernel.first.seen.partition("\n")[0]
    stopped = f"; {kernel.stopped}" if kernel.stopped else ""
    return f"{kernel.first.clause}: {cause}{stopped}"


class KernelsAlone:
    """Hands on kernels that were judged, the header and the footer, and no other events."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.start, self.shutdown = handler.start, handler.shutdown

    def handle(self, event: Event) -> None:
        """Hands on an event, unless it says that a kernel was begun or not reached."""
        is_unreached = isinstance(event, KernelRanked) and event.lost in {INTERRUPTED, UNREACHED}
        if not (is_unreached or isinstance(event, ItemStarted | SubjectKnown)):
            self._handler.handle(event)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...",
                shell_complete=completion.targets)
@click.option("--function", default="", metavar="NAME",
              help="The function of files for which none is named. [default: attend, or the only one]")
@click.option("--stop-after", default=None, type=COUNT, metavar="N",
              help="Drop a kernel after N failing clauses.")
@click.option("--effort", default=Effort.GLANCE.value, show_default=True,
              type=OneOf("effort", Effort),
              help="How many cases to try.")
@click.option("--profile", "profiles", multiple=True, metavar="NAME",
              shell_complete=completion.profiles,
              help="Only the clauses of this profile.")
@click.option("--clause", "clauses", multiple=True, metavar="ID",
              shell_complete=completion.clauses,
              help="Only this clause; 'causal.*' is all of a theme.")
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
              help="Only this dtype.")
@click.option("--strict", is_flag=True, help="A violated `should` clause counts, too.")
@click.option("--seed", default="0", show_default=True, type=SEED_OR_RANDOM,
              help="The cases are drawn from this seed; 'random' draws one.")
@LIFT
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
@click.option("--deadline", default=30.0, show_default=True, type=Seconds(), metavar="SECONDS",
              help="How long one clause at one dtype may take.")
@surroundings
@MUST_TAKE
@click.option("-n", "--workers", default=available_cpus, type=WORKERS, metavar="N",
              help="Worker processes. [default: one per CPU]")
@click.option("--record", default=RANK_RECORD, show_default=True, metavar="PATH",
              type=click.Path(dir_okay=False, path_type=Path),
              help="The record, a line for each kernel. If it exists, the ranking goes on in it.")
@click.option("--html", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write an HTML page that compares them.")
@JSON
@shard_options
@CLUSTER
def rank(targets: tuple[str, ...], record: Path, html: Path | None, **options: Given) -> int:
    """Judge many kernels, and compare them: one line for each, as soon as it is known.

    TARGET is a target of `check`, a file or a folder of kernels, a pattern such as
    'kernels/*.py:attend', or a .txt file with a target on each line. A killed run goes on where it
    was. Exit codes: 0 all conform, 1 one does not, 2 one could not be judged, or the run was
    interrupted.
    """
    keep_apart({"--record": record, "--html": html})
    as_json, workers = options.pop("as_json"), options.pop("workers")
    stream = sys.stderr if as_json else sys.stdout
    with cluster_carrier(options) as carrier:
        plan = _plan_of_ranking(targets, record, options, stream)
        ranking = _Ranking(plan, record, workers, stream, is_json=as_json, carrier=carrier)
        judged, result = ranking.run()
    if html:
        _write_ranking_page(judged, html, stream)
    return _conclude_ranking(judged, plan, result, record, stream)


def _plan_of_ranking(targets: Sequence[str], record: Path, options: dict[str, Given],
                     stream: TextIO) -> Plan:
    sharing, stop_after = sharing_of(options), options.pop("stop_after") or 0
    contract = " ".join(options.pop("must_take"))
    kernels = find_kernels(targets, options.pop("function"))
    if options["seed"] == RANDOM_SEED:
        options["seed"] = _choose_seed(record, stream)
    plan = plan_from(kernels, options)
    return as_ranking(replace(plan, must_take=contract), stop_after, sharing)


def _choose_seed(record: Path, stream: TextIO) -> int:
    """Draws a seed, or takes that of the record which the ranking resumes."""
    if record.exists() and record.stat().st_size:
        seed, origin = read_record(record).header.seed, "from the record"
    else:
        seed, origin = secrets.randbelow(SEEDS_BELOW), "drawn"
    click.echo(f"seed: {seed} ({origin}; --seed {seed} draws the same cases)", file=stream)
    return seed


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Judges the kernels of a plan, and writes their lines into a record."""

    plan: Plan
    path: Path
    workers: int
    stream: TextIO
    is_json: bool
    carrier: ClusterCarrier | None = None

    def run(self) -> tuple[RunRecord, Result | None]:
        """Judges the kernels that the record lacks; returns the record, and the run's result."""
        record, targets = resume_ranking(self.path, self.plan), self.plan.targets
        known = {rank.subject: rank for rank in record.ranks if not rank.lost} if record else {}
        stale = [name for name, rank in known.items()
                 if name in targets and rank.digest != file_digest(name)]
        left = tuple(each for each in targets if each not in known or each in stale)
        mode = WriteMode.REPLACE
        if record and not left:
            return record, None
        if record:
            mode = WriteMode.GO_ON
            reopen_record(self.path, stale)
        done = len(targets) - len(left)
        if done:
            click.echo(f"{done} of {count_noun(len(targets), 'kernel')} stand in {self.path} already.",
                       file=self.stream)
        session = Session(replace(self.plan, targets=left), workers=self.workers,
                          command=typed_command(), source=RANKING_SOURCE, carrier=self.carrier)
        result = session.run(self._handlers(done, mode))
        in_run_order(self.carrier, self.path, result)
        return read_record(self.path), result

    def _handlers(self, done: int, mode: WriteMode) -> list[Handler]:
        lines = VisibleHandler(KernelLines(self.stream, done, len(self.plan.targets)))
        handlers: list[Handler] = [lines, RecordWriter(self.path, mode)]
        if self.is_json:
            handlers.append(StreamWriter(sys.stdout))
        return [*map(KernelsAlone, handlers)]


def _write_ranking_page(record: RunRecord, path: Path, stream: TextIO) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page([record], path)
    click.echo(f"page: {path}", file=stream)


def _count_standing(standing: KernelStanding, count: int) -> str:
    """`1 conforms`, `2 do not conform`."""
    plurals = {KernelStanding.CONFORMS: "conform", KernelStanding.VIOLATED: "do not conform"}
    word = STANDING_WORDS[standing]
    return f"{count} {word if count == 1 else plurals.get(standing, word)}"


def _conclude_ranking(record: RunRecord, plan: Plan, result: Result | None, path: Path,
                      stream: TextIO) -> int:
    """Prints what the ranking comes to, and returns its exit code."""
    if result and result.defects:
        own_up(result.defects)
    ranks = [rank for rank in show_hidden(record.ranks)
             if rank.subject in plan.targets and not rank.lost]
    is_short = (bool(result and (result.is_interrupted or result.defects))
                or len(ranks) < len(plan.targets))
    code = ranking_exit_code(ranks, interrupted=is_short)
    click.echo(f"record: {path}", file=stream)
    counts = (_count_standing(KernelStanding(name), count)
              for name, count in count_standings(ranks).items())
    standings = ", ".join(counts) or "no kernel judged"
    text = f"{count_noun(len(ranks), 'kernel')}: {standings}."
    if is_short:
        text = (f"{len(ranks)} of {count_noun(len(plan.targets), 'kernel')}: {standings}. "
                "Run the same command again to go on.")
    line = click.style(f"{text} (exit code {code})", fg=_EXIT_COLOURS[code], bold=True)
    click.echo(line, file=stream, color=is_coloured(stream))
    return code
