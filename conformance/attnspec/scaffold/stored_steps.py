"""Whether every step of a half dtype is stored in it, exponentials and their sum among them: precision class G4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType, Effort
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.width import Fit, fit_class
from attnspec.problems.choices import shapes_for
from attnspec.problems.domain import domain
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe
from attnspec.questions.asker import Asker, Failed, NotAsked
from attnspec.questions.numbers import GRADE_ALARM, LONG_LENGTHS, normal_problem
from attnspec.subjects.subject import Subject

ClassWords = Mapping[str, str | int]
"""A precision class, as a manifest declares it."""

STEPWISE_GRADE = "G4"
"""The class in which every step is stored."""
_USUAL_GRADE = "G3"
"""The class that a function is taken for which declares nothing: its softmax is wider."""
_SMALL_WEIGHT = 0.375
"""The weight of a key behind the first, in steps of the dtype at 1. A sum of 1 and something below half a step is 1
where it is stored; a first weight that lacks more than a quarter of a step is not 1. This lies half way.
"""
_MANY_WEIGHTS = 65
"""So many keys, the first of them heavy: the others together weigh 24 steps, and nothing where each sum is stored."""


def measure_half_class(subject: Subject, dtype: DType) -> ClassWords:
    """The class of a subject that stores every step in a half dtype, as NumPy and JAX compute where nobody widens
    anything; empty where it is not so.

    That is measured: its sum of exponentials is seen to be stored, or class G3 does not explain generic entries; and
    the class that is told does.
    """
    if not DTYPES[dtype].is_half:
        return {}
    classes: list[ClassWords] = [{"grade": STEPWISE_GRADE}]
    if _stores_running_sum(subject, dtype):
        sums: ClassWords = {"grade": STEPWISE_GRADE, "accumulate": dtype.value, "row_sum": dtype.value}
        classes = [sums, {**sums, "block": 1}]
    fits = _fit_panel(Asker(subject, dtype), [{"grade": _USUAL_GRADE}, *classes])
    if not fits or (fits[0].explains_panel and not _stores_row_sum(subject, dtype)):
        return {}
    return next((words for words, fit in zip(classes, fits[1:], strict=True) if fit.explains_panel), {})


def _fit_panel(asker: Asker, classes: Sequence[ClassWords]) -> list[Fit]:
    """How well each class explains answers to generic entries, of every family where the subject takes a problem of so
    many heads; empty where it answers none.
    """
    for problem in _list_panels(asker):
        output = _ask_output(asker, problem)
        if output is not None:
            width = asker.subject.scale_width(problem)
            precisions = (declared_precision({**words, "reason": "measured"}, asker.dtype) for words in classes)
            return [fit_class(problem, output, each, name=str(each), conventions={}, scale_width=width,
                              false_alarm=GRADE_ALARM) for each in precisions]
    return []


def _list_panels(asker: Asker) -> Iterator[Problem]:
    """Problems of generic entries; the last has the nearest lengths that the subject takes, and one family."""
    limits, panel = asker.subject.declaration.limits, domain(kind="panel")
    for sizes in shapes_for(panel, limits, Effort.GLANCE):
        recipe = Recipe(sizes, panel.families, "none", frozenset(), seed=1)
        yield make_problem(recipe, asker.dtype).but(causal=limits.causal_only)
    yield normal_problem(asker, *asker.fit_lengths(*LONG_LENGTHS)).but(causal=limits.causal_only)


def _stores_row_sum(subject: Subject, dtype: DType) -> bool:
    """Whether a row's sum is rounded to the dtype before weights are divided by it: of two keys, of which the second
    weighs less than half a step at 1, the first then weighs 1.
    """
    return _weighs_one(subject, dtype, keys=2)


def _stores_running_sum(subject: Subject, dtype: DType) -> bool:
    """Whether the sum is rounded to the dtype key by key: the first of many keys then weighs 1, though the others weigh
    many steps together.
    """
    return _weighs_one(subject, dtype, keys=_MANY_WEIGHTS)


def _weighs_one(subject: Subject, dtype: DType, keys: int) -> bool:
    """Whether the first key weighs 1 in a half dtype, where in float32 it is seen that each of the others weighs more
    than a quarter of a step, and less than half of one.
    """
    exact, stored = (_ask_first_weights(Asker(subject, each), dtype, keys) for each in (DType.FLOAT32, dtype))
    if exact is None or stored is None or not (exact > 0).all():
        return False
    others = (1 / exact - 1) / (keys - 1) / _unit_step(dtype)
    return bool((others > 1 / 4).all() and (others < 1 / 2).all() and (stored == 1).all())


def _ask_first_weights(asker: Asker, half: DType, keys: int) -> Array | None:
    """(B,H): the weight of the first key in the last row, where each other of some keys weighs next to nothing; None
    where the subject does not say it.
    """
    T, S = asker.fit_lengths(keys, keys)
    if T < 1 or keys > S:
        return None
    limits = asker.subject.declaration.limits
    problem = asker.make_even(T, S).but(causal=limits.causal_only)
    steepness = np.sqrt(asker.subject.scale_width(problem))
    problem.query[..., 0] = 1
    problem.key[:, :, 1:keys, 0] = np.log(_SMALL_WEIGHT * _unit_step(half)) * steepness
    problem.key[:, :, keys:, 0] = 4 * np.log(_unit_step(half)) * steepness
    problem.value[..., 1:, 0] = 0  # the identity begins anew where there are more keys than a head is wide
    output = _ask_output(asker, problem)
    return None if output is None else output[:, :, -1, 0]


def _unit_step(dtype: DType) -> float:
    """Between 1 and the next number of a dtype."""
    return 2 * DTYPES[dtype].roundoff


def _ask_output(asker: Asker, problem: Problem) -> Array | None:
    """(B,H,T,Dv), or None where the subject gives none."""
    try:
        return asker.ask_output(problem)
    except (NotAsked, Failed):
        return None
