"""Evaluates a subject at one dtype: calls it, compares its answers with the definition, and
remembers both for a while.

Subjects that are held to the same share the problems, and what the definition says of them. So
many values are remembered, and so many bytes of their arrays. Memory that is free again is kept
for the next case, or handed back to the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import TypeVar

import numpy as np

from attnspec.core.conventions import of_hidden_rows
from attnspec.core.declaration import Limits, asked_of
from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.bound import needs_screening
from attnspec.numerics.dropout import expect_with_factors
from attnspec.numerics.expectation import Expectation, expect, expect_gradients_alone, expect_layer
from attnspec.numerics.gradient_sums import Factor, Gradient, exact_factor, gradient_of_bias, gradient_of_weight
from attnspec.numerics.gradients import erring_classes, expect_gradients
from attnspec.numerics.operands import queries_within
from attnspec.numerics.precision import Precision, declared_precision
from attnspec.numerics.reference import wide_float
from attnspec.numerics.rotary import ROTARY_PAIRS, expect_rotary
from attnspec.numerics.roundings import (
    BackwardPrecision,
    BackwardRoundings,
    declared_backward,
    format_backward,
)
from attnspec.numerics.score import Drifts
from attnspec.problems.make import RotaryProblem, make_layer, make_problem, make_rotary
from attnspec.problems.problem import INPUTS, Array, Problem, Recipe, Sizes, count_work, join_past
from attnspec.questions.undeclared import RangeFound, probe_conventions, probe_ranges
from attnspec.subjects.call import grad_given
from attnspec.subjects.lowering import LoweredProblem, lower_problem
from attnspec.subjects.subject import Subject, SubjectAnswer, SubjectDied, SubjectRaised
from attnspec.trials.paths import CompilingTime, Paths
from attnspec.vocabulary.observables import GRADIENTS, PARAMETERS
from attnspec.vocabulary.scene import AnyProblem

HEAP_BYTES = 2**25 - 2**14
"""Bytes of the block that `keep_heap` frees: glibc takes no hint from a larger one."""


@cache
def keep_heap() -> None:
    """Frees one large block, so that glibc keeps as much of what is freed later for itself.

    Each case frees all of its arrays. Fresh pages for the next were a third of its time, and half
    of a large call's.
    """
    np.empty(HEAP_BYTES, np.uint8)


def release_free_pages() -> None:
    """Hands free pages back to the system, where the C library can (glibc).

    Without it, what a thousand kernels free piles up between the little that is remembered of
    each. Source: malloc_trim(3), https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


MAX_REMEMBERED = 512
"""How many answers and expectations an evaluator remembers: some clauses' worth of cases."""

MAX_BYTES = 2**25
"""Bytes of one kind that an evaluator remembers: large cases seldom return."""

V = TypeVar("V")


class Memory(OrderedDict[str, V]):
    """The most recently used values by key: at most `max_count`, and `max_bytes` of their arrays.

    The last one is always remembered, the key "" never.
    """

    def __init__(self, max_count: int = MAX_REMEMBERED, max_bytes: int = MAX_BYTES) -> None:
        super().__init__()
        self.max_count, self.max_bytes, self.held_total = max_count, max_bytes, 0

    def recall(self, key: str, make: Callable[[], V]) -> V:
        """The remembered value, or a new one."""
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = make()
        if key:
            self[key] = value
            self.held_total += held_bytes(value)
            while len(self) > self.max_count or (self.held_total > self.max_bytes
                                                 and len(self) > 1):
                self.held_total -= held_bytes(self.popitem(last=False)[1])
        return value


def held_bytes(value: object) -> int:
    """How many bytes the arrays of a dataclass hold, those in its mappings included.

    Mappings hold gradients by name, those of all parameters of a layer, which may be large. A view
    counts as if it had memory of its own.
    """
    if type(value) not in _FIELD_READERS:
        _FIELD_READERS[type(value)] = _field_reader(type(value))
    read, total = _FIELD_READERS[type(value)], 0
    for each in read(value) if read else ():
        if isinstance(each, np.ndarray):
            total += each.nbytes
        elif isinstance(each, Mapping):
            total += sum(one.nbytes if isinstance(one, np.ndarray) else held_bytes(one)
                         for one in each.values())
    return total


_Reader = Callable[[object], tuple[object, ...]]
_FIELD_READERS: dict[type, _Reader | None] = {}  # every value that is kept is asked


def _field_reader(kind: type) -> _Reader | None:
    """Reads all fields of such a dataclass at once; None for one with fewer than two fields."""
    names = tuple(getattr(kind, "__dataclass_fields__", ()))
    if len(names) > 1:
        return attrgetter(*names)
    return None


