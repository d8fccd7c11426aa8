"""What judging a case costs beside the subject's own calls, over all clauses of a check.

    python conformance/benchmarks/clauses.py                       # as `attnspec check numpy/attention --effort quick`
    python conformance/benchmarks/clauses.py --most 10             # and the ten clauses that take longest

Every item of the plan is tried as a worker does it, at the sizes that it draws, but with the subject in this process,
so that its calls can be taken out. Milliseconds of CPU, which other programs on the machine lengthen less than those of
the clock. `judged` is what a case takes from its recipe to its margin; `with all` what an item takes for each of its
cases, drawing and bookkeeping included. Medians over cases. Target: at most 2 ms a case.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import click
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.subjects.callee import InProcess
from attnspec.trials.judging import CaseJudge


@dataclass(slots=True)
class Clock:
    """Seconds of CPU: of all calls of the subject so far, and of each case so far, without its calls."""

    called: float = 0.0
    cases: list[float] = field(default_factory=list)

    def without_calls(self) -> float:
        """CPU that this process has taken for anything but calls."""
        return time.process_time() - self.called

    def calling(self, perform: Callable[..., Any]) -> Callable[..., Any]:
        """A call, on the clock."""
        def timed(*given: Any, **more: Any) -> Any:  # noqa: ANN401  (whatever it takes)
            began = time.process_time()
            try:
                return perform(*given, **more)
            finally:
                self.called += time.process_time() - began

        return timed

    def judging(self, judge: Callable[..., Any]) -> Callable[..., Any]:
        """The judgement of a case, on the clock."""
        def timed(*given: Any, **more: Any) -> Any:  # noqa: ANN401  (see above)
            began = self.without_calls()
            try:
                return judge(*given, **more)
            finally:
                self.cases.append(self.without_calls() - began)

        return timed


@contextmanager
def clock_calls() -> Iterator[Clock]:
    """Inside, calls and cases are timed."""
    clock = Clock()
    with (patch.object(InProcess, "perform", clock.calling(InProcess.perform)),
          patch.object(CaseJudge, "judge", clock.judging(CaseJudge.judge))):
        yield clock


@dataclass(frozen=True, slots=True)
class Spent:
    """What a clause took, in milliseconds: by case, and of each of its cases with all."""

    clause: str
    judged: list[float]
    with_all: float


def seconds_by_item(engine: Engine, clock: Clock) -> Iterator[Spent]:
    """By item that has cases."""
    for item in engine.items():
        before, began = len(clock.cases), clock.without_calls()
        engine.try_item(item)
        judged = [1e3 * each for each in clock.cases[before:]]
        if judged:
            yield Spent(item.clause, judged, 1e3 * (clock.without_calls() - began) / len(judged))


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--target", default="numpy/attention", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice([dtype.value for dtype in DType]))
@click.option("--effort", default="quick", show_default=True, type=click.Choice([effort.value for effort in Effort]))
@click.option("--most", default=0, show_default=True, help="So many clauses that take longest are listed.")
def clauses(target: str, dtype: str, effort: str, most: int) -> None:
    """The median case of a check."""
    plan = Plan((target,), dtypes=(DType(dtype),), effort=Effort(effort), in_process=(target,))
    with clock_calls() as clock:
        found = list(seconds_by_item(Engine(plan), clock))
    judged = [each for one in found for each in one.judged]
    with_all = [one.with_all for one in found for _ in one.judged]
    click.echo(f"{target}, {dtype}, effort {effort}: {len(judged)} cases of {len(found)} clauses; "
               f"load {os.getloadavg()[0]:.1f}")
    click.echo(f"judged {statistics.median(judged):.2f}  with all {statistics.median(with_all):.2f}  "
               f"mean with all {statistics.mean(with_all):.2f}  the calls {1e3 * clock.called / len(judged):.2f}")
    for one in sorted(found, key=lambda one: -one.with_all * len(one.judged))[:most]:
        click.echo(f"{one.clause:45} {len(one.judged):4} cases  judged {statistics.median(one.judged):6.2f}  "
                   f"with all {one.with_all:6.2f}")


if __name__ == "__main__":
    clauses()
