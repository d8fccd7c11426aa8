"""How long the engine takes. On two cores, with nothing else running:

    python conformance/benchmarks/speed.py cases                # what a case costs beside the subject's own call
    python conformance/benchmarks/speed.py cases --profile      # and which functions it is spent in
    python conformance/benchmarks/speed.py commands             # how long whole commands take, start included
    python conformance/benchmarks/speed.py commands --only numpy/msa

`cases` draws, makes and judges cases of one clause as the engine does, Hypothesis and all, at one size. The subject's
own call is timed inside of the very case that it belongs to, so every figure is a pair: what the rest of the case
costs, and what the call costs. Every case is judged three times and the fastest counts, so that another process that
cuts in changes little. Figures are medians over cases; of ratios, the median of each case's own. `commands` gives wall
seconds, and CPU seconds of all processes.

Targets: at most 2 ms beside the call at (B,H,T,S,D) = (2,4,33,48,32). At (4,8,128,128,64) all rows are judged, which
takes some 45 ns a logit: about five times the call of a float32 function.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
from attnspec.core.nouns import DType, Effort
from attnspec.problems.problem import Recipe, Sizes
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.searching import recipe_strategy
from attnspec.trials.trial import Trial
from hypothesis import HealthCheck, Phase, given, seed, settings
from processor_seconds import measure_command

LARGE = Sizes(B=4, H=8, Hkv=8, T=128, S=128, D=64, Dv=64)
SMALL = Sizes(B=2, H=4, Hkv=4, T=33, S=48, D=32, Dv=32)
TIMES = 3  # that a case is judged; the fastest counts


@dataclass(slots=True)
class Stopwatch:
    """Adds up the seconds that the calls of a function take."""

    function: Callable[..., object]
    seconds: float = 0.0

    def __call__(self, *arguments: Any, **keywords: Any) -> object:  # noqa: ANN401  (whatever the function takes)
        """Call the function on the clock."""
        start = time.process_time()
        try:
            return self.function(*arguments, **keywords)
        finally:
            self.seconds += time.process_time() - start


@dataclass(slots=True)
class Pairs:
    """By case, in seconds: the subject's own call, making and judging the case, and what Hypothesis did before it."""

    own: list[float] = field(default_factory=list)
    judge: list[float] = field(default_factory=list)
    draw: list[float] = field(default_factory=list)

    @property
    def cost_beside_calls(self) -> list[float]:
        """What each case costs beside the call."""
        return [judge + draw for judge, draw in zip(self.judge, self.draw, strict=True)]

    @property
    def ratio(self) -> float:
        """The same in calls of the subject: the median of the ratios."""
        return statistics.median(rest / own for own, rest in zip(self.own, self.cost_beside_calls, strict=True))

    @property
    def milliseconds(self) -> tuple[float, ...]:
        """Medians of the call, of making and judging, of drawing, and of all beside the call."""
        return tuple(1e3 * statistics.median(figures)
                     for figures in (self.own, self.judge, self.draw, self.cost_beside_calls))


@dataclass(frozen=True, slots=True)
class Setup:
    """What is timed: a clause on a subject at one size."""

    trial: Trial
    sizes: Sizes
    watch: Stopwatch

    @classmethod
    def load_setup(cls, target: str, clause: str, dtype: DType, sizes: Sizes, effort: Effort) -> Setup:
        """Load all that a case needs."""
        subject: Subject = load_target(target)
        assert isinstance(subject.callee, InProcess)  # loaded without surroundings
        watch = Stopwatch(subject.callee.function)
        evaluator = Evaluator(replace(subject, callee=replace(subject.callee, function=watch)), dtype)
        check = compile_spec(load_spec())[clause]
        return cls(Trial(check, evaluator, effort, 0, lambda _: None), sizes, watch)

    def time_cases(self, cases: int) -> Pairs:
        """Draw and judge this many cases, after some that only warm up."""
        self._run(10, Pairs())
        pairs = Pairs()
        self._run(cases, pairs)
        return pairs

    def _run(self, cases: int, pairs: Pairs) -> None:
        ended = time.process_time()

        def case(recipe: Recipe) -> None:
            nonlocal ended
            drawn = time.process_time() - ended
            own, judge = min((self._pair(replace(recipe, sizes=self.sizes)) for _ in range(TIMES)), key=sum)
            pairs.own.append(own)
            pairs.judge.append(judge)
            pairs.draw.append(drawn)
            ended = time.process_time()

        self._search(case, cases)

    def _pair(self, recipe: Recipe) -> tuple[float, float]:
        """Seconds of the call, and of all else in the case, before an evaluator that remembers nothing."""
        old = self.trial.evaluator
        trial = replace(self.trial, evaluator=Evaluator(old.subject, old.dtype, old.conventions))
        before, start = self.watch.seconds, time.process_time()
        try:
            trial.judge(recipe, Tally())
        except Violated:  # takes its time, too, but should be known
            click.echo(f"violated: {recipe.text}", err=True)
        own = self.watch.seconds - before
        return own, time.process_time() - start - own

    def _search(self, case: Callable[[Recipe], None], cases: int) -> None:
        declaration, check = self.trial.evaluator.subject.declaration, self.trial.check
        strategy = recipe_strategy(check.domain, declaration.keywords, declaration.limits, self.trial.effort,
                                   tuple(check.clause.draw))
        decide = settings(max_examples=cases, database=None, deadline=None, phases=(Phase.generate,),
                          suppress_health_check=list(HealthCheck))
        seed(cases)(decide(given(recipe=strategy)(case)))()