# The evaluator


MAX_PROBLEMS = 64
"""How many problems are remembered for the next clause with the same domain."""

MAX_CALL_SECONDS = 5.0
"""A call that is expected to take more seconds is left out, and the verdict says so."""

TELLING_WORK = 2e6
"""The work from which on a call's seconds tell the pace; below, most of them are overhead."""

COMPUTING_SHARE = 0.1
"""The share of processors' time from which on a call counts as computing.

A call that waits for a device is timed by the clock.
"""

COLD_SECONDS = 1.0
"""A call that takes more seconds is made again before it tells the pace: it may have compiled."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Problems, their expectations, and the directions of drifts.

    Evaluators with one class and the same conventions may share it.
    """

    problems: Memory[AnyProblem] = field(default_factory=lambda: Memory(MAX_PROBLEMS))
    expectations: Memory[Expectation] = field(default_factory=Memory)
    drifts: Memory[Drifts] = field(default_factory=lambda: Memory(MAX_PROBLEMS))


class Evaluator:
    """Evaluates one subject at one dtype, by its declared and probed conventions."""

    def __init__(self, subject: Subject, dtype: DType,
                 conventions: Mapping[str, str] | None = None, *,
                 archive: Archive | None = None) -> None:
        keep_heap()
        self.subject = subject
        self.dtype = dtype
        self.precision: Precision = declared_precision(subject.declaration.precision.get(dtype),
                                                       dtype)
        self._given_conventions = conventions
        self._answers: Memory[SubjectAnswer] = Memory()
        self.archive = archive or Archive()
        # of the last large call, and of the slowest one that was made again
        self._pace = self._slowest = 0.0
        self._form_evaluators: dict[str, Evaluator] = {}
        self._ranges: list[tuple[RangeFound, ...]] = []
        self.paths = Paths()
        self.compiling: CompilingTime | None = None
        """What its calls take is counted here, where each new shape is compiled."""

    def with_precision(self, precision: Precision) -> Evaluator:
        """The subject, with its remembered answers, held to another class of arithmetic."""
        return self._with_answers(self.subject, precision)

    def with_backward_words(self, words: Mapping[str, object]) -> Evaluator:
        """The subject, with its remembered answers, its backward pass held to another class."""
        declared = self.subject.declaration
        of_backward = {**declared.backward_precision, self.dtype: words}
        subject = replace(self.subject,
                          declaration=replace(declared, backward_precision=of_backward))
        return self._with_answers(subject, self.precision)

    def _with_answers(self, subject: Subject, precision: Precision) -> Evaluator:
        """An evaluator for another class, with this one's remembered answers."""
        other = Evaluator(subject, self.dtype, self.conventions)
        other.precision, other._answers, other._ranges = precision, self._answers, self._ranges
        other.compiling = self.compiling
        return other

    def with_limits_of(self, subject: Subject) -> Evaluator:
        """An evaluator of the same subject within other limits, with its remembered answers."""
        other = Evaluator(subject, self.dtype, self.conventions, archive=self.archive)
        other.precision, other._answers = self.precision, self._answers
        other.compiling = self.compiling
        return other

    @property
    def remembered_answers(self) -> Iterable[SubjectAnswer]:
        """The answers of the subject that are remembered."""
        return self._answers.values()

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """What the subject is held to: its declaration, and a probe where that says nothing."""
        if self._given_conventions is not None:
            return self._given_conventions
        declaration = self.subject.declaration
        answers = declaration.conventions
        if all(name in answers for name in asked_of(declaration.kind, declaration.keywords)):
            return answers
        # what is declared holds for every form: no probed `hidden_row.mask` is above `hidden_row`
        probed_answers = {
            name: answer for name, answer in probe_conventions(self.subject, self.dtype).items()
            if name.partition(".")[0] not in answers}
        return {**probed_answers, **answers}

    @cached_property
    def probed_conventions(self) -> Mapping[str, str]:
        """What a probe finds of conventions, whatever is declared."""
        return probe_conventions(self.subject, self.dtype)

    @property
    def ranges(self) -> tuple[RangeFound, ...]:
        """The logits, values and keys that the subject stands in a half dtype, by a probe; else
        nothing.

        Asked once: some of the questions have all the keys that a dtype can count.
        """
        if not self._ranges:
            self._ranges.append(probe_ranges(self.subject, self.dtype))
        return self._ranges[0]

    @property
    def limits(self) -> Limits | None:
        """A layer's limits, by which its problems' biases and scale are chosen; None otherwise."""
        declared = self.subject.declaration
        if declared.kind is Kind.LAYER:
            return declared.limits
        return None

    @property
    def shared_by(self) -> str:
        """A key: evaluators with the same one have the same expectations."""
        return repr((self.dtype, self.subject.declaration.kind, replace(self.precision, reason=""),
                     heeded_conventions(self.conventions), self.limits))

    def ask(self, problem: AnyProblem, key: str, *, fresh: bool) -> SubjectAnswer:
        """The subject's answer; remembered under the key unless it must be fresh."""
        return self._answers.recall("" if fresh else key, lambda: self._ask(problem))

    def _ask(self, problem: AnyProblem) -> SubjectAnswer:
        size = count_work(problem.sizes)
        answer, seconds = self._time_answer(problem)
        if size >= TELLING_WORK:
            if seconds > max(COLD_SECONDS, 2 * self._slowest * size):
                seconds = self._time_answer(problem)[1]
                self._slowest = max(self._slowest, seconds / size)
            self._pace = seconds / size
        return answer

    def _time_answer(self, problem: AnyProblem) -> tuple[SubjectAnswer, float]:
        """The subject's answer, and the seconds that it took.

        They are processors' seconds where these did most of it, so that what is left out does not
        depend on what else the machine does.
        """
        # processors' seconds are read where they matter: where a compiler runs, and of large calls
        is_counted = self.compiling is not None or count_work(problem.sizes) >= TELLING_WORK
        start, cpu_start, cpu_seconds = time.perf_counter(), 0.0, 0.0
        if is_counted:
            cpu_start = self.subject.callee.cpu_seconds()
        try:
            with np.errstate(all="ignore"):
                answer = self.subject.answer(problem)
        except SubjectRaised as error:
            error.asked = problem
            raise
        finally:
            if is_counted:
                cpu_seconds = max(0.0, self.subject.callee.cpu_seconds() - cpu_start)
            if self.compiling:
                self.compiling.count(problem.sizes, frozenset(problem.given), cpu_seconds)
        if answer.stderr:
            self.paths.count(answer.stderr)
        else:
            self.paths.taken_count += 1
        seconds = time.perf_counter() - start
        if cpu_seconds >= COMPUTING_SHARE * seconds:
            seconds = min(seconds, cpu_seconds)
        return answer, seconds

    def expected_seconds(self, sizes: Sizes) -> float:
        """The seconds that a call of these sizes is expected to take.

        It goes by the last large call (0 before there was one), and by compiling where each new
        shape is compiled.
        """
        seconds = self._pace * count_work(sizes)
        if self.compiling:
            seconds = max(seconds, self.compiling.expected_seconds(sizes))
        return seconds

    def problem(self, recipe: Recipe, kind: Kind) -> AnyProblem:
        """The problem of a recipe. It is remembered, so nobody may write to its arrays."""
        makers: Mapping[Kind, Callable[[], AnyProblem]] = {
            Kind.ATTENTION: partial(make_problem, recipe, self.dtype),
            Kind.LAYER: partial(make_layer, recipe, self.dtype,
                                limits=self.subject.declaration.limits),
            Kind.ROTARY: partial(make_rotary, recipe, self.dtype)}
        name = f"{recipe.without_drawn.text}@{kind.value}"
        return self.archive.problems.recall(name, makers[kind])

    def expect(self, problem: AnyProblem, key: str, part: str) -> Expectation:
        """What the definition says about a problem, with allowances."""
        work_out: Callable[[], Expectation]
        if isinstance(problem, RotaryProblem):
            work_out = partial(expect_rotary, problem, self.precision,
                               conventions=self.conventions)
        elif part == GRADIENTS:
            work_out = partial(self._expect_gradients, problem)
        elif part == PARAMETERS:
            work_out = partial(self._expect_parameters, problem)
        elif isinstance(problem, Problem):
            screens = needs_screening(problem) and part != "typical"
            work_out = partial(expect, problem, self.precision, conventions=self.conventions,
                               parts=frozenset({part}), screens=screens,
                               scale_width=self.subject.scale_width(problem))
        else:
            work_out = partial(expect_layer, problem, self.precision, conventions=self.conventions,
                               parts=frozenset({part}))
        return self.archive.expectations.recall(key and f"{key}@{part}", work_out)

    def drifts(self, key: str, make: Callable[[], Drifts]) -> Drifts:
        """The directions in which drifts push the definition's answer to a problem."""
        return self.archive.drifts.recall(key, make)

    def expect_dropped(self, problem: Problem, factor: Array, part: str) -> Expectation:
        """What the definition says where weights are multiplied by a factor (B,H,T,S)."""
        if part == GRADIENTS:
            return self._expect_gradients(problem, factor)
        return expect_with_factors(problem, factor, self.precision, conventions=self.conventions,
                                   scale_width=self.subject.scale_width(problem))

    def _expect_gradients(self, problem: AnyProblem, factor: Array | None = None) -> Expectation:
        """What the definition says about the gradients; factor (B,H,T,S): of dropped weights."""
        assert isinstance(problem, Problem)
        grad = grad_given(problem, self.subject.declaration)
        gradients = expect_gradients(
            problem, grad, self.precision, self.backward_precision, conventions=self.conventions,
            scale_width=self.subject.scale_width(problem),
            settled=rows_without_gradient(problem, self.conventions), factor=factor)
        # what storing entries as others passes back is a convention, of which nothing is claimed
        if self.precision.stored_formats:
            gradients = {name: replace(each, claimed=np.zeros_like(each.claimed))
                         for name, each in gradients.items()}
        return expect_gradients_alone(gradients)

    def _expect_parameters(self, problem: AnyProblem) -> Expectation:
        """What it says about the gradients of a layer's parameters."""
        assert isinstance(problem, Problem)
        layer_call = lower_problem(problem, self.subject.declaration.limits)
        gradients = self._expect_gradients(problem).gradients
        assert gradients is not None
        grad = layer_call.output_of(grad_given(problem, self.subject.declaration))
        return expect_gradients_alone(expect_parameters(
            problem, layer_call, gradients, self.expect(problem, "", "output"), grad,
            settled=rows_without_gradient(problem, self.conventions),
            classes=erring_classes(self.precision, self.backward_precision)))

    @cached_property
    def backward_precision(self) -> BackwardPrecision:
        """The declared rounding points of the subject's backward pass."""
        words = self.subject.declaration.backward_precision.get(self.dtype)
        return declared_backward(words, self.precision)

    @property
    def backward_name(self) -> str:
        """The class of the backward pass in words, with what is declared."""
        return format_backward(self.precision, self.backward_precision)

    def expect_rows(self, problem: Problem, rows: Array) -> Expectation:
        """The output (B,H,T,Dv) by definition at some rows along T, with the sharp allowance."""
        return expect(problem, self.precision, conventions=self.conventions, rows=rows,
                      parts=frozenset({"output"}), scale_width=self.subject.scale_width(problem))

    def unit(self) -> float:
        """The unit roundoff of the subject's output."""
        return DTYPES[self.precision.output].roundoff

    def values_by_head(self, problem: Problem) -> Array:
        """The values with one head for each query head, (B,H,S,Dv)."""
        H, Hkv = problem.sizes.H, problem.sizes.Hkv
        heads = np.arange(H) // (H // Hkv)
        if self.conventions.get("grouped_heads") == "tile":
            heads = np.arange(H) % Hkv
        return np.take(join_past(problem).value, heads, axis=1)

    @cached_property
    def _variants(self) -> dict[str, Evaluator]:
        return {name: self._evaluator_of(self.subject.variant(name))
                for name in self.subject.declaration.variants}

    def _evaluator_of(self, subject: Subject) -> Evaluator:
        """An evaluator of a variant, with this one's archive if both are held to the same."""
        evaluator = Evaluator(subject, self.dtype, self.conventions)
        if evaluator.shared_by == self.shared_by:
            evaluator.archive = self.archive
        evaluator.compiling = self.compiling
        return evaluator

    def form_evaluator(self, form: str) -> Evaluator:
        """The evaluator of a form of the subject that attnspec itself makes."""
        if form not in self._form_evaluators:
            self._form_evaluators[form] = Evaluator(self.subject.made[form], self.dtype,
                                                    self.conventions, archive=self.archive)
            self._form_evaluators[form].compiling = self.compiling
        return self._form_evaluators[form]

    def variants(self) -> Mapping[str, Evaluator]:
        """The evaluators of the variants of the subject (a hidden switch flipped)."""
        return self._variants


