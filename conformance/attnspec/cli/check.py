"""The commands that run subjects: `check`, `audit`, `replay`, `tour`, `smoke` and `rank`.

What can be told of one function in a second is told first, before the clauses, pytest and a worker are loaded. `rank`
puts many kernels, a line each as soon as it is known; started again on the same record, it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from attnspec.cli import completion
from attnspec.cli.baseline import BASELINE, UPDATE, BaselineFile
from attnspec.cli.conclusion import Detail
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import (
    CLUSTER,
    DEADLINE,
    IMPLEMENTATIONS,
    LIFT,
    MUST_TAKE,
    SIZES,
    SPEC,
    SPEC_ADD,
    TARGETS,
    VARIANTS,
    VERBOSE,
    WORKERS,
    Given,
    audit_there,
    available_cpus,
    cluster_carrier,
    in_run_order,
    judgeable_subjects,
    keep_apart,
    known_targets,
    plan_from,
    remaining_targets,
    run_options,
    selection,
    shard_options,
    sharing_of,
    surroundings,
    typed_command,
)
from attnspec.cli.outputs import BADGE, JUNIT, GitHub, HandlerGroup, Outputs, verdict_files
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, AttnspecError, EndedError
from attnspec.core.forms import AS_DECLARED, foretold_variants, read_variants
from attnspec.core.nouns import DType, Effort, is_bare
from attnspec.core.plan import Plan
from attnspec.core.sizes import foretell_costs, read_all
from attnspec.core.texts import escape_hidden
from attnspec.runner.judge import AUDIT, LIBRARIES, TRIALS, read_replay
from attnspec.runner.session import Session
from attnspec.subjects.outline import check_unloaded, loads_at_once

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier
    from attnspec.subjects.smoke import SmokeLine
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from attnspec.cli.group import own_up
from attnspec.cli.options import (
    JSON,
    MANY,
    RANDOM,
    SEED_OR_RANDOM,
    OneOf,
    Seconds,
)
from attnspec.cli.outputs import VisibleHandler, is_coloured
from attnspec.ranking.jobs import (
    RANKING,
    as_ranking,
    code_of,
    count_standings,
    file_digest,
    find_kernels,
    resume_ranking,
)
from attnspec.record.events import Event, Handler, ItemStarted, KernelRanked, KernelStanding, SubjectKnown
from attnspec.record.read import RunRecord, read_record, show_hidden
from attnspec.record.write import RecordWriter, StreamWriter, WriteMode, reopen_record
from attnspec.report.figures import count_noun
from attnspec.runner.session import INTERRUPTED, UNREACHED, Result

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier


_FILES = ("junit", "badge", "baseline")
"""Beside the record and the page, what is made of a run also where the subject cannot be had."""


@click.command()
@TARGETS
@selection
@run_options
@shard_options
@CLUSTER
@VERBOSE
@BASELINE
@UPDATE
@JUNIT
@BADGE
@MUST_TAKE
@SIZES
@VARIANTS
def check(targets: tuple[str, ...], **options: Given) -> int:
    """Judge implementations.

    TARGET is a registered id (see `attnspec list`), package.module:function or path/to/file.py:function.
    """
    with cluster_carrier(options) as carrier:
        return _judge(targets, options, carrier=carrier)


@click.command()
@click.option("--library", "libraries", multiple=True, metavar="NAME", shell_complete=completion.libraries,
              help="Only this library: the part of the ids before the slash.")
@VARIANTS
@click.option("--without", multiple=True, metavar="ID", shell_complete=completion.targets,
              help="Leave out this subject; * stands for any text.")
@selection
@run_options
@shard_options
@CLUSTER
@VERBOSE
@BASELINE
@UPDATE
@JUNIT
@BADGE
def audit(libraries: tuple[str, ...], without: tuple[str, ...], **options: Given) -> int:
    """Judge every registered implementation whose framework is installed, and probe what it really does.

    Where clauses or profiles are asked for, nothing is probed.
    """
    audit_there(options)
    options["must_take"] = options["sizes"] = ()
    named, is_whole = read_variants(options["variants"]), not (options["clauses"] or options["profiles"])
    options["variants"] = named or ((AS_DECLARED,) if is_whole else ())
    source = AUDIT if is_whole else TRIALS
    with cluster_carrier(options) as carrier:
        targets = remaining_targets(judgeable_subjects(options["implementations"], libraries), without)
        return _judge(targets, options, source, {LIBRARIES: libraries}, carrier=carrier)


@click.command()
@click.argument("line")
@click.option("-v", "--verbose", is_flag=True, expose_value=False,
              help="Accepted, as by check. A replay shows everything anyway.")
@LIFT
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
@DEADLINE
@surroundings
def replay(line: str, **options: Given) -> int:
    """Judge one case again: LINE is what a report prints, 'TARGET CLAUSE DTYPE RECIPE'."""
    item, recipe = read_replay(line)
    plan = plan_from([item.target], {**options, "clauses": (item.clause,), "dtypes": (DType(item.dtype),)})
    known_targets(plan)
    return exit_code_of(Session(plan, command=typed_command(), recipe=recipe).run(Outputs.console().handlers()))


def _judge(targets: Sequence[str], options: dict[str, Given], source: str = TRIALS,
           more: Mapping[str, tuple[str, ...]] = MappingProxyType({}), *, carrier: ClusterCarrier | None) -> int:
    keep_apart({f"--{name}": options[name] for name in ("record", "html", "junit", "badge", "baseline")})
    detail = Detail.FULL if options.pop("verbose") else Detail.SHORT
    told = {name: options.pop(name) for name in ("record", "no_record", "html", "as_json")}
    is_kept = any((told["record"], told["html"], told["as_json"], *(options[name] for name in _FILES)))
    outputs = Outputs.from_options(**told, detail=detail)
    sharing = sharing_of(options)
    workers, baseline, files = options.pop("workers"), BaselineFile.from_options(options), verdict_files(options)
    outputs = replace(outputs, further_lines=tuple(each.place for each in files))
    if AS_DECLARED not in options["variants"]:
        options["variants"] = read_variants(options["variants"])
    contract, options["sizes"] = " ".join(options.pop("must_take")), read_all(options["sizes"])
    plan = replace(plan_from(targets, options), baseline=baseline.heeded_file, more=more, must_take=contract)
    known_targets(plan)
    github = GitHub.if_on_github(outputs.console_stream, plan.implementations)
    if source == TRIALS and carrier is None and not is_kept and not github:
        turn_away(plan)
    for line in (*foretell_costs(plan.sizes, plan.deadline), *foretold_variants(plan.variants)):
        click.echo(line, err=True)
    known = baseline.handlers(strict=plan.strict, folders=plan.implementations)
    written = HandlerGroup([*outputs.kept_handlers, *known, *files, *github])
    handlers = [*outputs.handlers(written), written]
    session = Session(plan, workers=workers, command=typed_command(), source=source, sharing=sharing, carrier=carrier)
    result = session.run(handlers)
    in_run_order(carrier, outputs.record, result)
    return exit_code_of(result)


AT_MOST = 5.0
"""Seconds that the few calls here may take together; what takes longer is left to the run, which has its deadline."""


def turn_away(plan: Plan) -> None:
    """Raise TargetError for the one function of one's own that is to be judged, where it cannot be called as attention
    is: by its text, and, where nothing imports a framework, by a few small calls.

    That it returns no array is told, and judged all the same.
    """
    [*others, target] = plan.targets
    if others or not is_bare(target) or plan.python or plan.host:
        return
    check_unloaded(target)
    if loads_at_once(target):
        _call(target, plan)


def _call(target: str, plan: Plan) -> None:
    from attnspec.hosting.client import close_all  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import check_first_calls  # noqa: PLC0415  (as above)

    surroundings = replace(plan, deadline=min(AT_MOST, plan.deadline)).surroundings({})
    try:
        told = check_first_calls(target, surroundings, lift=plan.lift)
    except EndedError:
        return
    finally:
        close_all()
    if told:
        click.echo(escape_hidden(f"{told} Each clause will say so."), err=True)


RIGHT = ("numpy/msa", "numpy/paper", "torch/sdpa", "torch/paper", "jax/dot_product_attention_jit", "jax/paper")
"""Plain attention and a layer of each framework."""
WRONG = "attnspec.examples.running_sum:attend"
"""The function of the README."""
DIAGNOSED = 2
"""Failures of which the cause is looked for: one would name it, a second one holds it."""


@click.command()
@click.option("-n", "--workers", default=available_cpus, type=WORKERS, metavar="N",
              help="Worker processes. [default: one per CPU, at most 8]")
@click.option("--html", default="reports/run/tour.html", show_default=True, metavar="PATH",
              type=click.Path(dir_okay=False), help="The page to write.")
def tour(workers: int, html: str) -> int:
    """Judge plain attention and a layer of each installed framework at a glance, and a wrong function beside them.

    Exit codes: 0 the wrong one fails and the others conform, 1 it is otherwise, 2 cannot run.
    """
    judged = [name for name in judgeable_subjects(()) if name in RIGHT]
    plan = Plan((*judged, WRONG), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE, diagnosed=DIAGNOSED)
    outputs = Outputs.from_options(record=None, no_record=False, html=html, as_json=False)
    result = Session(plan, workers=workers, command=typed_command()).run([*outputs.handlers(), *outputs.kept_handlers])
    code = exit_code_of(result)
    if code == CANNOT_RUN:
        return code
    accused = {outcome.subject for outcome in result.outcomes if outcome.does_gate(strict=False)}
    is_as_expected = accused == {WRONG}
    code = CONFORMS if is_as_expected else VIOLATED
    click.echo(f"The tour ends {'as expected' if is_as_expected else 'otherwise than expected'}: {WRONG} is wrong on "
               f"purpose, and the others are right. (exit code {code})")
    return code


@click.command()
@TARGETS
@LIFT
@IMPLEMENTATIONS
@DEADLINE
@surroundings
def smoke(targets: tuple[str, ...], **options: Given) -> int:
    """Try five fixed inputs on each TARGET. If they fail, its adapter is broken, so judging it would say nothing."""
    plan = plan_from(targets, {**options, "spec": ""})
    known_targets(plan)
    passed = [_smoke_target(target, plan) for target in plan.targets]
    return CONFORMS if all(passed) else CANNOT_RUN


def _smoke_target(target: str, plan: Plan) -> bool:
    failed = click.style("FAIL", fg="red")
    try:
        lines = smoke_inputs(target, plan)
    except AttnspecError as problem:
        click.echo(f"{failed}  {target}: {escape_hidden(str(problem))}")
        return False
    for line in lines:
        mark = click.style("ok  ", fg="green") if line.has_passed else failed
        click.echo(f"{mark}  {target}: {line.sentence}{': ' if line.detail else ''}{escape_hidden(line.detail)}")
    return all(line.has_passed for line in lines)


def smoke_inputs(target: str, plan: Plan) -> tuple[SmokeLine, ...]:
    """The five fixed inputs. The subject lives in a process of its own, which has the plan's deadline for each.

    Raises AttnspecError where it cannot be had or does not live to the end.
    """
    from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke_subject  # noqa: PLC0415  (weight: see above)

    return smoke_subject(load_subject(target, replace(plan, targets=(target,))))


RECORD = Path("reports") / "run" / "rank.jsonl"  # not named by the time, so that the next start goes on with it
DRAWN = 2**31
"""Seeds that are drawn are below it."""

WORDS = {KernelStanding.CONFORMS: "conforms", KernelStanding.VIOLATED: "does not conform",
         KernelStanding.NOT_JUDGED: "not judged"}
_COLOURS = {KernelStanding.CONFORMS: "green", KernelStanding.VIOLATED: "red", KernelStanding.NOT_JUDGED: "yellow"}
_CODES = {CONFORMS: "green", VIOLATED: "red", CANNOT_RUN: "yellow"}


class KernelLines(Handler):
    """A handler that tells each kernel in a line, as soon as it is known."""

    def __init__(self, stream: TextIO, done: int, wanted: int) -> None:
        self._stream, self._done, self._wanted = stream, done, wanted

    def handle(self, event: Event) -> None:
        """Tell a kernel."""
        if isinstance(event, KernelRanked):
            self._done += 1
            count = f"{self._done:>{len(str(self._wanted))}}/{self._wanted}"
            click.echo(f"{count}  {line_of(event)}", file=self._stream, color=is_coloured(self._stream))
            self._stream.flush()


def line_of(kernel: KernelRanked) -> str:
    """`0.93  does not conform  k.py:attend  0.8 s  causal.definition: each query sees one later key`."""
    standing = click.style(f"{WORDS[kernel.verdict]:<16}", fg=_COLOURS[kernel.verdict])
    score = "   -" if kernel.verdict is KernelStanding.NOT_JUDGED else f"{kernel.score:.2f}"
    why = _format_reason(kernel)
    return f"{score}  {standing}  {kernel.subject}  {kernel.seconds:.1f} s{f'  {why}' if why else ''}"


def _format_reason(kernel: KernelRanked) -> str:
    if kernel.lost or kernel.verdict is KernelStanding.NOT_JUDGED:
        return (kernel.lost or kernel.reason).partition("\n")[0]
    if kernel.first is None:
        return f"refuses {', '.join(kernel.refused)}" if kernel.refused else ""
    told = kernel.first.cause or kernel.first.seen.partition("\n")[0]
    return f"{kernel.first.clause}: {told}{f'; {kernel.stopped}' if kernel.stopped else ''}"


class KernelsAlone:
    """A handler that hands on a line a kernel of which something is known, and the header and the footer."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.start, self.shutdown = handler.start, handler.shutdown

    def handle(self, event: Event) -> None:
        """Hand it on, unless it says that a kernel was begun, or that its turn did not come."""
        is_unreached = isinstance(event, KernelRanked) and event.lost in {INTERRUPTED, UNREACHED}
        if not (is_unreached or isinstance(event, ItemStarted | SubjectKnown)):
            self._handler.handle(event)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", shell_complete=completion.targets)
