"""`check`, `audit` and `replay`: what runs subjects.

What can be told of one function in a second is told first, before the clauses, pytest and a worker are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from attnspec.cli import completion
from attnspec.cli.apart import keep_apart
from attnspec.cli.baseline import BASELINE, UPDATE, BaselineFile
from attnspec.cli.cluster import CLUSTER, cluster_carrier, in_run_order
from attnspec.cli.conclusion import Detail
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import (
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
    Given,
    audit_there,
    judgeable_subjects,
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
from attnspec.cli.outputs import HandlerGroup, Outputs
from attnspec.cli.verdict_files import BADGE, JUNIT, GitHub, verdict_files
from attnspec.core.characters import escape_hidden
from attnspec.core.errors import EndedError
from attnspec.core.made_variants import AS_DECLARED, foretold_variants, read_variants
from attnspec.core.nouns import DType, is_bare
from attnspec.core.plan import Plan
from attnspec.core.sizes import foretell_costs, read_all
from attnspec.runner.judge import read_replay
from attnspec.runner.session import Session
from attnspec.runner.trial_jobs import AUDIT, LIBRARIES, TRIALS
from attnspec.subjects.outline import check_unloaded, loads_at_once

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
