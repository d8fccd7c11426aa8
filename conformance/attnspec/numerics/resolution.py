"""How large an error a class lets pass that quantises inside: what a verdict is worth is said
beside it.

Entries are N(0,1), D = Dv = 64, eight queries, two heads, as in `benchmarks/resolution.py`. The
figure is the median of the allowance over the entries, in units of the root mean square of the
output: an error of a single entry below it is not seen by the worst case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import Precision
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, Sizes

FALSE_ALARM = 1e-6

KEY_COUNTS = (64, 1024)
"""Numbers of keys at which it is told."""

_QUERIES, _HEADS, _WIDTH = 8, 2, 64


@functools.cache
def shares_that_pass(precision: Precision, keys: int) -> tuple[float, float]:
    """The error of an entry of the output that is allowed, in units of the output's size: in the
    worst case, and where roundings are independent.
    """
    sizes = Sizes(1, _HEADS, _HEADS, _QUERIES, keys, _WIDTH, _WIDTH)
    problem = make_problem(Recipe(sizes, ("normal",), "none", frozenset(), 1), precision.dtype)
    expected = expect(problem, precision, conventions={}, parts=frozenset({"typical"}))
    # the root of the mean square, so that the shares are those of docs/numerics.md
    size = np.sqrt(np.square(expected.output.astype(np.float64)).mean())
    allowed = expected.output_allowance, expected.typical_allowance(FALSE_ALARM)
    worst, typical = (float(np.median(each) / size) for each in allowed)
    return worst, typical


def describe_what_passes(classes: Iterable[Precision]) -> str:
    """How large an error passes, in a sentence without its full stop; empty where no class
    quantises.

    classes: of a subject, that of each dtype. The first that quantises is told: what that costs
    depends little on the dtype.
    """
    precision = next((each for each in classes if each.stored_formats), None)
    if precision is None:
        return ""
    worst, typical = zip(*(shares_that_pass(precision, keys) for keys in KEY_COUNTS), strict=True)
    few, many = (f"{keys:,}" for keys in KEY_COUNTS)
    return (f"it quantises inside, so that an error of one entry passes up to {worst[0]:.2g} of "
            "the output's size at "
            f"{few} keys and {worst[1]:.2g} at {many}, or {typical[0]:.2g} and {typical[1]:.2g} "
            "where roundings are "
            f"independent ({precision.dtype.value})")
