"""Decides whether two answers to a problem are one within rounding, and whether one of them is
right.

The bound of numerics/ surrounds the true answer. Around a fault's answer it is stretched, row by
row, by as much as that answer is larger than the true one. Each class adds its own roundings of
what it returns.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.expectation import Expectation, expect, expect_layer
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.gradients import expect_gradients
from attnspec.numerics.precision import Precision, declared_precision
from attnspec.numerics.reference import wide_float
from attnspec.numerics.rotary import expect_rotary
from attnspec.numerics.roundings import declared_backward, roundings
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, LayerProblem, Problem
from attnspec.subjects.call import grad_given, inputs_of
from attnspec.subjects.subject import Subject
from attnspec.trials.evaluator import rows_without_gradient
from attnspec.trials.judging import Ending, LoggedCall
from attnspec.vocabulary.scene import AnyProblem


@dataclass(frozen=True, slots=True, eq=False)
class ArrayGauge:
    """The true array, and how far the subject's and a fault's class may stray from it.

    honest_difference: (…,1) the most by which honest answers of both classes differ in a row, even
    if nothing is hidden from it: a wrong answer may see what it should not.  judged_rows: which
    rows are compared.  relative: the roundings of both that are proportional to what is returned.
    """

    truth: Array
    own: Array
    other: Array
    honest_difference: Array
    judged_rows: Array
    relative: float

    def is_near(self, array: Array, allowance: Array) -> bool:
        """Whether an array, (B,H,T,Dv) or as the truth is, is the true one within an allowance."""
        return not (self.judged_rows & _exceeds_slack(array, self.truth, allowance)).any()

    def are_near(self, array: Array, other: Array, spread: float) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are one within both classes'
        roundings.

        The roundings are those at the size of the second array. spread: what may be added to them.
        """
        size, least = _largest_of_row(other), _largest_of_row(self.truth)
        # a wrong answer may be larger than the true one, and rounds in proportion to its own size
        stretch = np.maximum(1.0, size / np.where(least > 0, least, np.inf))
        slack = self.honest_difference * stretch + self.relative * size + spread
        return not (self.judged_rows & _exceeds_slack(array, other, slack)).any()

    def are_close(self, array: Array, other: Array) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are as near to each other as two
        honest ones, entry by entry.
        """
        return not (self.judged_rows & _exceeds_slack(array, other, self.own + self.other)).any()

    def array_nearness(self, array: Array, other: Array) -> float:
        """How far an array, (B,H,T,Dv) or as the truth is, is from another, divided by how far it
        is from the true one.
        """
        gap, gap_to_truth = self._largest_gap(array, other), self._largest_gap(array, self.truth)
        if gap_to_truth > 0:
            return gap / gap_to_truth
        return np.inf if gap > 0 else 0.0

    def _largest_gap(self, array: Array, other: Array) -> float:
        """The largest distance in the judged rows of two arrays, (B,H,T,Dv) or as the truth is."""
        with np.errstate(all="ignore"):
            gaps = np.where(self.judged_rows, np.abs(array - other), 0.0)
            return float(np.nanmax(gaps, initial=0.0))


def largest_distance(one: Array, other: Array) -> float:
    """The largest distance of two arrays of any one shape; infinities and NaNs have none."""
    with np.errstate(all="ignore"):
        return float(np.abs(replace_non_finite(one - other)).max(initial=0.0))


def replace_non_finite(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0.0)


def _largest_of_row(array: Array) -> Array:
    """(…,1): the largest finite magnitude in each row of (…,n)."""
    largest: Array = np.abs(replace_non_finite(array)).max(axis=-1, keepdims=True, initial=0.0)
    return largest


def _exceeds_slack(array: Array, other: Array, slack: Array) -> Array:
    """Where two arrays, any shape, are further apart than allowed.

    Equal infinities, and any two NaNs, are not apart.
    """
    with np.errstate(all="ignore"):
        is_near = (np.abs(array - other) <= slack) & np.isfinite(other)
    return np.asarray(~(is_near | (array == other) | (np.isnan(array) & np.isnan(other))))


class Aspect(enum.Enum):
    """What is compared besides the values, where the violated relation speaks of it."""

    MUTATED = "leaves_inputs"
    ALIASES = "shares_no_memory"
    KEPT = "answers_are_kept"
    DTYPE = "has_input_dtype"
    NONE = ""


def compared_aspect(relation: str) -> Aspect:
    """The aspect that a relation looks at besides the values."""
    return next((aspect for aspect in Aspect if aspect.value == relation), Aspect.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerRuler:
    """What answers to one problem are held to: a gauge for each array that comes back.

    They are for the output, the weights, the log-sum-exps (has_lse) and the gradients of `inputs`.
    Where the definition says nothing there is none, and it counts only how calls end.
    """

    dtype: DType
    gauges: tuple[ArrayGauge, ...]
    aspect: Aspect
    output_dtype: str
    has_lse: bool = False
    inputs: tuple[str, ...] = ()

    def is_right_call(self, step: LoggedCall, *, is_subject: bool) -> bool:
        """Whether an answer is the true one within the roundings of the subject's or the faults'
        class.
        """
        if step.ending is not Ending.ANSWERED or self._offends(step):
            return False
        return all(gauge.is_near(array, gauge.own if is_subject else gauge.other)
                   for gauge, array in zip(self.gauges, self._compared_arrays(step), strict=True))

    def are_alike(self, step: LoggedCall, of_fault: LoggedCall,
                  shaken: Callable[[], Iterable[LoggedCall]]) -> bool:
        """Whether subject and fault answered a call alike.

        shaken: the fault's call with rounding errors put in. It is asked for where the answers are
        further apart than the bound allows and yet nearer to each other than to the truth: a bound
        around the right answer does not know how far rounding moves a wrong one.
        """
        if step.ending is not of_fault.ending or step.shape != of_fault.shape:
            return False
        if step.ending is not Ending.ANSWERED:
            return True
        if self._aspect_value(step) != self._aspect_value(of_fault):
            return False
        arrays, others = self._compared_arrays(step), self._compared_arrays(of_fault)
        if len(arrays) != len(others):
            return False
        if self._are_arrays_near(arrays, others, [0.0] * len(arrays)):
            return True
        # rounding does not make a right answer a wrong one, and to put it in is dear
        is_hopeless = (self.is_right_call(of_fault, is_subject=False)
                       and not self.is_right_call(step, is_subject=True))
        return (not is_hopeless and self.call_nearness(step, of_fault) < 1
                and self._are_arrays_near(arrays, others, self._spreads(others, shaken())))

    def are_close(self, step: LoggedCall, of_fault: LoggedCall) -> bool:
        """Whether the answers differ as those of two honest subjects may: then neither is known to
        be wrong.
        """
        if step.ending is not Ending.ANSWERED or of_fault.ending is not Ending.ANSWERED:
            return False
        if self._aspect_value(step) != self._aspect_value(of_fault):
            return False
        return all(gauge.are_close(one, other)
                   for gauge, one, other in self._gauged_pairs(step, of_fault))

    def call_nearness(self, step: LoggedCall, of_fault: LoggedCall) -> float:
        """The largest nearness of the arrays; infinite where one answers and the other does not."""
        if Ending.ANSWERED not in {step.ending, of_fault.ending}:
            return 0.0 if step.ending is of_fault.ending else np.inf
        if step.ending is not of_fault.ending:
            return np.inf
        weights, weights_of_fault = step.answer_given.weights, of_fault.answer_given.weights
        if (weights is None) is not (weights_of_fault is None):
            return np.inf
        return max((gauge.array_nearness(one, other)
                    for gauge, one, other in self._gauged_pairs(step, of_fault)), default=0.0)

    def _gauged_pairs(self, step: LoggedCall,
                      of_fault: LoggedCall) -> Iterator[tuple[ArrayGauge, Array, Array]]:
        return zip(self.gauges, self._compared_arrays(step), self._compared_arrays(of_fault),
                   strict=False)


    def _are_arrays_near(self, arrays: list[Array], others: list[Array],
                         spreads: list[float]) -> bool:
        """Whether outputs (B,H,T,Dv) or (B,T,M), and weights (B,H,T,S) or (B,T,S), are one within
        rounding, each by its gauge.
        """
        return all(gauge.are_near(one, other, spread)
                   for gauge, one, other, spread in zip(self.gauges, arrays, others, spreads,
                                                        strict=False))

    def _spreads(self, others: list[Array], shaken: Iterable[LoggedCall]) -> list[float]:
        """How far rounding may bring two answers like these (any shape) apart."""
        spreads = [0.0] * len(others)
        for step in shaken:
            if step.ending is Ending.ANSWERED:
                arrays = self._compared_arrays(step)
                # each of the two answers is moved
                spreads = [max(spread, 2 * largest_distance(one, arrays[index]))
                           for index, (spread, one) in enumerate(zip(spreads, others, strict=True))]
        return spreads

    def _compared_arrays(self, step: LoggedCall) -> list[Array]:
        """The arrays that came back, each with a gauge.

        Output (B,H,T,Dv) or (B,T,M), weights (B,H,T,S) or (B,T,S), log-sum-exps (B,H,T,1), and
        gradients of the inputs, such as query (B,H,T,D).
        """
        answer = step.answer_given
        arrays = [answer.output]
        if answer.weights is not None:
            arrays.append(answer.weights)
        if self.has_lse and answer.lse is not None:
            arrays.append(answer.lse[..., None])
        arrays += [answer.by_input[name] for name in self.inputs]
        return [array.astype(wide_float(self.dtype)) for array in arrays]

    def _aspect_value(self, step: LoggedCall) -> object:
        """What is compared beside the numbers. Only that is read: whether an answer is kept is
        dear.
        """
        match self.aspect:
            case Aspect.MUTATED:
                return step.answer_given.mutated
            case Aspect.ALIASES:
                return step.answer_given.aliases
            case Aspect.KEPT:
                return step.is_kept
            case Aspect.DTYPE:
                return step.answer_given.output.dtype.name
            case Aspect.NONE:
                return None

    def _offends(self, step: LoggedCall) -> bool:
        """Whether the call did what it must not, in the aspect that is compared."""
        honest = {Aspect.MUTATED: (), Aspect.ALIASES: (), Aspect.KEPT: True,
                  Aspect.DTYPE: self.output_dtype, Aspect.NONE: None}[self.aspect]
        return self._aspect_value(step) != honest


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonStandard:
    """What a subject is held to: its declaration, its precision class, the conventions and an
    aspect.
    """

    subject: Subject
    precision: Precision
    conventions: Mapping[str, str]
    aspect: Aspect

    def ruler(self, problem: AnyProblem) -> AnswerRuler:
        """The ruler for answers to a problem, by the subject and by faults, which round once, at
        the end.
        """
        # heads that do not divide the width: nothing is defined
        if (isinstance(problem, LayerProblem)
                and problem.params["w_query"].shape[1] % problem.heads):
            return AnswerRuler(problem.dtype, (), self.aspect, "")
        class_of_faults = fault_precision(problem.dtype)
        own = other = self.expectation_for(problem, self.precision)
        if class_of_faults != self.precision:
            other = self.expectation_for(problem, class_of_faults)
        output_dtype = self.subject.declaration.returned_dtype(problem.dtype).value
        of_lse = tuple(self._gauges_of_lse(problem, own, other))
        of_inputs = self._gauges_of_gradients(problem)
        gauges = (*self._output_gauges(problem, own, other), *of_lse, *of_inputs.values())
        return AnswerRuler(problem.dtype, gauges, self.aspect, output_dtype, bool(of_lse),
                           tuple(of_inputs))

    def expectation_for(self, problem: AnyProblem, precision: Precision) -> Expectation:
        """What the definition answers, and how far a class may stray from it; also of layers and
        rotations.
        """
        if isinstance(problem, RotaryProblem):
            return expect_rotary(problem, precision, conventions=self.conventions)
        parts = frozenset({"output"})
        if problem.return_weights:
            parts |= {"weights"}
        if isinstance(problem, LayerProblem):
            return expect_layer(problem, precision, conventions=self.conventions, parts=parts)
        if problem.return_lse:
            parts |= {"lse"}
        return expect(problem, precision, conventions=self.conventions, parts=parts,
                      scale_width=self.subject.scale_width(problem))

    def _output_gauges(self, problem: AnyProblem, own: Expectation,
                       other: Expectation) -> Iterator[ArrayGauge]:
        # a row that sees no key has an answer only where both call it zeros
        rows = np.asarray(own.claimed & other.claimed
                          | (own.empty & self._zeros_are_due))[..., None]
        output_rows = rows
        # an output of a layer mixes heads: it is judged where all of them are
        if isinstance(problem, LayerProblem):
            output_rows = np.asarray(own.output_claimed & other.output_claimed)[..., None]
        relative = self._relative_roundings(problem)
        # a wrong answer may see what it should not, and rounds then as one that may
        open_to_all = self._nothing_hidden(problem)
        either = _largest_of_rows(own.output_allowance + other.output_allowance,
                                  *(each.output_allowance for each in open_to_all))
        yield ArrayGauge(own.output, own.output_allowance, other.output_allowance, either,
                         output_rows, relative)
        if not isinstance(problem, RotaryProblem) and problem.return_weights:
            either = _largest_of_rows(own.weights_allowance + other.weights_allowance,
                                      *(each.weights_allowance for each in open_to_all))
            weights = ArrayGauge(own.weights, own.weights_allowance, other.weights_allowance,
                                 either, rows, relative)
            if self.subject.declaration.limits.weights == "averaged":
                weights = _average_over_heads(weights)
            yield weights

    def _gauges_of_lse(self, problem: AnyProblem, own: Expectation,
                       other: Expectation) -> Iterator[ArrayGauge]:
        """The gauge for log-sum-exps, (B,H,T,1), if the subject's conventions are those of the
        faults.
        """
        if (own.lse is None or own.lse_allowance is None or other.lse_allowance is None
            or not self._has_usual_lse):
            return
        slack, of_fault = own.lse_allowance[..., None], other.lse_allowance[..., None]
        unmasked = (each.lse_allowance[..., None] for each in self._nothing_hidden(problem)
                  if each.lse_allowance is not None)
        rows = np.asarray(own.claimed & other.claimed | own.empty)[..., None]
        yield ArrayGauge(own.lse[..., None], slack, of_fault,
                         _largest_of_rows(slack + of_fault, *unmasked), rows,
                         self._relative_roundings(problem))

    def _gauges_of_gradients(self, problem: AnyProblem) -> Mapping[str, ArrayGauge]:
        """The gauge of each input's gradient, by name, if an output's gradient is given."""
        declaration = self.subject.declaration
        if (not isinstance(problem, Problem) or problem.grad_output is None
                or declaration.kind is not Kind.ATTENTION):
            return {}
        backward = declared_backward(declaration.backward_precision.get(problem.dtype),
                                     self.precision)
        fault = fault_precision(problem.dtype)
        expected = functools.partial(
            expect_gradients, problem, grad_given(problem, declaration),
            conventions=self.conventions, scale_width=self.subject.scale_width(problem),
            settled=rows_without_gradient(problem, self.conventions))
        own = expected(self.precision, backward)
        other = expected(fault, declared_backward(None, fault))
        relative = self._relative_roundings(problem)
        return {name: _gauge_of_gradient(own[name], other[name], relative)
                for name in inputs_of(problem, declaration.limits) if name in own}

    @property
    def _has_usual_lse(self) -> bool:
        # those of the faults, whose log-sum-exps are compared with the subject's
        usual = {"lse_base": "natural", "lse_of_hidden_row": "minus_infinity"}
        return all(self.conventions.get(name, answer) == answer for name, answer in usual.items())

    def _nothing_hidden(self, problem: AnyProblem) -> list[Expectation]:
        """What both classes expect where every key is visible; nothing if every key is anyway."""
        hiding = acting_on(Acts.VISIBILITY)
        if not hiding.keys() & problem.keywords:
            return []
        # a fault that hides nothing rounds as the problem does in which nothing is hidden
        unmasked = problem.but(**hiding)
        return [self.expectation_for(unmasked, each)
                for each in (self.precision, fault_precision(problem.dtype))]

    def _relative_roundings(self, problem: AnyProblem) -> float:
        """Roundings of subject and fault in proportion to what they return.

        They are those of the output, the weights, the row's sum and the mixing.
        """
        both = (roundings(self.precision), roundings(fault_precision(problem.dtype)))
        # in the worst case, S additions all round the same way
        return sum(r.output + r.weights + 2 * r.softmax
                   + problem.sizes.S * (r.row_sum + r.accumulate) for r in both)

    @property
    def _zeros_are_due(self) -> bool:
        """Whether rows without a visible key have to be zeros, as those of the faults are."""
        answers = {answer for name, answer in self.conventions.items()
                   if name.partition(".")[0] == "hidden_row"}
        return answers == {"zeros"}


def _gauge_of_gradient(own: Gradient, other: Gradient, relative: float) -> ArrayGauge:
    either = _largest_of_rows(own.allowance + other.allowance)
    return ArrayGauge(own.truth, own.allowance, other.allowance, either,
                      np.asarray(own.claimed & other.claimed), relative)


def fault_precision(dtype: DType) -> Precision:
    """The precision class of all faults: wide inside, one rounding at the end."""
    return declared_precision({"grade": "G0"} if DTYPES[dtype].is_half else None, dtype)


def _largest_of_rows(own: Array, *unmasked: Array) -> Array:
    """(B,H,T,1) or (B,T,1): the largest finite allowance of a row.

    unmasked: both classes' allowances where nothing is hidden, which are added up.
    """
    largest = _largest_of_row(own)
    if unmasked:
        largest = np.maximum(largest, _largest_of_row(functools.reduce(np.add, unmasked)))
    return largest


def _average_over_heads(gauge: ArrayGauge) -> ArrayGauge:
    """The gauge for the mean over heads, each of which adds a rounding."""
    truth = gauge.truth.mean(axis=1)
    more = gauge.truth.shape[1] * gauge.relative * truth
    own, other, either = (array.mean(axis=1) + more.max(axis=-1, keepdims=True)
                          for array in (gauge.own, gauge.other, gauge.honest_difference))
    return ArrayGauge(truth, own, other, either, np.asarray(gauge.judged_rows.all(axis=1)),
                      gauge.relative)
