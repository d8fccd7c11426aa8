"""`tour`: what attnspec says of implementations of the installed frameworks, and of a wrong one, within a minute."""

from __future__ import annotations

import click

from attnspec.cli.group import exit_code_of
from attnspec.cli.numbers import WORKERS
from attnspec.cli.options import available_cpus, judgeable_subjects, typed_command
from attnspec.cli.outputs import Outputs
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.runner.session import Session

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
