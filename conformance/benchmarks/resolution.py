"""How small an error of one entry is seen, by dtype, declared grade, number of keys and way of judging:

    python conformance/benchmarks/resolution.py             # 64, 512 and 4,096 keys
    python conformance/benchmarks/resolution.py --keys 2048

Entries are N(0,1), D = Dv = 64, eight queries, two heads. Figures are medians over the entries, in units of the root
mean square of the output; typical: by the bound of independent roundings, at a rate of 1e-6. The last two columns
answer another question: by which share all entries may be too large together and still pass. Then: what a logit costs.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported

import time

import click
import numpy as np
from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import Precision, declared_precision, precision_of_grade
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes

FALSE_ALARM = 1e-6
GRADES = ("G0", "G1", "G2", "G3", "G4")


def problem_of(dtype: DType, keys: int, queries: int = 8) -> Problem:
    """The problem that everything is measured on."""
    return make_problem(Recipe(Sizes(1, 2, 2, queries, keys, 64, 64), ("normal",), "none", frozenset(), 1), dtype)


def line(problem: Problem, precision: Precision) -> str:
    """What the ways of judging let pass."""
    sharp, cheap = (_expectation_of(problem, precision, screens=screens) for screens in (False, True))
    typical = expect(problem, precision, conventions={}, parts=frozenset({"typical"})).typical_allowance(FALSE_ALARM)
    allowances = cheap.output_allowance, sharp.output_allowance, typical
    figures = [_format_allowance(allowance, sharp.output) for allowance in allowances]
    figures += [_factor(allowance, sharp.output) for allowance in (sharp.output_allowance, typical)]
    return " ".join(f"{figure:>9}" for figure in figures) if sharp.claimed.all() else "        nothing is claimed"


def _expectation_of(problem: Problem, precision: Precision, *, screens: bool) -> Expectation:
    return expect(problem, precision, conventions={}, parts=frozenset({"output"}), screens=screens)


def nanoseconds(problem: Problem, precision: Precision, *, screens: bool) -> float:
    """Of CPU that a logit takes, the least of three."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        _expectation_of(problem, precision, screens=screens)
        taken.append(time.process_time() - start)
    return min(taken) / (problem.query[..., 0].size * problem.sizes.S) * 1e9


def _format_allowance(allowance: Array, output: Array) -> str:
    return f"{float(np.median(allowance) / np.sqrt(np.square(output).mean())):.2g}"


def _factor(allowance: Array, output: Array) -> str:
    return f"{float((allowance / np.abs(output)).min()):.2g}"


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--keys", multiple=True, default=(64, 512, 4096), show_default=True)
def resolution(keys: tuple[int, ...]) -> None:
    """Print a line for each dtype, declared grade and number of keys."""
    click.echo("                            one entry off by            all by a factor")
    click.echo("dtype    grade  keys    screen     worst   typical     worst   typical")
    for dtype in DType:
        for grade in GRADES if DTYPES[dtype].is_half else ("",):
            for count in keys:
                told = line(problem_of(dtype, count), precision_of_grade(grade, dtype) if grade
                            else declared_precision(None, dtype))
                click.echo(f"{dtype.value:9}{grade:5}{count:6} {told}")
    click.echo("\nnanoseconds a logit, 64 queries, 2,048 keys, D = Dv = 64")
    for dtype in DType:
        problem, precision = problem_of(dtype, 2048, queries=64), declared_precision(None, dtype)
        sharp, screen = (nanoseconds(problem, precision, screens=screens) for screens in (False, True))
        click.echo(f"{dtype.value:9} sharp {sharp:5.0f}   screen {screen:5.0f}")


if __name__ == "__main__":
    resolution()
