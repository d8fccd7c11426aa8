"""Whether two answers to a problem are one within rounding, and whether one of them is right.

The bound of numerics/ surrounds the true answer. Around the answer of a fault it is stretched, row
by row, as far as that answer is larger than the true one; each class adds its own roundings of
what it hands back.
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
    """The true array, how far the subject's and a fault's class may be from it, and which rows are
    judged.

    honest_difference: (…,1) the most that honest answers of both may be apart in a row, be it that
    nothing is hidden from it: a wrong answer may see what it should not.  relative: the roundings
    of both that are proportional to what is returned.
    """

    truth: Array
    own: Array
    other: Array
    honest_difference: Array
    judged_rows: Array
    relative: float

    def is_near(self, seen: Array, allowance: Array) -> bool:
        """Whether an array, (B,H,T,Dv) or as the truth is, is the true one within an allowance."""
        return not (self.judged_rows & _exceeds_slack(seen, self.truth, allowance)).any()

    def are_near(self, seen: Array, other: Array, spread: float) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are one within the roundings of both
        classes at the size of the second, and `spread`.
        """
        size, least = (np.abs(replace_non_finite(array)).max(axis=-1, keepdims=True, initial=0.0)
                       for array in (other, self.truth))
        # a wrong answer may be larger than the true one, and rounds in proportion to its own size
        stretch = np.maximum(1.0, size / np.where(least > 0, least, np.inf))
        slack = self.honest_difference * stretch + self.relative * size + spread
        return not (self.judged_rows & _exceeds_slack(seen, other, slack)).any()

    def are_close(self, seen: Array, other: Array) -> bool:
        """Whether two arrays, (B,H,T,Dv) or as the truth is, are as near to each other as two
        honest ones, entry by entry.
        """
        return not (self.judged_rows & _exceeds_slack(seen, other, self.own + self.other)).any()

    def array_nearness(self, seen: Array, other: Array) -> float:
        """How far an array, (B,H,T,Dv) or as the truth is, is from another, in units of how far it
        is from the true one: below 1 is nearer.
        """
        with np.errstate(all="ignore"):
            gap, off = (float(np.nanmax(np.where(self.judged_rows, np.abs(seen - array), 0.0),
                                        initial=0.0))
                        for array in (other, self.truth))
        if off > 0:
            return gap / off
        return np.inf if gap > 0 else 0.0


def largest_distance(one: Array, other: Array) -> float:
    """The largest distance of two arrays of one shape, any shape; infinities and NaNs have none."""
    with np.errstate(all="ignore"):
        return float(np.abs(replace_non_finite(one - other)).max(initial=0.0))


def replace_non_finite(array: Array) -> Array:
    """An array of any shape, with 0 for what is not finite."""
    return np.where(np.isfinite(array), array, 0.0)


def _exceeds_slack(seen: Array, other: Array, slack: Array) -> Array:
    """Where two arrays, any shape, are further apart than allowed; equal infinities and any two
    NaNs are not apart.
    """
    with np.errstate(all="ignore"):
        near = (np.abs(seen - other) <= slack) & np.isfinite(other)
    return np.asarray(~(near | (seen == other) | (np.isnan(seen) & np.isnan(other))))


class Aspect(enum.Enum):
    """What is compared besides the values, where the violated relation speaks of it."""

    MUTATED = "leaves_inputs"
    ALIASES = "shares_no_memory"
    KEPT = "answers_are_kept"
    DTYPE = "has_input_dtype"
    NONE = ""