def heeded_conventions(conventions: Mapping[str, str]) -> tuple[str, ...]:
    """The conventions on which the definition and the transforms depend.

    Rows that see nothing are in no expectation. Who refuses mask and causal flag together, or
    promises nothing about them, is not given both: for what is given, both hold.
    """
    mask_with_causal = conventions.get("mask_with_causal", "")
    if mask_with_causal not in {"mask", "causal"}:
        mask_with_causal = "both"
    return (conventions.get("causal_alignment", ""), conventions.get("grouped_heads", ""),
            conventions.get(ROTARY_PAIRS, ""), mask_with_causal)


def rows_without_gradient(problem: Problem, conventions: Mapping[str, str]) -> Array:
    """(B,T) bool: the rows that contribute nothing to any gradient if they see no key.

    Their output is zeros, whichever of the keywords in use has hidden all keys.
    """
    of_hidden = of_hidden_rows(conventions, problem.given) == "zeros"
    of_beyond = of_hidden and conventions.get("beyond_length") == "zeros"
    return np.where(queries_within(problem), of_hidden, of_beyond)


# Gradients of a layer's parameters, where attention is lowered to the layer


OUTPUT_PARAMETER = "out"


def expect_parameters(problem: Problem, layer_call: LoweredProblem,
                      gradients: Mapping[str, Gradient], output: Expectation, grad: Array, *,
                      settled: Array,
                      classes: Sequence[BackwardRoundings]) -> Mapping[str, Gradient]:
    """The gradients of a layer's parameters, by their names.

    gradients: of the inputs.  output: of attention.  grad: of the layer's output, (B,T,M).
    settled: (B,T) bool, where the output of a row that sees no key is zeros.
    """
    real, own = np.dtype(wide_float(problem.dtype)), classes[0]
    factors = dict[str, tuple[Factor, Factor]]()
    for name in INPUTS:
        gradient = gradients[name]
        back = Factor(gradient.truth.astype(real), gradient.allowance, gradient.claimed)
        factors[name] = (exact_factor(getattr(layer_call, name), real, own),
                         spread_over_heads(layer_call, name, back))
    heads = _output_factor(problem, output, settled, real)
    with np.errstate(all="ignore"):  # what overflows or divides 0 by 0 is not claimed
        factors[OUTPUT_PARAMETER] = (spread_over_heads(layer_call, OUTPUT_PARAMETER, heads),
                                     exact_factor(grad, real, own))
        return dict(_parameter_gradients(layer_call.params, factors, classes))


