"""`smoke`: is the adapter broken, before anything is measured?"""

from __future__ import annotations

import click

from attnspec.cli.options import DEADLINE, IMPLEMENTATIONS, LIFT, TARGETS, Given, known_targets, plan_from, surroundings
from attnspec.core.characters import visible
from attnspec.core.errors import CANNOT_RUN, CONFORMS
from attnspec.runner.smoking import smoked


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
    passed = [_smoked(target, plan) for target in plan.targets]
    return CONFORMS if all(passed) else CANNOT_RUN


def _smoked(target: str, plan: Given) -> bool:
    found = smoked(target, plan)
    for line in found.lines:
        mark = click.style("ok  ", fg="green") if line.passed else click.style("FAIL", fg="red")
        click.echo(f"{mark}  {target}: {line.sentence}{': ' if line.detail else ''}{visible(line.detail)}")
    if found.death:
        click.echo(f"{click.style('FAIL', fg='red')}  {target}: {visible(found.death)}")
    return not found.death and all(line.passed for line in found.lines)
