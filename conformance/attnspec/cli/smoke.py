"""`smoke`: is the adapter broken, before anything is measured?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from attnspec.cli.options import DEADLINE, IMPLEMENTATIONS, LIFT, TARGETS, Given, known_targets, plan_from, surroundings
from attnspec.core.characters import escape_hidden
from attnspec.core.errors import CANNOT_RUN, CONFORMS, AttnspecError
from attnspec.core.plan import Plan


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


def _smoke_target(target: str, plan: Given) -> bool:
    found = smoke_inputs(target, plan)
    for line in found.lines:
        mark = click.style("ok  ", fg="green") if line.has_passed else click.style("FAIL", fg="red")
        click.echo(f"{mark}  {target}: {line.sentence}{': ' if line.detail else ''}{escape_hidden(line.detail)}")
    if found.death:
        click.echo(f"{click.style('FAIL', fg='red')}  {target}: {escape_hidden(found.death)}")
    return not found.death and all(line.has_passed for line in found.lines)


# Smoke


@dataclass(frozen=True, slots=True)
class SmokedInput:
    """One input: what should happen, whether it did, and what happened instead."""

    sentence: str
    has_passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """The lines, or why there are none."""

    lines: tuple[SmokedInput, ...] = ()
    death: str = ""


def smoke_inputs(target: str, plan: Plan) -> SmokeResult:
    """The five fixed inputs. The subject lives in a process of its own, which has the plan's deadline for each."""
    from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.smoke import smoke_subject  # noqa: PLC0415  (weight: see above)

    try:
        lines = smoke_subject(load_subject(target, replace(plan, targets=(target,))))
    except AttnspecError as problem:
        return SmokeResult(death=str(problem))
    return SmokeResult(tuple(SmokedInput(line.sentence, line.has_passed, line.detail) for line in lines))
