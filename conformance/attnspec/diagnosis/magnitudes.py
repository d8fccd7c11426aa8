"""Whether it is the magnitude of numbers that makes an answer wrong: the largest logit, the largest value, a keyword's.

Small whole numbers that are answered rightly are multiplied by powers of two until they are answered wrongly, or those
of the failing case are divided until they are answered rightly. Between the two, the turn is looked for by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from attnspec.core.keywords import OFF, VALUED
from attnspec.problems.problem import Problem, joined
from attnspec.record.outcome import MAGNITUDE

MOST_DOUBLINGS = 24
HALVINGS = 5
"""Between a number that is answered rightly and twice as much, the turn is told to 3 %."""

LEAST_LOGIT = 1.0
"""With logits below it all weights are nearly the same, and few mistakes show."""

LEAST_VALUE = float(np.finfo(np.float32).tiny)
"""Smaller values lose their digits one by one: there it is rounding that shows, and no magnitude."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A number that may be made larger: what it is called, its least that can show anything, how it is read and
    multiplied by a factor.
    """

    name: str
    stage: str
    least: float
    read: Callable[[Problem], float]
    multiply: Callable[[Problem, float], Problem]


def _largest_logit(problem: Problem) -> float:
    """The largest q·k / sqrt(D), or as the scale says, whether or not its key is visible."""
    whole = joined(problem)
    key = np.repeat(whole.key.astype(np.float64), whole.query.shape[1] // whole.key.shape[1], axis=1)
    scale = problem.scale if problem.scale is not None else problem.query.shape[-1] ** -0.5
    return float(np.abs(whole.query.astype(np.float64) @ key.swapaxes(-1, -2)).max() * abs(scale))


def _with_query(problem: Problem, factor: float) -> Problem:
    return problem.but(query=problem.query * problem.query.dtype.type(factor))


def _with_value(problem: Problem, factor: float) -> Problem:
    return problem.but(value=problem.value * problem.value.dtype.type(factor))


KNOBS = (Knob("logit", "logits", LEAST_LOGIT, _largest_logit, _with_query),
         Knob("value", "values", LEAST_VALUE, lambda problem: float(np.abs(joined(problem).value).max()), _with_value))


def blamed_magnitude(is_right: Callable[[Problem], bool | None], small: Problem, failing: Problem) -> str:
    """The magnitude from which on answers are wrong, as a sentence; "" if none is.

    is_right: whether a problem is answered rightly; None where that cannot be said.  small: a problem that is.
    """
    with np.errstate(all="ignore"):
        return next(_turns(is_right, small, failing), "")


def _turns(is_right: Callable[[Problem], bool | None], small: Problem, failing: Problem) -> Iterator[str]:
    for knob in KNOBS:
        turn = _upwards(is_right, knob, small, knob.read(failing)) or _downwards(is_right, knob, failing)
        if turn and turn[0] >= knob.least:
            holds, fails = turn
            yield f"{MAGNITUDE}{knob.name} is {fails:.3g} or more, and right where it is {holds:.3g} ({knob.stage})"
    for name in VALUED.keys() & failing.keywords | ({"scale"} & failing.keywords):
        yield from _of_keyword(is_right, name, failing)


def _upwards(is_right: Callable[[Problem], bool | None], knob: Knob, small: Problem,
             most: float) -> tuple[float, float] | None:
    """The largest magnitude that is answered rightly, and the least that is not: of a problem that begins right."""
    if knob.read(small) == 0 or not is_right(small):
        return None
    factor = 1.0
    while factor <= 2.0**MOST_DOUBLINGS and knob.read(small) * factor <= 2 * most:
        if is_right(knob.multiply(small, 2 * factor)) is False:
            return _halved(is_right, knob, small, (factor, 2 * factor))
        factor *= 2
    return None


def _downwards(is_right: Callable[[Problem], bool | None], knob: Knob, failing: Problem) -> tuple[float, float] | None:
    """The same of a problem that is answered wrongly."""
    if knob.read(failing) == 0 or is_right(failing) is not False:
        return None
    factor = 1.0
    while knob.read(failing) * factor / 2 >= knob.least and factor > 2.0**-MOST_DOUBLINGS:
        if is_right(knob.multiply(failing, factor / 2)):
            return _halved(is_right, knob, failing, (factor / 2, factor))
        factor /= 2
    return None


def _halved(is_right: Callable[[Problem], bool | None], knob: Knob, problem: Problem,
            between: tuple[float, float]) -> tuple[float, float]:
    low, high = between
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_right(knob.multiply(problem, middle)) else (low, middle)
    return knob.read(problem) * low, knob.read(problem) * high


def _of_keyword(is_right: Callable[[Problem], bool | None], name: str, failing: Problem) -> Iterator[str]:
    """A number that is given: whether the answer is right at twice or at half of it, and wrong as it is."""
    value = getattr(failing, name)
    if not isinstance(value, float) or value == OFF[name] or value <= 0 or is_right(failing) is not False:
        return
    for factor, beyond in ((2.0, "or less"), (0.5, "or more")):
        other = value
        for _ in range(MOST_DOUBLINGS // 4):
            other *= factor
            if is_right(failing.but(**{name: other})):
                yield (f"the answer is wrong where {name} is {other / factor:.3g} {beyond}, and right where it is "
                       f"{other:.3g} ({name})")
                return