def _parameter_gradients(params: Mapping[str, Array], pairs: Mapping[str, tuple[Factor, Factor]],
                         classes: Sequence[BackwardRoundings]) -> Iterator[tuple[str, Gradient]]:
    """The gradient of each parameter that there is, such as w_query (M,H·D), b_query (H·D,)."""
    for name, (inputs, back) in pairs.items():
        if f"w_{name}" in params:
            yield f"w_{name}", gradient_of_weight(inputs, back, classes)
        if f"b_{name}" in params:
            yield f"b_{name}", gradient_of_bias(back, classes)


def _output_factor(problem: Problem, output: Expectation, settled: Array,
                   real: np.dtype[np.floating]) -> Factor:
    """The output of the heads (B,H,T,Dv) as a factor, zeros in rows that see nothing."""
    none = (output.empty | ~queries_within(problem)[:, None])[..., None]
    claimed = np.where(none, settled[:, None, :, None], output.output_claimed[..., None])
    truth = np.where(none, 0, output.output.astype(real))
    error = np.where(none, 0, output.output_allowance)
    return Factor(truth, error, np.broadcast_to(claimed, truth.shape))


def spread_over_heads(layer_call: LoweredProblem, name: str, heads: Factor) -> Factor:
    """A factor (B,H,T,D), or alike, as it lies in the layer, (B,T,H·D).

    Where heads are wider, they hold zeros times what the head has there, so that an entry without
    a claim takes its head with it.
    """
    truth, error = (layer_call.project_heads(name, each) for each in (heads.truth, heads.error))
    unclaimed = ~heads.claimed.all(axis=-1, keepdims=True)
    width = truth.shape[-1] // unclaimed.shape[1]
    whole = np.broadcast_to(unclaimed, (*unclaimed.shape[:3], width))
    return Factor(truth, error, ~layer_call.project_heads(name, whole))


MAX_ARCHIVES = 8
"""How many archives are kept at most: two classes at four dtypes."""


class Archives:
    """Keeps the last archives, each for all evaluators with the same expectations."""

    def __init__(self, most: int = MAX_ARCHIVES) -> None:
        self._most, self._held = most, OrderedDict[str, Archive]()

    def share_archive(self, evaluator: Evaluator) -> Evaluator:
        """The evaluator with its likes' archive; one that dies at a probe keeps its own."""
        try:
            key = evaluator.shared_by
        except SubjectDied:
            return evaluator
        archive = self._held.setdefault(key, Archive())
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return Evaluator(evaluator.subject, evaluator.dtype, evaluator.conventions,
                         archive=archive)
