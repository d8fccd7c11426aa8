"""What ranking a kernel costs: CPU seconds of the judge and of the kernel's process, and the judge's memory.

    python conformance/benchmarks/ranking.py KERNELS... [--profile]

The first kernel pays for imports, for compiling the clauses, and for problems that the others share; it is told apart.
--profile prints where the judge's time goes, by function, without the first kernel.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from attnspec.core.nouns import Effort
from attnspec.core.plan import Plan
from attnspec.ranking.jobs import KernelWorker, as_ranking, find_kernels
from attnspec.record.events import KernelRanked
from attnspec.runner.session import prepared_environment
from processor_seconds import children_seconds

SHOWN = 60
"""Functions of a profile that are printed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one kernel: CPU seconds of the judge and of the kernel's process, which includes its own import; and the
    judge's resident MiB after it.
    """

    kernel: KernelRanked
    judge: float
    host: float
    resident: int


def costs(targets: tuple[str, ...], effort: Effort, profile: cProfile.Profile | None) -> Iterator[Cost]:
    """Each kernel judged in this process, one after the other."""
    worker = KernelWorker(as_ranking(Plan(targets, effort=effort, deadline=30)), 0, lambda _: None)
    for number, target in enumerate(targets):
        judge, host = time.process_time(), children_seconds()
        if profile and number:
            profile.enable()
        kernel = worker.rank(target)
        if profile:
            profile.disable()
        yield Cost(kernel, time.process_time() - judge, children_seconds() - host, _resident())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() >> 20


@click.command()
@click.argument("targets", nargs=-1, required=True)
@click.option("--profile", "profiles", is_flag=True, help="Print where the judge's time goes.")
@click.option("--effort", default=Effort.GLANCE.value, type=click.Choice([effort.value for effort in Effort]))
def main(targets: tuple[str, ...], effort: str, *, profiles: bool) -> None:
    """Tell what ranking these kernels costs."""
    profile = cProfile.Profile() if profiles else None
    with prepared_environment():
        for cost in costs(tuple(find_kernels(targets)), Effort(effort), profile):
            click.echo(f"judge {cost.judge:5.2f} s  process {cost.host:5.2f} s  {cost.resident} MiB  "
                       f"{cost.kernel.verdict.value} {cost.kernel.score:.3f}  {cost.kernel.subject}")
    if profile:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(SHOWN)


if __name__ == "__main__":
    main()
