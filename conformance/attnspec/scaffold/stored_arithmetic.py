"""Measures what arithmetic stores in a half dtype.

It may store every step, exponentials and their sum among them (precision class G4); or the
log-sum-exp of which weights are made, exp(logit - lse), whose rounding moves a whole row alike.
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
"""The class of a function that declares nothing: its softmax is wider."""
_SMALL_WEIGHT = 0.375
"""A later key's weight, in steps at 1: half way between what shows in the sum and in a weight."""
_MANY_WEIGHTS = 65
"""So many keys that those behind the first weigh 24 steps, or nothing if each sum is stored."""


def measure_half_class(subject: Subject, dtype: DType) -> ClassWords:
    """Measures the class of a subject that stores every step in a half dtype; empty where it does
    not. NumPy and JAX compute so where nothing is widened. Its sum of exponentials is seen to be
    stored, or class G3 does not explain generic entries; and the returned class does.
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
    """Fits each class to answers to generic entries; empty where none is answered."""
    for problem in _list_panels(asker):
        output = _ask_output(asker, problem)
        if output is not None:
            width = asker.subject.scale_width(problem)
            precisions = (declared_precision({**words, "reason": "measured"}, asker.dtype) for words in classes)
            return [fit_class(problem, output, each, name=str(each), conventions={},
                              scale_width=width, false_alarm=GRADE_ALARM) for each in precisions]
    return []


def _list_panels(asker: Asker) -> Iterator[Problem]:
    """Lists problems of generic entries; the last has the nearest lengths that are taken."""
    limits, panel = asker.subject.declaration.limits, domain(kind="panel")
    for sizes in shapes_for(panel, limits, Effort.GLANCE):
        recipe = Recipe(sizes, panel.families, "none", frozenset(), seed=1)
        yield make_problem(recipe, asker.dtype).but(causal=limits.causal_only)
    yield normal_problem(asker, *asker.fit_lengths(*LONG_LENGTHS)).but(causal=limits.causal_only)


def _weighs_one(subject: Subject, dtype: DType, keys: int) -> bool:
    """Says whether a half dtype gives the first key a weight of 1, though float32 sees the others.
    Two keys show that a row's sum is rounded before it divides; many, that the running sum is.
    """
    exact, stored = (_ask_first_weights(Asker(subject, each), dtype, keys) for each in (DType.FLOAT32, dtype))
    if exact is None or stored is None or not (exact > 0).all():
        return False
    others = (1 / exact - 1) / (keys - 1) / _unit_step(dtype)
    return bool((others > 1 / 4).all() and (others < 1 / 2).all() and (stored == 1).all())


def _ask_first_weights(asker: Asker, half: DType, keys: int) -> Array | None:
    """Asks for the weight (B,H) of the first key in the last row, beside tiny ones; or None."""
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
    """Returns the step between 1 and the next number of a dtype."""
    return 2 * DTYPES[dtype].roundoff


def _ask_output(asker: Asker, problem: Problem) -> Array | None:
    """Asks for the output (B,H,T,Dv); None where the subject gives none."""
    try:
        return asker.ask_output(problem)
    except (NotAsked, Failed):
        return None


HEAD_WIDTH = 4
"""The width of a head, whose scale is a power of two."""
_LARGE_LOGITS, _LARGE_IN_HALF = 1024, 64
"""Logits that float32, and half dtypes, hold exactly, unlike these plus a logarithm."""
_KEY_COUNTS = range(3, 40)


def stores_log_sum_exp(form: CallForm, dtype: DType, trier: Trier) -> bool:
    """Says whether a row's weights are off by just what a log-sum-exp loses that is stored in this
    dtype: alike logits and values of 1 give 1 where weights are divided by their sum.
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
    """Returns how far weights of S equal logits grow, as a share, if their lse is rounded."""
    exact = np.longdouble(large) + np.log(np.longdouble(S))
    stored = np.longdouble(np.asarray(exact, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))
    return float(np.expm1(exact - stored))