def compared_aspect(relation: str) -> Aspect:
    """What a relation looks at besides the values."""
    return next((aspect for aspect in Aspect if aspect.value == relation), Aspect.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerRuler:
    """What answers to one problem are held to: an output gauge, and one for weights and
    log-sum-exps if asked for.

    No gauge at all where the definition says nothing: then it counts only how calls end.  has_lse:
    whether one is for log-sum-exps.  inputs: those whose gradients the last gauges are for.
    """

    dtype: DType
    gauges: tuple[ArrayGauge, ...]
    aspect: Aspect
    output_dtype: str
    has_lse: bool = False
    inputs: tuple[str, ...] = ()

    def is_right_call(self, step: LoggedCall, *, is_subject: bool) -> bool:
        """Whether an answer is the true one within the roundings of its class."""
        if step.ending is not Ending.ANSWERED or self._offends(step):
            return False
        return all(gauge.is_near(seen, gauge.own if is_subject else gauge.other)
                   for gauge, seen in zip(self.gauges, self._compared_arrays(step), strict=True))

    def are_alike(self, step: LoggedCall, of_fault: LoggedCall,
                  shaken: Callable[[], Iterable[LoggedCall]]) -> bool:
        """Whether two calls ended the same way. `shaken` gives the fault's call with rounding
        errors put in.

        It is asked for where the answers are further apart than the bound allows and yet nearer to
        each other than to the truth: how far its own rounding moves a wrong answer is more than a
        bound around the right one can know.
        """
        if step.ending is not of_fault.ending or step.shape != of_fault.shape:
            return False
        if step.ending is not Ending.ANSWERED:
            return True
        if self._aspect_value(step) != self._aspect_value(of_fault):
            return False
        seen, others = self._compared_arrays(step), self._compared_arrays(of_fault)
        if len(seen) != len(others):
            return False
        if self._are_arrays_near(seen, others, [0.0] * len(seen)):
            return True
        # rounding does not make a right answer a wrong one, and to put it in is dear
        is_hopeless = (self.is_right_call(of_fault, is_subject=False)
                       and not self.is_right_call(step, is_subject=True))
        return (not is_hopeless and self.call_nearness(step, of_fault) < 1
                and self._are_arrays_near(seen, others, self._spreads(others, shaken())))

    def are_close(self, step: LoggedCall, of_fault: LoggedCall) -> bool:
        """Whether two calls were answered as two honest subjects would: no telling which one is
        wrong.
        """
        if step.ending is not Ending.ANSWERED or of_fault.ending is not Ending.ANSWERED:
            return False
        if self._aspect_value(step) != self._aspect_value(of_fault):
            return False
        return all(gauge.are_close(one, other) for gauge, one, other in
                   zip(self.gauges, self._compared_arrays(step), self._compared_arrays(of_fault),
                       strict=False))

    def call_nearness(self, step: LoggedCall, of_fault: LoggedCall) -> float:
        """The largest of what is compared; infinite where one answers and the other does not."""
        if Ending.ANSWERED not in {step.ending, of_fault.ending}:
            return 0.0 if step.ending is of_fault.ending else np.inf
        if step.ending is not of_fault.ending or (
                (step.answer_given.weights is None) is not (
                    of_fault.answer_given.weights is None)):
            return np.inf
        return max((gauge.array_nearness(one, other) for gauge, one, other in
                    zip(self.gauges, self._compared_arrays(step), self._compared_arrays(of_fault),
                        strict=False)), default=0.0)

    def _are_arrays_near(self, seen: list[Array], others: list[Array],
                         spreads: list[float]) -> bool:
        """Whether outputs (B,H,T,Dv) or (B,T,M), and weights (B,H,T,S) or (B,T,S), are one within
        rounding, each by its gauge.
        """
        return all(gauge.are_near(one, other, spread)
                   for gauge, one, other, spread in zip(self.gauges, seen, others, spreads,
                                                        strict=False))

    def _spreads(self, others: list[Array], shaken: Iterable[LoggedCall]) -> list[float]:
        """How far apart rounding may bring two answers like these (any shape): each is moved, so
        twice how far it moves one.
        """
        moved = [self._compared_arrays(step) for step in shaken if step.ending is Ending.ANSWERED]
        return [2 * max((largest_distance(one, arrays[index]) for arrays in moved), default=0.0)
                for index, one in enumerate(others)]

    def _compared_arrays(self, step: LoggedCall) -> list[Array]:
        """The output, (B,H,T,Dv) or (B,T,M), the weights, (B,H,T,S) or (B,T,S), the log-sum-exps,
        (B,H,T,1), where they came back, and the gradients of the inputs, query (B,H,T,D) and its
        like.
        """
        answer = step.answer_given
        lse = answer.lse[..., None] if self.has_lse and answer.lse is not None else None
        gradients = (answer.by_input[name] for name in self.inputs)
        return [array.astype(wide_float(self.dtype))
                for array in (answer.output, answer.weights, lse, *gradients)
                if array is not None]

    def _aspect_value(self, step: LoggedCall) -> object:
        """What is looked at beside the numbers; only that, since whether an answer is kept is dear
        to find out.
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
        """Whether the call did what it must not, in the aspect that is looked at."""
        honest = {Aspect.MUTATED: (), Aspect.ALIASES: (), Aspect.KEPT: True,
                  Aspect.DTYPE: self.output_dtype, Aspect.NONE: None}[self.aspect]
        return self._aspect_value(step) != honest


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonStandard:
    """What a subject is held to: its declaration, its precision class, the conventions and the
    aspect looked at.
    """

    subject: Subject
    precision: Precision
    conventions: Mapping[str, str]
    aspect: Aspect

    def ruler(self, problem: AnyProblem) -> AnswerRuler:
        """The ruler of a problem that is put to the subject and to faults, which round once, at
        the end.
        """
        if (isinstance(problem, LayerProblem)
            and problem.params["w_query"].shape[1] % problem.heads):
            return AnswerRuler(problem.dtype, (), self.aspect,
                               "")  # heads that do not divide the width: nothing is defined
        classes = self.precision, fault_precision(problem.dtype)
        own = self.expectation_for(problem, classes[0])
        other = own if classes[1] == classes[0] else self.expectation_for(problem, classes[1])
        name = self.subject.declaration.returned_dtype(problem.dtype).value
        of_lse = tuple(self._gauges_of_lse(problem, own, other))
        of_inputs = self._gauges_of_gradients(problem)
        return AnswerRuler(problem.dtype,
                           (*self._output_gauges(problem, own, other), *of_lse,
                            *of_inputs.values()),
                           self.aspect, name, bool(of_lse), tuple(of_inputs))

    def expectation_for(self, problem: AnyProblem, precision: Precision) -> Expectation:
        """What the definition answers to a problem, of a layer too, and how far a class may stray
        from it.
        """
        if isinstance(problem, RotaryProblem):
            return expect_rotary(problem, precision, conventions=self.conventions)
        parts = frozenset({"output", *(["weights"] if problem.return_weights else [])})
        if isinstance(problem, LayerProblem):
            return expect_layer(problem, precision, conventions=self.conventions, parts=parts)
        parts |= {"lse"} if problem.return_lse else frozenset()
        return expect(problem, precision, conventions=self.conventions, parts=parts,
                      scale_width=self.subject.scale_width(problem))

    def _output_gauges(self, problem: AnyProblem, own: Expectation,
                       other: Expectation) -> Iterator[ArrayGauge]:
        # a row that sees no key has an answer only where both call it zeros
        rows = np.asarray(own.claimed & other.claimed
                          | (own.empty & self._zeros_are_due))[..., None]
        # an output of a layer mixes heads: it is judged where all of them are
        of_layer = np.asarray(own.output_claimed & other.output_claimed)[..., None]
        relative = _relative_roundings((self.precision, fault_precision(problem.dtype)),
                                       problem.sizes.S)
        # a wrong answer may see what it should not, and rounds then as one that may
        open_to_all = self._nothing_hidden(problem)
        either = _largest_of_rows(own.output_allowance + other.output_allowance,
                                  *(each.output_allowance for each in open_to_all))
        yield ArrayGauge(own.output, own.output_allowance, other.output_allowance, either,
                         of_layer if isinstance(problem, LayerProblem) else rows, relative)
        if not isinstance(problem, RotaryProblem) and problem.return_weights:
            either = _largest_of_rows(own.weights_allowance + other.weights_allowance,
                                      *(each.weights_allowance for each in open_to_all))
            weights = ArrayGauge(own.weights, own.weights_allowance, other.weights_allowance,
                                 either, rows, relative)
            yield (_average_over_heads(weights)
                   if self.subject.declaration.limits.weights == "averaged" else weights)

    def _gauges_of_lse(self, problem: AnyProblem, own: Expectation,
                       other: Expectation) -> Iterator[ArrayGauge]:
        """For log-sum-exps, (B,H,T,1), where the subject's conventions of them are those of the
        faults.
        """
        if (own.lse is None or own.lse_allowance is None or other.lse_allowance is None
            or not self._has_usual_lse):
            return
        slack, of_fault = own.lse_allowance[..., None], other.lse_allowance[..., None]
        opened = (each.lse_allowance[..., None] for each in self._nothing_hidden(problem)
                  if each.lse_allowance is not None)
        rows = np.asarray(own.claimed & other.claimed | own.empty)[..., None]
        yield ArrayGauge(own.lse[..., None], slack, of_fault,
                         _largest_of_rows(slack + of_fault, *opened), rows,
                         _relative_roundings((self.precision, fault_precision(problem.dtype)),
                                             problem.sizes.S))

    def _gauges_of_gradients(self, problem: AnyProblem) -> Mapping[str, ArrayGauge]:
        """By the name of the input, for the gradients of attention's inputs, where an output's
        gradient is given.
        """
        declared = self.subject.declaration
        if (not isinstance(problem, Problem) or problem.grad_output is None
            or declared.kind is not Kind.ATTENTION):
            return {}
        backward = declared_backward(declared.backward_precision.get(problem.dtype),
                                     self.precision)
        fault = fault_precision(problem.dtype)
        classes = (self.precision, backward), (fault, declared_backward(None, fault))
        own, other = (expect_gradients(
            problem, grad_given(problem, declared), *each, conventions=self.conventions,
            scale_width=self.subject.scale_width(problem),
            settled=rows_without_gradient(problem, self.conventions))
            for each in classes)
        relative = _relative_roundings((self.precision, fault), problem.sizes.S)
        return {name: _gauge_of_gradient(own[name], other[name], relative)
                for name in inputs_of(problem, declared.limits) if name in own}

    @property
    def _has_usual_lse(self) -> bool:
        # those of the faults, whose log-sum-exps are compared with the subject's
        usual = {"lse_base": "natural", "lse_of_hidden_row": "minus_infinity"}
        return all(self.conventions.get(name, answer) == answer for name, answer in usual.items())

    def _nothing_hidden(self, problem: AnyProblem) -> list[Expectation]:
        """What is expected in both classes where every key is visible; nothing if it is anyway."""
        hiding = acting_on(Acts.VISIBILITY)
        if not hiding.keys() & problem.keywords:
            return []
        # a fault that hides nothing rounds as the problem does in which nothing is hidden
        opened = problem.but(**hiding)
        return [self.expectation_for(opened, each)
                for each in (self.precision, fault_precision(problem.dtype))]

    @property
    def _zeros_are_due(self) -> bool:
        """Whether rows without a visible key are held to be zeros, as those of the faults are."""
        answers = {answer for name, answer in self.conventions.items()
                   if name.partition(".")[0] == "hidden_row"}
        return answers == {"zeros"}


def _gauge_of_gradient(own: Gradient, other: Gradient, relative: float) -> ArrayGauge:
    either = _largest_of_rows(own.allowance + other.allowance)
    return ArrayGauge(own.truth, own.allowance, other.allowance, either,
                      np.asarray(own.claimed & other.claimed), relative)


def fault_precision(dtype: DType) -> Precision:
    """The class of every fault: wide inside, one rounding at the end."""
    return declared_precision({"grade": "G0"} if DTYPES[dtype].is_half else None, dtype)


def _relative_roundings(classes: tuple[Precision, ...], S: int) -> float:
    """Roundings in proportion to what is handed back: of the output, the weights, the row's sum
    and the mixing.
    """
    numbers = [roundings(precision) for precision in classes]
    # in the worst case, S additions all round the same way
    return sum(r.output + r.weights + 2 * r.softmax + S * (r.row_sum + r.accumulate)
               for r in numbers)


def _largest_of_rows(own: Array, *opened: Array) -> Array:
    """(B,H,T,1) or (B,T,1): the largest finite allowance of a row, of the problem or, in both
    classes, with nothing hidden.
    """
    allowances = own, functools.reduce(np.add, opened, np.zeros(()))
    return functools.reduce(np.maximum,
                            (replace_non_finite(each).max(axis=-1, keepdims=True, initial=0.0)
                                         for each in allowances if each.ndim))


def _average_over_heads(gauge: ArrayGauge) -> ArrayGauge:
    """The same for the mean over the heads, which is rounded once a head more."""
    truth = gauge.truth.mean(axis=1)
    more = gauge.truth.shape[1] * gauge.relative * truth
    own, other, either = (array.mean(axis=1) + more.max(axis=-1, keepdims=True)
                          for array in (gauge.own, gauge.other, gauge.honest_difference))
    return ArrayGauge(truth, own, other, either, np.asarray(gauge.judged_rows.all(axis=1)),
                      gauge.relative)
