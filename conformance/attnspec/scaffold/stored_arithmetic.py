"""What arithmetic stores in a half dtype, measured: every step of it, exponentials and their sum among them (precision
class G4); or the log-sum-exp of which weights are made, exp(logit - lse), whose rounding moves a whole row alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.forms import TABLE
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.width import Fit, fit_class
from attnspec.problems.choices import shapes_for
from attnspec.problems.domain import domain
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, numpy_dtype
from attnspec.questions.asker import Asker, Failed, NotAsked
from attnspec.questions.numbers import GRADE_ALARM, LONG_LENGTHS, normal_problem
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.trial_adapter import Trier
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
    if _weighs_one(subject, dtype, keys=_MANY_WEIGHTS):  # its running sum is stored
        sums: ClassWords = {"grade": STEPWISE_GRADE, "accumulate": dtype.value,
                            "row_sum": dtype.value}
        classes = [sums, {**sums, "block": 1}]
    fits = _fit_panel(Asker(subject, dtype), [{"grade": _USUAL_GRADE}, *classes])
    if not fits or (fits[0].explains_panel and not _weighs_one(subject, dtype, keys=2)):  # nor a row's sum
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


def _weighs_one(subject: Subject, dtype: DType, keys: int) -> bool:
    """Whether the first key weighs 1 in a half dtype, where in float32 it is seen that each of the others weighs more
    than a quarter of a step, and less than half of one.

    With two keys, a row's sum is rounded before weights are divided by it; with many, whose weights are many steps
    together, the running sum is, key by key.
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


HEAD_WIDTH = 4
"""The width of a head, whose scale is a power of two."""
_LARGE_LOGITS, _LARGE_IN_HALF = 1024, 64
"""Logits that float32, and half dtypes, hold exactly, beside which the logarithm of a number of keys is rounded."""
_KEY_COUNTS = range(3, 40)


def stores_log_sum_exp(form: CallForm, dtype: DType, trier: Trier) -> bool:
    """Whether all weights of a row are larger or smaller by just what a log-sum-exp loses that is stored in this dtype.

    All logits are alike and all values are 1, so that the output is 1 if weights are divided by their sum.
    """
    if form.kind is not Kind.ATTENTION or form.sizes or form.is_packed or form.parameter_for(TABLE):
        return False
    number, large = numpy_dtype(dtype), _LARGE_IN_HALF if DTYPES[dtype].is_half else _LARGE_LOGITS
    S, moved = max(((each, _measure_rounding(large, each, dtype)) for each in _KEY_COUNTS),
                   key=lambda pair: abs(pair[1]))
    T = S if form.attends_to_itself or form.limits.get("causal_only") else 1
    query, key = np.zeros((1, 1, T, HEAD_WIDTH), number), np.zeros((1, 1, S, HEAD_WIDTH), number)
    query[..., 0], key[..., 0] = large * HEAD_WIDTH**0.5, 1
    ones = np.ones((1, 1, S, HEAD_WIDTH), number)
    answer = trier.answer(form, Problem(dtype, query, key, ones, causal=form.is_always_causal))
    if answer is None:
        return False
    apart = np.abs(answer.output[:, :, -1].astype(np.float64) - 1 - moved)
    step = 2 * DTYPES[dtype].roundoff
    return abs(moved) > 16 * step and bool((apart <= 4 * step).all())


def _measure_rounding(large: int, S: int, dtype: DType) -> float:
    """By what share the weights of S keys, whose logits are this large, grow if their log-sum-exp is rounded."""
    exact = np.longdouble(large) + np.log(np.longdouble(S))
    stored = np.longdouble(np.asarray(exact, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))
    return float(np.expm1(exact - stored))
