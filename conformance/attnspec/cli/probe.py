"""`probe`: finds out what an implementation really does, and holds it against what its manifest claims."""

from __future__ import annotations

import click

from attnspec.cli.defect import own_up
from attnspec.cli.options import DEADLINE, IMPLEMENTATIONS, LIFT, TARGETS, Given, OneOf, plan_from, running, typed
from attnspec.cli.outputs import Outputs
from attnspec.cli.probe_console import Answers
from attnspec.cli.targets import known_targets
from attnspec.ground.exits import CANNOT_RUN
from attnspec.ground.nouns import DType
from attnspec.probing.docket import PROBES
from attnspec.runner.session import Session


@click.command()
@TARGETS
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
              help="Only this dtype. [default: all; every question is asked at the first, float32 if it is supported]")
@running
@LIFT
@IMPLEMENTATIONS
@DEADLINE
def probe(targets: tuple[str, ...], workers: int, **options: Given) -> int:
    """Find out what each TARGET and its variants really do, and hold it against what the manifest claims.

    Exit codes: 0 nothing contradicts the manifest, 1 an answer does, 2 not everything could be asked.
    """
    outputs = Outputs.of(**{name: options.pop(name) for name in ("record", "no_record", "html", "as_json")})
    plan = plan_from(targets, {**options, "spec": ""})
    known_targets(plan)
    answers = Answers(outputs.console_stream, outputs.places)
    result = Session(plan, workers=workers, command=typed(), docket=PROBES).run([answers, *outputs.kept])
    if result.defects:
        own_up(result.defects)
    return CANNOT_RUN if result.defects else result.exit_code