@click.option("--function", default="", metavar="NAME",
              help="The function of files for which none is named. [default: attend, or the only one]")
@click.option("--stop-after", default=None, type=MANY, metavar="N", help="Drop a kernel after N failing clauses.")
@click.option("--effort", default=Effort.GLANCE.value, show_default=True, type=OneOf("effort", Effort),
              help="How many cases to try.")
@click.option("--profile", "profiles", multiple=True, metavar="NAME", shell_complete=completion.profiles,
              help="Only the clauses of this profile.")
@click.option("--clause", "clauses", multiple=True, metavar="ID", shell_complete=completion.clauses,
              help="Only this clause; 'causal.*' is all of a theme.")
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType), help="Only this dtype.")
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
@click.option("--record", default=RECORD, show_default=True, metavar="PATH",
              type=click.Path(dir_okay=False, path_type=Path),
              help="The record, a line for each kernel. If it exists, the ranking goes on in it.")
@click.option("--html", metavar="PATH", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write an HTML page that compares them.")
@JSON
@shard_options
@CLUSTER
def rank(targets: tuple[str, ...], record: Path, html: Path | None, **options: Given) -> int:
    """Judge many kernels, and compare them: one line for each, as soon as it is known.

    TARGET is a target of `check`, a file or a folder of kernels, a pattern such as 'kernels/*.py:attend', or a .txt
    file with a target on each line. A killed run goes on where it was. Exit codes: 0 all conform, 1 one does not, 2 one
    could not be judged, or the run was interrupted.
    """
    keep_apart({"--record": record, "--html": html})
    as_json, workers = options.pop("as_json"), options.pop("workers")
    stream = sys.stderr if as_json else sys.stdout
    with cluster_carrier(options) as carrier:
        plan = _plan(targets, record, options, stream)
        ranking = _Ranking(plan, record, workers, stream, is_json=as_json, carrier=carrier)
        judged, result = ranking.run()
    if html:
        _write_page(judged, html, stream)
    return _conclude(judged, plan, result, record, stream)


def _plan(targets: Sequence[str], record: Path, options: dict[str, Given], stream: TextIO) -> Plan:
    sharing, stop_after, function = sharing_of(options), options.pop("stop_after") or 0, options.pop("function")
    contract, seed = " ".join(options.pop("must_take")), options.pop("seed")
    named = find_kernels(targets, function)
    plan = plan_from(named, {**options, "seed": _choose_seed(record, stream) if seed == RANDOM else seed})
    return as_ranking(replace(plan, must_take=contract), stop_after, sharing)


def _choose_seed(record: Path, stream: TextIO) -> int:
    """A seed that is drawn, or that of the record in which the ranking goes on."""
    goes_on = record.exists() and record.stat().st_size
    seed = read_record(record).header.seed if goes_on else secrets.randbelow(DRAWN)
    click.echo(f"seed: {seed} ({'from the record' if goes_on else 'drawn'}; --seed {seed} draws the same cases)",
               file=stream)
    return seed


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Which kernels, and where their lines are kept."""

    plan: Plan
    path: Path
    workers: int
    stream: TextIO
    is_json: bool
    carrier: ClusterCarrier | None = None

    def run(self) -> tuple[RunRecord, Result | None]:
        """Judge what the record does not have; the record, and what the run came to, if there was anything to do."""
        record = resume_ranking(self.path, self.plan)
        known = {rank.subject: rank for rank in record.ranks if not rank.lost} if record else {}
        stale = [name for name, rank in known.items() if name in self.plan.targets and rank.digest != file_digest(name)]
        left = tuple(each for each in self.plan.targets if each not in known or each in stale)
        if record and not left:
            return record, None
        if record:
            reopen_record(self.path, stale)
        done = len(self.plan.targets) - len(left)
        if done:
            click.echo(f"{done} of {count_noun(len(self.plan.targets), 'kernel')} stand in {self.path} already.",
                       file=self.stream)
        mode = WriteMode.GO_ON if record else WriteMode.REPLACE
        session = Session(replace(self.plan, targets=left), workers=self.workers, command=typed_command(),
                          source=RANKING, carrier=self.carrier)
        result = session.run(self._handlers(done, mode))
        in_run_order(self.carrier, self.path, result)
        return read_record(self.path), result

    def _handlers(self, done: int, mode: WriteMode) -> list[Handler]:
        lines = KernelLines(self.stream, done, len(self.plan.targets))
        json = [KernelsAlone(StreamWriter(sys.stdout))] if self.is_json else []
        return [KernelsAlone(VisibleHandler(lines)), KernelsAlone(RecordWriter(self.path, mode)), *json]


def _write_page(record: RunRecord, path: Path, stream: TextIO) -> None:
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page([record], path)
    click.echo(f"page: {path}", file=stream)


def _count_standing(standing: KernelStanding, count: int) -> str:
    """`1 conforms`, `2 do not conform`."""
    several = {KernelStanding.CONFORMS: "conform", KernelStanding.VIOLATED: "do not conform"}
    return f"{count} {WORDS[standing] if count == 1 else several.get(standing, WORDS[standing])}"


def _conclude(record: RunRecord, plan: Plan, result: Result | None, path: Path, stream: TextIO) -> int:
    """Tell what the ranking comes to; its exit code."""
    if result and result.defects:
        own_up(result.defects)
    ranks = [rank for rank in show_hidden(record.ranks) if rank.subject in plan.targets and not rank.lost]
    is_short = bool(result and (result.is_interrupted or result.defects)) or len(ranks) < len(plan.targets)
    code = code_of(ranks, interrupted=is_short)
    click.echo(f"record: {path}", file=stream)
    counted = (_count_standing(KernelStanding(name), count) for name, count in count_standings(ranks).items())
    told = ", ".join(counted) or "no kernel judged"
    of = f"{len(ranks)} of {count_noun(len(plan.targets), 'kernel')}" if is_short else count_noun(len(ranks), "kernel")
    rest = " Run the same command again to go on." if is_short else ""
    click.echo(click.style(f"{of}: {told}.{rest} (exit code {code})", fg=_CODES[code], bold=True), file=stream,
               color=is_coloured(stream))
    return code
