"""What can be told of a function in a second is told before the clauses, pytest and a worker are loaded."""

from __future__ import annotations

from dataclasses import replace

import click

from attnspec.core.characters import visible
from attnspec.core.errors import EndedError
from attnspec.core.plan import Plan
from attnspec.core.targets import is_bare
from attnspec.subjects.unloaded import check_unloaded, loads_at_once

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
    from attnspec.hosting.pool import close_all  # noqa: PLC0415  (weight: NumPy)
    from attnspec.subjects.first_calls import check_first_calls  # noqa: PLC0415  (as above)

    surroundings = replace(plan, deadline=min(AT_MOST, plan.deadline)).surroundings({})
    try:
        told = check_first_calls(target, surroundings, lift=plan.lift)
    except EndedError:
        return
    finally:
        close_all()
    if told:
        click.echo(visible(f"{told} Each clause will say so."), err=True)
