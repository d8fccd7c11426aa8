"""What a call costs that goes to a process of its own, beside the same call in the judge's process.

    python conformance/benchmarks/calls.py                         # torch/sdpa, float32
    python conformance/benchmarks/calls.py --target numpy/attention --calls 500

The two calls take turns, so every figure is a pair. Both copy inputs and answer, and compare the inputs afterwards.
Milliseconds: the median of each, of the differences, and the difference of the fastest twentieths, which other programs
on the machine slow down least; then the same of the CPU time that judge and host take together (Linux), which they do
not lengthen by waiting, only by what they take of the caches. Targets: at most 0.15 ms more at
(B,H,T,S,D) = (2,4,33,48,32), and 0.5 ms more at (4,8,128,128,64).
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
import numpy as np
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.problems.problem import Array
from attnspec.subjects.call import Call
from attnspec.subjects.callee import Callee, Hosted
from attnspec.subjects.registry import load_target
from attnspec.trials.evaluator import keep_heap

SIZES: Mapping[str, tuple[int, ...]] = {"small": (2, 4, 33, 48, 32), "large": (4, 8, 128, 128, 64)}
WARM = 10
FASTEST = 20  # one in so many


class Took(NamedTuple):
    """Milliseconds of a call: by the clock, and of CPU."""

    wall: float
    cpu: float


def call_of(sizes: Sequence[int]) -> Call:
    """A call in float32 with entries from N(0, 1)."""
    B, H, T, S, D = sizes
    generator = np.random.default_rng(0)

    def drawn(length: int) -> Array:
        """(B,H,length,D)"""
        return generator.standard_normal((B, H, length, D)).astype(np.float32)

    return Call({"query": drawn(T), "key": drawn(S), "value": drawn(S)}, {}, DType.FLOAT32, ((B, H, T, D),))


def cpu_of(callee: Callee) -> float:
    """Seconds of CPU that this process and the callee's have taken; of another process only Linux tells exactly."""
    pid = int(str(callee.client.about["pid"])) if isinstance(callee, Hosted) else 0
    there = time.clock_gettime((~pid << 3) | 2) if pid and sys.platform == "linux" else 0.0  # CPUCLOCK_SCHED
    return time.process_time() + there


def took(callee: Callee, call: Call) -> Took:
    """How long it takes."""
    cpu, began = cpu_of(callee), time.perf_counter()
    callee.perform(call)
    return Took(1e3 * (time.perf_counter() - began), 1e3 * (cpu_of(callee) - cpu))


def fastest(figures: Sequence[float]) -> float:
    """The slowest of the fastest twentieth."""
    return sorted(figures)[len(figures) // FASTEST]


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--target", default="torch/sdpa", show_default=True)
@click.option("--calls", "count", default=200, show_default=True)
def calls(target: str, count: int) -> None:
    """Both kinds of call at both sizes."""
    keep_heap()  # as an evaluator does
    here, there = load_target(target).callee, load_target(target, Surroundings()).callee
    there.perform(call_of(SIZES["small"]))  # it starts
    click.echo(f"{target}, {count} calls each; load {os.getloadavg()[0]:.1f}")
    click.echo("size   of    in process  hosted  difference  of the fastest")
    for name, sizes in SIZES.items():
        call = call_of(sizes)
        pairs = [(took(here, call), took(there, call)) for _ in range(WARM + count)][WARM:]
        for kind, of in enumerate(Took._fields):
            inside, hosted = ([each[kind] for each in side] for side in zip(*pairs, strict=True))
            difference = statistics.median(after - before for before, after in zip(inside, hosted, strict=True))
            click.echo(f"{name:6} {of:5} {statistics.median(inside):10.3f} {statistics.median(hosted):7.3f} "
                       f"{difference:11.3f} {fastest(hosted) - fastest(inside):15.3f}")


if __name__ == "__main__":
    calls()
