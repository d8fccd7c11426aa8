"""Says which precision class explains an answer, and whether a class is too wide.

A fingerprint of a class is read off a panel of generic values. A class is too wide if plain
mistakes conform under it. A plain mistake is an attention that no class may acquit: the
definition's own answer to another problem, or its answer changed, rounded once. So nothing but the
mistake is wrong with it, and a class under which one of them conforms says nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import (
    GRADES,
    WORDS_BESIDE_POINTS,
    Precision,
    assumed_precision,
    looser_words,
    precision_of_grade,
)
from attnspec.numerics.score import DirectionName, Drifts, compute_drifts, drift_of_sums, systematic_error, threshold
from attnspec.problems.make import as_dtype, make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes

DROPS_FROM = 64
"""The number of keys from which on a mistake drops one."""

_FAMILIES = ("normal", "spread_logits", "log_normal", "uniform")
SMALL_SIZES = Sizes(2, 4, 4, 8, 8, 8, 8)
MANY_KEYS_SIZES = Sizes(2, 4, 4, 16, 64, 32, 32)
SLICE_SIZES = (Sizes(30, 4, 4, 32, 32, 16, 16), Sizes(30, 4, 4, 16, 4, 16, 16))
"""Head slices for the score test, a quarter of those in a run.

One has many keys, the other so few that no sum loses one.
"""

Answer = Callable[[Problem], Array]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A plain mistake.

    name: as a sentence says it ("…, conforms").  answer: its answer to a problem, in float64.
    sizes, causal: of the problem on which single entries show it.
    of_empty_row: whether it shows in a row without keys.
    is_everywhere: whether it moves all outputs, so that their mean shows it, too.
    """

    name: str
    answer: Answer
    sizes: Sizes = SMALL_SIZES
    causal: bool = False
    of_empty_row: bool = False
    is_everywhere: bool = False

    @property
    def is_of_plain_calls(self) -> bool:
        """Whether a call without keywords shows it, so that chance is asked as well."""
        return not self.causal and not self.of_empty_row


def define(problem: Problem) -> Array:
    """(B,H,T,Dv): the output by definition."""
    expectation = expect(problem, assumed_precision(problem.dtype), conventions={},
                   parts=frozenset({"output"}))
    return np.asarray(expectation.output, np.float64)


def _scale_wrongly(problem: Problem) -> Array:
    """(B,H,T,Dv): the scale is 2 % too large."""
    return define(problem.but(scale=1.02 / math.sqrt(problem.sizes.D)))


def _gain(problem: Problem) -> Array:
    """(B,H,T,Dv): the output is 1 % too large."""
    return 1.01 * define(problem)


def _see_one_ahead(problem: Problem) -> Array:
    """(B,H,T,Dv): each query sees one later key."""
    T, S = problem.sizes.T, problem.sizes.S
    return define(problem.but(causal=False, mask=np.tri(T, S, 1, dtype=bool)))


def _drop_last_key(problem: Problem) -> Array:
    """(B,H,T,Dv): the last key is not seen."""
    sizes = problem.sizes
    is_seen = np.arange(sizes.S) < sizes.S - 1
    return define(problem.but(mask=np.broadcast_to(is_seen, (sizes.T, sizes.S))))


def _average(problem: Problem) -> Array:
    """(B,H,T,Dv): all visible keys weigh the same."""
    return define(problem.but(query=np.zeros_like(problem.query)))