@click.group(help=(__doc__ or "").partition("\n")[0])
def speed() -> None:
    """Carries the two commands."""


@speed.command()
@click.option("--target", default="numpy/attention", show_default=True)
@click.option("--clause", default="attention.definition", show_default=True)
@click.option("--cases", "count", default=100, show_default=True)
@click.option("--effort", default="default", show_default=True, type=click.Choice([effort.value for effort in Effort]))
@click.option("--profile", is_flag=True, help="Show the functions that the time is spent in.")
def cases(target: str, clause: str, count: int, effort: str, *, profile: bool) -> None:
    """What a case costs beside the subject's own call, at two sizes and every dtype."""
    click.echo(f"{target}, {clause}, effort {effort}, {count} cases each; milliseconds a case")
    click.echo("size   dtype      call  make+judge   draw  beside  beside/call")
    for name, sizes in (("large", LARGE), ("small", SMALL)):
        for dtype in DType:
            setup = Setup.load_setup(target, clause, dtype, sizes, Effort(effort))
            with _profiled(profile):
                pairs = setup.time_cases(count)
            call, judge, draw, beside = pairs.milliseconds
            figures = f"{call:6.2f} {judge:11.2f} {draw:6.2f} {beside:7.2f} {pairs.ratio:12.2f}"
            click.echo(f"{name:6} {dtype.value:9} {figures}")


class _profiled:  # noqa: N801  (reads as the verb that it is)
    """Profiles what is done inside and prints the ten functions with most time of their own."""

    def __init__(self, wanted: bool) -> None:
        self._profile = cProfile.Profile() if wanted else None

    def __enter__(self) -> None:
        if self._profile:
            self._profile.enable()

    def __exit__(self, *_: object) -> None:
        if self._profile:
            self._profile.disable()
            pstats.Stats(self._profile, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(10)


COMMANDS: Sequence[tuple[float, str]] = (
    (0.4, "list"),
    (10.0, "check numpy/msa --dtype float32"),
    (20.0, "check torch/sdpa --dtype float32"),
    (60.0, "check jax/dot_product_attention_jit --dtype float32"),
    (0.0, "check numpy/msa --dtype float64"),
    (0.0, "check numpy/msa --dtype float16"),
    (0.0, "check numpy/msa --dtype bfloat16"),
)
"""Seconds at most (0: no target), and a command."""


@speed.command()
@click.option("--only", default="", help="Only commands that contain this text.")
@click.option("--repeats", default=1, show_default=True, help="The median of so many runs counts.")
def commands(only: str, repeats: int) -> None:
    """How long whole commands take on two workers, start included."""
    for most, words in COMMANDS:
        if only in words:
            wall, cpu = zip(*(_time_command(words) for _ in range(repeats)), strict=True)
            figures = f"{statistics.median(wall):7.2f} s  {statistics.median(cpu):7.2f} s of CPU"
            limit = f"  (at most {most:g} s)" if most else ""
            click.echo(f"{figures}  attnspec {words}{limit}")


def _time_command(words: str) -> tuple[float, float]:
    extra = ["-n", "2", "--no-record"] if words.startswith("check") else []
    start = time.perf_counter()
    seconds = measure_command([sys.executable, "-m", "attnspec", *words.split(), *extra])
    return time.perf_counter() - start, seconds


if __name__ == "__main__":
    speed()
