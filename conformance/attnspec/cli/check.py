"""The commands that judge subjects one by one: `check`, `audit`, `replay`, `tour` and `smoke`.

What can be told of one function in a second is told first, before the clauses, pytest and a worker
are loaded.
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
    checked_plan,
    cluster_carrier,
    in_run_order,
    judgeable_subjects,
    keep_apart,
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
from attnspec.runner.judge import AUDIT_SOURCE, LIBRARIES_KEY, TRIAL_SOURCE, read_replay
from attnspec.runner.session import Session
from attnspec.subjects.outline import check_unloaded, loads_at_once

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier
    from attnspec.subjects.smoke import SmokeLine


_FILE_OPTIONS = ("junit", "badge", "baseline")
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

    TARGET is a registered id (see `attnspec list`), package.module:function or
    path/to/file.py:function.
    """
    with cluster_carrier(options) as carrier:
        return _judge(targets, options, carrier=carrier)


@click.command()
@click.option("--library", "libraries", multiple=True, metavar="NAME",
              shell_complete=completion.libraries,
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
    options["variants"], source = read_variants(options["variants"]), TRIAL_SOURCE
    if not (options["clauses"] or options["profiles"]):
        options["variants"], source = options["variants"] or (AS_DECLARED,), AUDIT_SOURCE
    with cluster_carrier(options) as carrier:
        targets = remaining_targets(judgeable_subjects(options["implementations"], libraries),
                                    without)
        return _judge(targets, options, source, {LIBRARIES_KEY: libraries}, carrier=carrier)


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
    selected = {**options, "clauses": (item.clause,), "dtypes": (DType(item.dtype),)}
    session = Session(checked_plan([item.target], selected), command=typed_command(), recipe=recipe)
    return exit_code_of(session.run(Outputs.console().handlers()))


def _judge(targets: Sequence[str], options: dict[str, Given], source: str = TRIAL_SOURCE,
           more: Mapping[str, tuple[str, ...]] = MappingProxyType({}), *,
           carrier: ClusterCarrier | None) -> int:
    keep_apart({f"--{name}": options[name]
                for name in ("record", "html", "junit", "badge", "baseline")})
    detail = Detail.FULL if options.pop("verbose") else Detail.SHORT
    given = {name: options.pop(name) for name in ("record", "no_record", "html", "as_json")}
    is_kept = any((given["record"], given["html"], given["as_json"],
                   *(options[name] for name in _FILE_OPTIONS)))
    outputs = Outputs.from_options(**given, detail=detail)
    sharing, workers = sharing_of(options), options.pop("workers")
    baseline, files = BaselineFile.from_options(options), verdict_files(options)
    outputs = replace(outputs, further_lines=tuple(each.place for each in files))
    if AS_DECLARED not in options["variants"]:
        options["variants"] = read_variants(options["variants"])
    contract, options["sizes"] = " ".join(options.pop("must_take")), read_all(options["sizes"])
    plan = replace(checked_plan(targets, options), baseline=baseline.heeded_file, more=more,
                   must_take=contract)
    github = GitHub.if_on_github(outputs.console_stream, plan.implementations)
    if source == TRIAL_SOURCE and carrier is None and not is_kept and not github:
        turn_away(plan)
    for line in (*foretell_costs(plan.sizes, plan.deadline), *foretold_variants(plan.variants)):
        click.echo(line, err=True)
    known = baseline.handlers(strict=plan.strict, folders=plan.implementations)
    written = HandlerGroup([*outputs.kept_handlers, *known, *files, *github])
    handlers = [*outputs.handlers(written), written]
    session = Session(plan, workers=workers, command=typed_command(), source=source,
                      sharing=sharing, carrier=carrier)
    result = session.run(handlers)
    in_run_order(carrier, outputs.record, result)
    return exit_code_of(result)


FIRST_CALLS_SECONDS = 5.0
"""Seconds that the few calls here may take together; what takes longer is left to the run, which has its deadline."""


def turn_away(plan: Plan) -> None:
    """Raise TargetError if the single function to judge cannot be called as attention.

    Its text is looked at, and, if nothing imports a framework, a few small calls are made. That it
    returns no array is only said.
    """
    [*others, target] = plan.targets
    if others or not is_bare(target) or plan.python or plan.host:
        return
    check_unloaded(target)
    if loads_at_once(target):
        _call_target(target, plan)


def _call_target(target: str, plan: Plan) -> None:
    from attnspec.hosting.client import close_all  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import check_first_calls  # noqa: PLC0415  (as above)

    surroundings = replace(plan, deadline=min(FIRST_CALLS_SECONDS, plan.deadline)).surroundings({})
    try:
        complaint = check_first_calls(target, surroundings, lift=plan.lift)
    except EndedError:
        return
    finally:
        close_all()
    if complaint:
        click.echo(escape_hidden(f"{complaint} Each clause will say so."), err=True)


TOUR_RIGHT = ("numpy/msa", "numpy/paper", "torch/sdpa", "torch/paper",
              "jax/dot_product_attention_jit", "jax/paper")
"""Plain attention and a layer of each framework."""
TOUR_WRONG = "attnspec.examples.running_sum:attend"
"""The function of the README."""
TOUR_DIAGNOSED = 2
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
    judged = [name for name in judgeable_subjects(()) if name in TOUR_RIGHT]
    plan = Plan((*judged, TOUR_WRONG), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE,
                diagnosed=TOUR_DIAGNOSED)
    outputs = Outputs.from_options(record=None, no_record=False, html=html, as_json=False)
    session = Session(plan, workers=workers, command=typed_command())
    result = session.run([*outputs.handlers(), *outputs.kept_handlers])
    code = exit_code_of(result)
    if code == CANNOT_RUN:
        return code
    accused = {outcome.subject for outcome in result.outcomes if outcome.does_gate(strict=False)}
    code, how = VIOLATED, "otherwise than expected"
    if accused == {TOUR_WRONG}:
        code, how = CONFORMS, "as expected"
    click.echo(f"The tour ends {how}: {TOUR_WRONG} is wrong on purpose, and the others are right. "
               f"(exit code {code})")
    return code


@click.command()
@TARGETS
@LIFT
@IMPLEMENTATIONS
@DEADLINE
@surroundings
def smoke(targets: tuple[str, ...], **options: Given) -> int:
    """Try five fixed inputs on each TARGET.

    If they fail, its adapter is broken, so judging it would say nothing.
    """
    plan = checked_plan(targets, {**options, "spec": ""})
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
        detail = f": {escape_hidden(line.detail)}" if line.detail else ""
        click.echo(f"{mark}  {target}: {line.sentence}{detail}")
    return all(line.has_passed for line in lines)


def smoke_inputs(target: str, plan: Plan) -> tuple[SmokeLine, ...]:
    """Tries the five fixed inputs on a subject, in a process of its own. Each input may take the
    plan's deadline. Raises AttnspecError if the subject cannot be loaded or its process ends.
    """
    from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke_subject  # noqa: PLC0415  (weight: see above)

    return smoke_subject(load_subject(target, replace(plan, targets=(target,))))