def _exchange_halves(problem: Problem) -> Array:
    """(B,H,T,Dv): the halves of the output are exchanged."""
    return np.roll(define(problem), problem.sizes.Dv // 2, axis=-1)


def _take_first_value(problem: Problem) -> Array:
    """(B,H,T,Dv): every query gets the value of the first key."""
    return np.broadcast_to(problem.value[:, :, :1].astype(np.float64), define(problem).shape)


MISTAKES = (
    Mistake("a scale that is off by 2 %", _scale_wrongly, is_everywhere=True),
    Mistake("an output that is off by 1 %", _gain, is_everywhere=True),
    Mistake("a causal flag that is off by one", _see_one_ahead, causal=True),
    Mistake(f"a key that is dropped from S = {DROPS_FROM} on", _drop_last_key,
            sizes=MANY_KEYS_SIZES),
    Mistake("the mean of all values in place of a softmax", _average, is_everywhere=True),
    Mistake("halves of the output that are exchanged", _exchange_halves, is_everywhere=True),
    Mistake("the first key's value in a row without keys whose mean is declared",
            _take_first_value, of_empty_row=True),
)


@dataclass(frozen=True, slots=True, eq=False)
class MistakeExample:
    """A problem that shows a mistake, with the wrong answer in the dtype of the problem."""

    problem: Problem
    answer: Array


@functools.cache
def show_mistake(mistake: Mistake, dtype: DType) -> MistakeExample:
    """The problem whose single entries show a mistake, with its answer."""
    problem = _make_shown(mistake.sizes, dtype)
    if mistake.causal:
        problem = problem.but(causal=True)
    if mistake.of_empty_row:  # its mean is held like that of a query of zeros
        problem = problem.but(query=np.zeros_like(problem.query))
    return MistakeExample(problem, as_dtype(mistake.answer(problem), dtype))


@functools.cache
def slice_problem(dtype: DType, sizes: Sizes) -> Problem:
    """Head slices, each with its own draws, as the clauses on drift have them."""
    return make_problem(_plain_recipe(sizes, ("spread_logits",)), dtype)


@functools.cache
def answer_slices(mistake: Mistake, dtype: DType, sizes: Sizes) -> Array:
    """(n,1,T,Dv): a mistake's answer to the head slices."""
    return as_dtype(mistake.answer(slice_problem(dtype, sizes)), dtype)


@functools.cache
def _make_shown(sizes: Sizes, dtype: DType) -> Problem:
    return make_problem(_plain_recipe(sizes, _FAMILIES), dtype)


def _plain_recipe(sizes: Sizes, families: tuple[str, ...]) -> Recipe:
    return Recipe(sizes, families, mask="none", features=frozenset(), seed=0)


FALSE_ALARM = 1e-9
"""The false-alarm rate of the clauses on drift."""

_DIRECTIONS: tuple[DirectionName, ...] = ("temperature", "gain", "mixing")


def refuse_too_wide(precision: Precision) -> None:
    """Raises ManifestError where a plain mistake conforms under the class.

    Formats of codes could not be chosen wider: a class is looked at without them, and the verdict
    says what they let pass.
    """
    precision = precision.without_stored()
    if not looser_words(precision, assumed_precision(precision.dtype)):
        return
    mistakes = acquitted_by(precision)
    if mistakes:
        more = f" (and {len(mistakes) - 1} more mistakes as plain)" if len(mistakes) > 1 else ""
        raise ManifestError(f"this precision class for {precision.dtype.value} ({precision}) "
                            f"is too wide: {mistakes[0].name} conforms under it{more}. "
                            "Declare no more than what the function rounds, each word with the "
                            "format or the number that is documented.")


def acquitted_by(precision: Precision) -> tuple[Mistake, ...]:
    """The plain mistakes that conform under a class; there are none if it says something."""
    return _acquitted_by(replace(precision.without_stored(), reason=""))


@functools.cache
def _acquitted_by(precision: Precision) -> tuple[Mistake, ...]:
    return tuple(each for each in MISTAKES if not is_detected(each, precision))


def is_detected(mistake: Mistake, precision: Precision) -> bool:
    """Whether an entry of the mistake's answer, or the mean of all, exceeds the class."""
    if _is_beyond_the_bound(mistake, precision):
        return True
    return (mistake.is_everywhere
            and any(_drifts_beyond(mistake, precision, sizes) for sizes in SLICE_SIZES))


def _is_beyond_the_bound(mistake: Mistake, precision: Precision) -> bool:
    example = show_mistake(mistake, precision.dtype)
    expectation = expect(example.problem, precision, conventions={},
                         parts=frozenset({"output", "typical"}))
    gap = np.abs(example.answer.astype(np.float64) - expectation.output)
    allowance = expectation.output_allowance
    # clauses of chance put no keyword, so that they see plain calls alone
    if mistake.is_of_plain_calls:
        allowance = expectation.typical_allowance(FALSE_ALARM)
    return bool((expectation.claimed[..., None] & (gap > allowance)).any())


def _drifts_beyond(mistake: Mistake, precision: Precision, sizes: Sizes) -> bool:
    problem = slice_problem(precision.dtype, sizes)
    if not expect(problem, precision, conventions={}, parts=frozenset({"output"})).claimed.all():
        return False
    relative_rounding = DTYPES[precision.weights].roundoff / DTYPES[precision.output].roundoff
    drifts = _slice_drifts(precision.dtype, sizes, relative_rounding)
    error = _as_slices(answer_slices(mistake, precision.dtype, sizes)) - drifts.truth
    for direction in _DIRECTIONS:
        declared_drift = _declared_drift(drifts, direction, precision, sizes)
        least = drifts.units(direction, error).least_statistic(declared_drift)
        if least > threshold(FALSE_ALARM, len(SLICE_SIZES) + 1):
            return True
    return False


def _declared_drift(drifts: Drifts, direction: DirectionName, precision: Precision,
                    sizes: Sizes) -> float:
    weights, value = _slice_weights(precision.dtype, sizes)
    of_sums = drift_of_sums(drifts, direction, weights, value, precision)
    if direction == "temperature":
        return of_sums + systematic_error(precision, direction, scale_width=sizes.D,
                                          products=sizes.D)
    return of_sums + systematic_error(precision, direction)


@functools.cache
def _slice_weights(dtype: DType, sizes: Sizes) -> tuple[Array, Array]:
    """(n,1,T,S) and (n,1,S,Dv): the weights by definition, and the values, of each head slice."""
    problem = slice_problem(dtype, sizes)
    expectation = expect(problem, assumed_precision(dtype), conventions={}, parts=frozenset({"weights"}))
    return _as_slices(expectation.weights), _as_slices(problem.value)


@functools.cache
def _slice_drifts(dtype: DType, sizes: Sizes, relative_rounding: float) -> Drifts:
    return compute_drifts(*_slice_weights(dtype, sizes), relative_rounding=relative_rounding)


def _as_slices(array: Array) -> Array:
    """An array (B,H,·,·) as (n,1,·,·) in float64, with batch entries and heads side by side."""
    return array.astype(np.float64).reshape(-1, 1, *array.shape[2:])


TYPICAL_PART = frozenset({"typical"})


@dataclass(frozen=True, slots=True)
class Fit:
    """A class, and the panel's worst error in units of what the class allows: 1 or less explains
    it.

    Infinite where an entry is not finite, or where nothing lies in the domain of the class.
    """

    name: str
    ratio: float

    @property
    def explains_panel(self) -> bool:
        """Whether no entry is further off than the class allows."""
        return self.ratio <= 1


def tightest(fits: Sequence[Fit]) -> Fit | None:
    """The first fit that explains the panel.

    fits: from the tightest to the loosest class.
    """
    return next((fit for fit in fits if fit.explains_panel), None)


def ladder(declared_class: Precision) -> Mapping[str, Precision]:
    """Classes by name, from the tightest to the loosest, for subjects of this dtype.

    What says nothing of rounding points (exp, blocks, subnormals) is taken from the declared
    class. The coarser classes of float32 and float64 are those of inputs, weights and softmax
    stored in a narrower format.
    """
    if DTYPES[declared_class.dtype].is_half:
        return {name: _with_declared_words(precision_of_grade(name, declared_class.dtype), declared_class)
                for name in GRADES}
    own = _with_declared_words(precision_of_grade("G0", declared_class.dtype), declared_class)
    coarser = _COARSER[declared_class.dtype]
    rungs = {name: replace(own, **words) for name, words in coarser.items()}  # type: ignore[arg-type]  # by name
    return {own.dtype.value: own, **rungs}


def _with_declared_words(rung: Precision, declared_class: Precision) -> Precision:
    return replace(rung, **{word: getattr(declared_class, word) for word in WORDS_BESIDE_POINTS})


def _narrow_inputs(dtype: DType, roundings: int) -> Mapping[str, object]:
    """Inputs in a narrower format: two factors of each product lose `roundings` roundings each."""
    return {"prescale": dtype, "prescale_roundings": 2 * roundings, "weights": dtype,
            "weight_roundings": 2 * roundings}


_SINGLE = DType.FLOAT32
_STORAGE_POINTS = ("accumulate", "softmax", "row_sum", "logits", "weights", "prescale", "scale")
_COARSER: Mapping[DType, Mapping[str, Mapping[str, object]]] = {
    DType.FLOAT64: {
        "softmax in float32": {"logits": _SINGLE, "logit_roundings": 1, "softmax": _SINGLE,
                               "row_sum": _SINGLE,
                               "weights": _SINGLE},
        "float32": {**dict.fromkeys(_STORAGE_POINTS, _SINGLE), "weight_roundings": 3,
                    "prescale_roundings": 4}},
    # cutting mantissas off costs two roundings; TF32 keeps as many bits as float16 does
    DType.FLOAT32: {"inputs in TF32": _narrow_inputs(DType.FLOAT16, 2),
                    "inputs in bfloat16": _narrow_inputs(DType.BFLOAT16, 2)},
}


def fingerprint(problem: Problem, output: Array, declared_class: Precision, *,
                conventions: Mapping[str, str],
                scale_width: int | None, false_alarm: float) -> tuple[Fit, ...]:
    """How well each class of the ladder explains an output (B,H,T,Dv) to generic values.

    false_alarm: an upper limit of the chance that the subject's own class does not explain it.
    """
    return tuple(fit_class(problem, output, precision, name=name, conventions=conventions,
                           scale_width=scale_width, false_alarm=false_alarm)
                           for name, precision in ladder(declared_class).items())


def fit_class(problem: Problem, output: Array, precision: Precision, *, name: str,
              conventions: Mapping[str, str], scale_width: int | None, false_alarm: float) -> Fit:
    """How well one class explains an output (B,H,T,Dv); see `fingerprint`."""
    expectation = expect(problem, precision, conventions=conventions, scale_width=scale_width,
                         parts=TYPICAL_PART)
    allowance = expectation.typical_allowance(false_alarm)
    is_claimed = np.broadcast_to(expectation.claimed[..., None], output.shape)
    gap = np.abs(output - expectation.output)
    return Fit(name, _worst_ratio(gap[is_claimed], allowance[is_claimed]))


def _worst_ratio(gap: Array, allowance: Array) -> float:
    """The largest gap over its allowance, any shape.

    Infinite where nothing is claimed, or a gap is not finite.
    """
    if not gap.size or not np.isfinite(gap).all():
        return float("inf")
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(gap == 0, 0.0, gap / allowance).max())
