"""Words of `observe`: what is looked at when a subject answers, what the definition says of it,
and how far apart the two are.

What is compared is kept where it is to be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import Kind
from attnspec.numerics.bound import find_closest_queries
from attnspec.numerics.expectation import Expectation
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.operands import queries_within, visible_keys
from attnspec.numerics.reference import wide_float
from attnspec.problems.keyword_arrays import replace_values
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import CACHED_INPUTS, INPUTS, Array, LayerProblem, Problem, join_past
from attnspec.record.outcome import Measured
from attnspec.subjects.call import name_parameter
from attnspec.vocabulary.scene import (
    AnyProblem,
    Compared,
    NoClaim,
    Observed,
    ObservedRun,
    OutsideLimits,
    Posed,
    Scene,
    Side,
)

GRADIENTS = "gradients"
"""The part of an expectation that they are."""

GradientOf = Literal["query_gradient", "key_gradient", "value_gradient", "bias_gradient", "sinks_gradient"]

OF_INPUT: Mapping[GradientOf, tuple[str, tuple[str, ...]]] = {
    "query_gradient": ("query", ("B", "H", "T", "D")), "key_gradient": ("key", ("B", "H", "S", "D")),
    "value_gradient": ("value", ("B", "H", "S", "Dv")), "bias_gradient": ("bias", ("B", "H", "T", "S")),
    "sinks_gradient": ("sinks", ("H",))}
"""By observable, the input and its axes."""

PARAMETERS = "parameters"
"""The part of an expectation that the gradients of a layer's parameters are."""

ParameterGradient = Literal["w_query_gradient", "w_key_gradient", "w_value_gradient", "w_out_gradient",
                            "b_query_gradient", "b_key_gradient", "b_value_gradient", "b_out_gradient"]

OF_PARAMETER: Mapping[ParameterGradient, tuple[str, tuple[str, ...]]] = {
    "w_query_gradient": ("w_query", ("In", "Out")), "w_key_gradient": ("w_key", ("In", "Out")),
    "w_value_gradient": ("w_value", ("In", "Out")), "w_out_gradient": ("w_out", ("In", "Out")),
    "b_query_gradient": ("b_query", ("Out",)), "b_key_gradient": ("b_key", ("Out",)),
    "b_value_gradient": ("b_value", ("Out",)), "b_out_gradient": ("b_out", ("Out",))}
"""By observable, the parameter and its axes."""

OF_OUTPUT, BIASES = frozenset({"w_out", "b_out"}), frozenset({"b_query", "b_key", "b_value", "b_out"})
"""What a layer without output projection has not, and what one without biases has not."""

DIFFERENTIATED: Mapping[str, str] = {name: source for name, (source, _) in (*OF_INPUT.items(), *OF_PARAMETER.items())}
"""By observable, what the gradient is with respect to."""

Arrays = tuple[list[Array], tuple[str, ...]]
"""What is observed of each part of a run, and the axes of these arrays."""
Definition = tuple[Array, Array, Array]
"""Truth, allowance and claim, of one shape."""


def _observe(name: GradientOf, scene: Scene, posed: Posed[Any]) -> Arrays:
    """The gradient of each part, in the shape of the input, as (B,H,T,D), and its axes."""
    source, axes = OF_INPUT[name]
    if any(getattr(part, source) is None for part in posed.parts):
        raise NoClaim(f"there is no {source} to differentiate with respect to")
    answers = scene.answers(posed)
    if any(source not in answer.by_input for answer in answers):
        raise OutsideLimits(f"a {source} is a constant to it, without a gradient")
    arrays = [answer.by_input[source] for answer in answers]
    return arrays, axes[len(axes) - arrays[0].ndim:]


def observe_parameter(name: ParameterGradient, scene: Scene, posed: Posed[Any]) -> Arrays:
    """The gradient of a parameter, w_query (M,H·D) and its like, for each part, and its axes."""
    source, axes = OF_PARAMETER[name]
    if scene.subject.declaration.kind is not Kind.LAYER or any(part.grad_output is None for part in posed.parts):
        raise NoClaim(f"there is no {source} to differentiate with respect to")
    limits = scene.subject.declaration.limits
    has_none = source in BIASES and not limits.is_biased(source.removeprefix("b_"))
    if has_none or (source in OF_OUTPUT and not limits.projects_output):
        raise OutsideLimits(f"it has no {source}")
    parameter = name_parameter(source)
    return [answer.by_input[parameter] for answer in scene.answers(with_parameters(posed))], axes


def with_parameters(posed: Posed[Any]) -> Posed[Any]:
    """The same run, with the gradients of a layer's parameters asked for, too."""
    return replace(posed.but(of_parameters=True), key=f"{posed.key}+{PARAMETERS}")


def define_parameter(name: ParameterGradient, expected: Expectation,
                     scene: Scene) -> Definition:  # noqa: ARG001  (a definer's)
    """Truth, allowance and claim of the gradient of a parameter, (M,H·D) and its like."""
    assert expected.gradients is not None
    gradient = expected.gradients[OF_PARAMETER[name][0]]
    return gradient.truth, gradient.allowance, gradient.claimed


def define_gradient(name: GradientOf, expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the gradient, each in the shape of the input, as (B,H,T,D)."""
    assert expected.gradients is not None
    source = OF_INPUT[name][0]
    gradient = expected.gradients[source]
    claimed = gradient.claimed
    if scene.subject.declaration.kind is Kind.LAYER and source in INPUTS:
        claimed = claimed & _judged_places(expected.gradients, source, scene)
    return gradient.truth, gradient.allowance, claimed


def _judged_places(gradients: Mapping[str, Gradient], source: str, scene: Scene) -> Array:
    """The places of a layer's input that may be judged, (B,1,T,1): one NaN spoils a place.

    Projections mix the heads, and what one input serves as: key and value, which may share a
    memory, or all three.
    """
    together: tuple[str, ...] = CACHED_INPUTS if source in CACHED_INPUTS else (source,)
    if scene.subject.declaration.limits.self_attention_only:
        together = INPUTS
    claims = [gradients[name].claimed.all(axis=(1, 3), keepdims=True) for name in together]
    return np.asarray(np.logical_and.reduce(claims))


Observable = Literal["output", "weights", "returned_weights", "logits", "lse", GradientOf, ParameterGradient]
MOST_BLOCKS = 32
"""Reading weights takes S / Dv calls; a case that would take more says nothing."""


@dataclass(frozen=True, slots=True)
class Look:
    """An observable: how a run is asked, how its answer reads, which expectation it needs."""

    name: str
    meaning: str
    observe: Callable[[Scene, Posed[Any]], Arrays]
    define: Callable[[Expectation, Scene], Definition]
    part: str


def _outputs(scene: Scene, posed: Posed[Any]) -> Arrays:
    """Each part's output, (B,H,T,Dv), of layers (B,T,M), of rotary ones (B,H,T,D), and axes."""
    return [answer.output for answer in scene.answers(posed)], axes_of(posed.parts[0])


def axes_of(problem: AnyProblem) -> tuple[str, ...]:
    """The axes of the output of a problem."""
    if isinstance(problem, LayerProblem):
        return "B", "T", "M"
    return "B", "H", "T", "D" if isinstance(problem, RotaryProblem) else "Dv"


def _returned_weights(scene: Scene, posed: Posed[Any]) -> Arrays:
    """The weights that the subject returns, (B,H,T,S) or averaged (B,T,S), and their axes."""
    asked = replace(posed.but(return_weights=True), key=f"{posed.key}+weights")
    arrays = [answer.weights for answer in scene.answers(asked) if answer.weights is not None]
    averaged = scene.subject.declaration.limits.weights == "averaged"
    return arrays, ("B", "T", "S") if averaged else ("B", "H", "T", "S")


def _weights(scene: Scene, posed: Posed[Any]) -> Arrays:
    """The weights in effect of each part, (B,H,T,S), and their axes."""
    return [_read_weights(scene, posed, index) for index in range(len(posed.parts))], ("B", "H", "T", "S")


def _read_weights(scene: Scene, posed: Posed[Any], index: int) -> Array:
    """The weights in effect, (B,H,T,S), read as W @ I = W.

    Blocks are as wide as the values that the case drew: another width can mean another kernel.
    """
    part = posed.parts[index]
    S, width = part.sizes.S, part.sizes.Dv
    if -(-S // width) > MOST_BLOCKS:
        raise NoClaim("reading the weights would take too many calls")
    blocks = []
    for start in range(0, S, width):
        # a sum of one weight and zeros is exact in any order, so that the output shows the weights themselves
        value = np.broadcast_to(np.eye(S, width, -start, dtype=part.value.dtype), (*part.value.shape[:2], S, width))
        asked = Posed((replace_values(part, np.ascontiguousarray(value)),), before=posed.before, fresh=posed.fresh,
                      key=f"{posed.key}#{index}|I{start}")
        blocks.append(scene.answers(asked)[0].output)
    return np.concatenate(blocks, axis=-1)[..., :S]


def _judged_rows(rows: Array, scene: Scene) -> Array:
    """The rows (B,H,T) that may be judged; in a layer, one head's NaN spoils a place."""
    if scene.subject.declaration.kind is not Kind.LAYER or rows.ndim != 3:
        return rows
    return rows & rows.all(axis=1, keepdims=True)


def _define_output(expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the output, (B,H,T,Dv) each, of a layer (B,T,M)."""
    claimed = _judged_rows(expected.output_claimed, scene)
    return expected.output, expected.output_allowance, np.broadcast_to(claimed[..., None], expected.output.shape)


def _define_weights(expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the weights in effect, each (B,H,T,S)."""
    claimed = np.broadcast_to(_judged_rows(expected.claimed, scene)[..., None], expected.weights.shape)
    return expected.weights, expected.weights_allowance, claimed


def _define_returned(expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of returned weights, (B,H,T,S) each, or (B,T,S) if averaged."""
    parts = _define_weights(expected, scene)
    if scene.subject.declaration.limits.weights != "averaged":
        return parts
    # one head with no claim leaves the mean without one
    truth, allowance, claimed = parts
    return truth.mean(axis=1), averaged_allowance(truth, allowance, scene), np.asarray(claimed.all(axis=1))


def averaged_allowance(truth: Array, allowance: Array, scene: Scene) -> Array:
    """The allowance of a mean over heads, (B,T,S), or (B,T) of row sums.

    It is the mean allowance of H honest weights (B,H,T,S), and H further roundings: sum and
    division.
    """
    mean, heads = truth.mean(axis=1), truth.shape[1]
    slack = allowance.mean(axis=1)
    return np.asarray(slack + (heads + 1) * scene.evaluator.unit() * (mean + slack))


def _define_logits(expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the logits, (B,H,T,S) each; hidden keys have no claim."""
    judged = _judged_rows(expected.claimed, scene)[..., None]
    claimed = judged & np.isfinite(expected.logits_allowance) & expected.visible
    return expected.logits, expected.logits_allowance, claimed


def _log_sum_exps(scene: Scene, posed: Posed[Any]) -> Arrays:
    """The log-sum-exp that the subject returns for each part, (B,H,T), and its axes."""
    asked = replace(posed.but(return_lse=True), key=f"{posed.key}+lse")
    return [answer.lse for answer in scene.answers(asked) if answer.lse is not None], ("B", "H", "T")


def _define_lse(expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the log-sum-exp, (B,H,T) each, to the subject's base."""
    assert expected.lse is not None
    assert expected.lse_allowance is not None
    if scene.conventions.get("lse_base") != "two":
        return expected.lse, expected.lse_allowance, expected.claimed
    factor = 1 / np.log(expected.lse.dtype.type(2))
    truth, allowance = expected.lse * factor, expected.lse_allowance * float(factor)
    roundoff = DTYPES[scene.evaluator.precision.softmax].roundoff
    converted = 2 * roundoff * (np.abs(truth) + allowance)
    return truth, allowance + converted.astype(np.float64), expected.claimed


LOOKS: Mapping[str, Look] = {
    look.name: look
    for look in (
        Look("output", "what the subject returns", _outputs, _define_output, "output"),
        Look("weights", "the weights that the subject applies: its output if the values are the identity matrix",
             _weights, _define_weights, "weights"),
        Look("returned_weights", "the weights that the subject returns", _returned_weights, _define_returned,
             "weights"),
        Look("logits", "the logarithm of the weights that the subject applies, relative to the largest of the row",
             _weights, _define_logits, "logits"),
        Look("lse", "the log-sum-exp that the subject returns", _log_sum_exps, _define_lse, "lse"),
        *(Look(name, f"the gradient with respect to the {source}", partial(_observe, name),
               partial(define_gradient, name), GRADIENTS)
          for name, (source, _) in OF_INPUT.items()),
        *(Look(name, f"the gradient with respect to the parameter {source} of a layer",
               partial(observe_parameter, name), partial(define_parameter, name), PARAMETERS)
          for name, (source, _) in OF_PARAMETER.items()),
    )
}


def observe(scene: Scene, run: str, name: str) -> Observed:
    """What the subject shows of a run, as relations compare it; looked at once a case."""
    if (run, name) not in scene.cache:
        posed = scene.runs[run]
        arrays, axes = LOOKS[name].observe(scene, posed)
        joined = as_one([array.astype(wide_float(scene.dtype)) for array in arrays], posed, axes)
        scene.cache[run, name] = Observed(joined, axes, tuple(arrays))
    observed: Observed = scene.cache[run, name]
    return observed


def as_one(arrays: list[Array], posed: Posed[Any], axes: tuple[str, ...]) -> Array:
    """The parts' arrays, of these axes, joined along `join` or summed, and read back."""
    if posed.join == "sum":
        array = np.asarray(sum(arrays))
    else:
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axes.index(posed.join))
    for back in posed.back:
        array = back.read(array, axes)
    return array


def look_at(scene: Scene, run: str, name: str) -> ObservedRun:
    """What the subject shows of a run, and what the definition says; looked at once a case."""
    cache_key, posed = (run, f"{name} defined"), scene.runs[run]
    if cache_key in scene.cache:
        seen: ObservedRun = scene.cache[cache_key]
        return seen
    # what has no key is not remembered, so that nothing is gained by working it out early
    with scene.subject.callee.meanwhile(_truths(scene, posed, LOOKS[name].part) if posed.key else ()):
        observed = observe(scene, run, name)
    expected = [work_out() for work_out in _truths(scene, posed, LOOKS[name].part)]
    if name == "output" and any(each.is_screened for each in expected):
        expected = [_sharpen_bound(scene, *each) for each in zip(posed.parts, expected, observed.parts, strict=True)]
    parts = [LOOKS[name].define(each, scene) for each in expected]
    truths, allowances, claims = (list(column) for column in zip(*parts, strict=True))
    # claims travel negated, as numbers: parts that are summed stay claimed only where every one of them is
    unclaimed = as_one([(~claim).astype(np.int16) for claim in claims], posed, observed.axes)
    truth, allowance = (as_one(column, posed, observed.axes) for column in (truths, allowances))
    array = relative_logits(observed.array, truth) if name == "logits" else observed.array
    is_screened = any(each.is_screened for each in expected)
    scene.cache[cache_key] = seen = ObservedRun(array, truth, allowance, unclaimed == 0, is_screened)
    return seen


def claimed_of_both(one: ObservedRun, other: ObservedRun) -> Array:
    """Where two forms of a subject are compared, any shape: not where both gave NaN."""
    same_nan = np.isnan(one.array) & np.isnan(other.array)
    return np.asarray(one.claimed & other.claimed & ~same_nan)


def _sharpen_bound(scene: Scene, problem: AnyProblem, expected: Expectation, output: Array) -> Expectation:
    """The expectation with the sharp bound on the rows of the output (B,H,T,Dv) that come closest.

    Only a problem that was screened has another bound.
    """
    if not expected.is_screened or not isinstance(problem, Problem):
        return expected
    rows = find_closest_queries(output.astype(wide_float(scene.dtype)), expected.output,
                                expected.output_allowance, expected.claimed)
    sharp = scene.evaluator.expect_rows(problem, rows)
    truth, allowance, claimed = expected.output.astype(sharp.output.dtype), expected.output_allowance, expected.claimed
    truth[:, :, rows] = sharp.output
    allowance, claimed = allowance.copy(), claimed.copy()
    allowance[:, :, rows], claimed[:, :, rows] = sharp.output_allowance, sharp.output_claimed
    return replace(expected, output=truth, output_allowance=allowance, claimed=claimed, output_claimed=claimed)


def read_definition(scene: Scene, run: str, part: str, axes: tuple[str, ...],
                    pick: Callable[[Expectation], Array]) -> Array:
    """One array of a run's definition, of these axes, its parts joined and read back."""
    posed = scene.runs[run]
    return as_one([as_numbers(pick(expected)) for expected in expectations(scene, posed, part)], posed, axes)


def as_numbers(array: Array) -> Array:
    """An array of any shape as numbers that can be added up; small ones for yes and no."""
    return array.astype(np.int16 if array.dtype == bool else float)


def expectations(scene: Scene, posed: Posed[Any], part: str) -> list[Expectation]:
    """What the definition says of each part of a run.

    part: what is needed of it, such as the output.
    """
    return [work_out() for work_out in _truths(scene, posed, part)]


def _truths(scene: Scene, posed: Posed[Any], part: str) -> Iterator[Callable[[], Expectation]]:
    """The expectation of each part of a run, to be worked out when it is asked for."""
    for index, problem in enumerate(posed.parts):
        yield partial(scene.evaluator.expect, problem, f"{posed.key}#{index}", part)


def relative_logits(weights: Array, truth: Array) -> Array:
    """Logits (B,H,T,S) less that of the definition's top key; -inf for weights of zero."""
    top = np.argmax(truth, axis=-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(weights)
        return np.asarray(logs - np.take_along_axis(logs, top, axis=-1))


# How far apart what was seen and what was expected are


AT_ONCE = 2**20
"""Entries that are compared at once; more are compared part by part, to save memory."""

QUANTITIES: Mapping[str, str] = {
    "output": "output", "weights": "weights", "returned_weights": "returned weights",
    "logits": "logits (relative to the largest of their row)", "lse": "log-sum-exp",
    **{name: f"gradient with respect to the {source}" for name, source in DIFFERENTIATED.items()}}
"""What a reader calls what is observed."""


def measure(relation: str, seen: Array, expected: Array, allowance: Array | float, claimed: Array | bool,
            *, what: str, first_row: int = 0) -> Measured:
    """Compares entries with what is expected, within an allowance, where that is claimed; any
    shape.

    An entry that is not finite where a finite one is expected is infinitely wrong; 0 against 0
    allowed is right. An allowance that is not a number allows nothing.

    first_row: the number of the first row in the array that the rows are taken from.
    """
    seen, expected, allowance, claimed = np.broadcast_arrays(seen, expected, np.asarray(allowance), claimed)
    margin = np.empty(seen.shape, np.result_type(seen, expected, allowance, np.float64))
    for part in _chunks(seen.shape):
        margin[part] = np.where(claimed[part], _margin(seen[part], expected[part], allowance[part])[0], -1.0)
    claims = int(claimed.sum())
    if not claims:
        return Measured(relation, f"{what}: no entry can be judged here", 0, 0, 0, 0, 0, (), margin.size, 0)
    at = tuple(int(i) for i in np.unravel_index(int(margin.argmax()), margin.shape))
    worst = seen[at], expected[at], allowance[at]
    gap = float(_margin(*worst)[1])
    seen_at, expected_at, allowed_at = map(float, worst)
    wrong = int((margin > 1).sum())
    place = (*at[:-2], at[-2] + first_row, at[-1]) if first_row else at
    allowed = f"{gap:.3g} where {allowed_at:.2g} is allowed"
    if wrong:
        sentence = (f"{what}: {wrong} of {claims} entries differ; worst at {place}, {seen_at:.9g} against "
                    f"{expected_at:.9g}, apart by {allowed}")
    else:
        sentence = (f"{what}: all {claims} entries agree; the one closest to its bound, at {place}, is apart by "
                    f"{allowed}")
    return Measured(relation, sentence, float(margin[at]), gap, allowed_at, seen_at, expected_at, place, margin.size,
                    claims, wrong)


def find_beyond(seen: Array, expected: Array, allowance: Array | float) -> Array:
    """Which entries, of any shape, lie further from what is expected than is allowed."""
    seen, expected, allowance = np.broadcast_arrays(seen, expected, np.asarray(allowance))
    return np.asarray(_margin(seen, expected, allowance)[0] > 1)


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[int | slice, ...]]:
    """Places that cover an array of any shape, AT_ONCE entries each at most if rows are short."""
    if math.prod(shape) <= AT_ONCE:
        yield ()
        return
    axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis + 1:]) <= AT_ONCE)
    step = max(1, AT_ONCE // math.prod(shape[axis + 1:]))
    for before in np.ndindex(shape[:axis]):
        yield from ((*before, slice(start, start + step)) for start in range(0, shape[axis], step))


def _margin(seen: Array, expected: Array, allowance: Array) -> tuple[Array, Array]:
    """Gap over allowance, and the gap, of any shape."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.abs(seen - expected)
        margin = gap / allowance
    if (margin < np.inf).all():
        return margin, gap
    return _awkward_margin(seen, expected, gap, allowance)  # something is not finite, or nothing is allowed


def _awkward_margin(seen: Array, expected: Array, gap: Array, allowance: Array) -> tuple[Array, Array]:
    """Gap over allowance, and the gap, of any shape, where either may not be a finite number."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(seen == expected, 0, np.where(np.isnan(gap), np.inf, gap))
        margin = np.where(np.isinf(gap) | np.isnan(allowance), np.inf, gap / allowance)
    return np.where(gap == 0, 0, margin), gap


def verdict(relation: str, sentence: str, *, broken: bool, entries: int = 1) -> Measured:
    """A result of a claim that holds or does not, without a distance."""
    margin = float("inf") if broken else 0.0
    return Measured(relation, sentence, margin, float(broken), 0.0, 0.0, 0.0, (), entries, entries, int(broken))


def nothing(relation: str, why: str) -> Measured:
    """A result of a claim that the case says nothing of."""
    return Measured(relation, why, 0.0, 0.0, 0.0, 0.0, 0.0, (), 0, 0)


def equal(relation: str, left: Array, right: Array, claimed: Array | bool = True, *, what: str,
          first_row: int = 0) -> Measured:
    """Compares values of any shape for equality, +0 equal to -0 and any NaN to any NaN."""
    same_nan = np.isnan(left) & np.isnan(right)
    left, right = (np.where(same_nan, 0, array) for array in (left, right))
    return measure(relation, left, right, 0.0, np.broadcast_to(claimed, left.shape), what=what,
                   first_row=first_row)


Leeway = tuple[Array | float, Array | bool]
"""How far apart two sides may be, and where that is claimed: any shape, broadcast to what is seen."""


def of_run(observed: str, run: str, array: Array) -> Side:
    """The side of a comparison that a run shows, any shape."""
    return Side(f"{QUANTITIES[observed]} of `{run}`", run, array)


def seen_of(observed: str, run: str, array: Array) -> Side:
    """The side that is seen of a run which is not held to another run, any shape."""
    return Side(QUANTITIES[observed], run, array)


def by_definition(observed: str, run: str, array: Array) -> Side:
    """The side that the definition gives for a run, any shape."""
    return Side(f"{QUANTITIES[observed]} by definition", run, array)


def keep(scene: Scene, result: Measured, seen: Side, expected: Side, bound: Leeway, *,
         observed: str = "output", first_row: int = 0) -> Measured:
    """The result, as it is. If the scene keeps what is compared, it keeps the worst one's sides."""
    if scene.kept is None or (scene.kept and scene.kept[0].margin >= result.margin):
        return result
    shape, (allowance, claims) = seen.array.shape, bound
    claimed = np.broadcast_to(claims, shape)
    same_nan = np.isnan(seen.array) & np.isnan(expected.array) & (np.asarray(allowance) == 0)  # as `equal` has it
    wrong = claimed & find_beyond(seen.array, expected.array, allowance) & ~same_nan
    index = result.index or tuple(map(int, np.unravel_index(int(wrong.argmax()), shape)))
    if first_row and result.index:
        index = (*index[:-2], index[-2] - first_row, index[-1])
    axes = observe(scene, seen.run, observed).axes[:len(shape)]
    whole = replace(expected, array=np.broadcast_to(expected.array, shape))
    scene.kept[:] = [Compared(result.margin, index, axes, seen, whole, claimed, wrong, first_row)]
    return result


def compare(scene: Scene, relation: str, seen: Side, expected: Side, bound: Leeway, *, what: str,
            observed: str = "output") -> Measured:
    """Compares two sides as `measure` does, and keeps them as `keep` does."""
    return keep(scene, measure(relation, seen.array, expected.array, *bound, what=what), seen, expected, bound,
                observed=observed)


def compare_exactly(scene: Scene, relation: str, seen: Side, expected: Side, claimed: Array, *, what: str,
                    observed: str = "output") -> Measured:
    """Compares two sides for equality as `equal` does, and keeps them as `keep` does."""
    return keep(scene, equal(relation, seen.array, expected.array, claimed, what=what), seen, expected, (0.0, claimed),
                observed=observed)


def visible(scene: Scene, run: str) -> Array:
    """The keys that each query of a run may attend to, bool (B,H,T,S)."""
    shown = [as_numbers(np.asarray(visible_keys(part, scene.conventions))) for part in scene.runs[run].parts]
    return np.asarray(as_one(shown, scene.runs[run], ("B", "H", "T", "S")) > 0)


def settled_rows(scene: Scene, run: str) -> Array:
    """Rows (B,H,T,1) whose answer depends on nothing but what they see.

    Not among them are: empty rows under the convention `uniform`; rows at a place that holds NaN
    or infinity, if one input is query, key and value; and rows behind the number of queries,
    unless they are declared to be zeros.
    """
    posed = scene.runs[run]
    if isinstance(posed.parts[0], RotaryProblem):
        return as_one([np.ones((*part.x.shape[:3], 1), bool) for part in posed.parts], posed, ("B", "H", "T", "1"))
    answers = {answer for name, answer in scene.conventions.items() if name.partition(".")[0] == "hidden_row"}
    is_fixed = bool(answers) and answers <= {"zeros", "nan"}
    sees = [np.asarray(visible_keys(part, scene.conventions).any(axis=-1)) for part in posed.parts]
    has_one_input = scene.subject.declaration.limits.self_attention_only
    own = [_finite_places(part)[:, None, -part.query.shape[-2]:] if has_one_input else True for part in posed.parts]
    are_zeros = scene.conventions.get("beyond_length") == "zeros"
    within = [queries_within(part)[:, None] for part in posed.parts]
    settled = [np.where(asked, (rows | is_fixed) & finite, are_zeros)[..., None]
               for rows, finite, asked in zip(sees, own, within, strict=True)]
    return as_one(settled, posed, ("B", "H", "T", "1"))


def empty_rows(scene: Scene, run: str) -> Array:
    """Rows (B,H,T,1) that see no key, if the subject's convention alone decides them."""
    if isinstance(scene.runs[run].parts[0], RotaryProblem):
        return ~settled_rows(scene, run)
    sees = [np.asarray(visible_keys(part, scene.conventions).any(axis=-1))[..., None] for part in scene.runs[run].parts]
    seeing = as_one([rows.astype(float) for rows in sees], scene.runs[run], ("B", "H", "T", "1"))
    return np.asarray(settled_rows(scene, run) & (seeing == 0))


def _finite_places(problem: Problem | LayerProblem) -> Array:
    """The places (B,S) where no head's key or value holds NaN or infinity."""
    axes = (2,) if isinstance(problem, LayerProblem) else (1, 3)
    whole = join_past(problem)
    key, value = (np.all(np.isfinite(array), axis=axes) for array in (whole.key, whole.value))
    return np.asarray(key & value)
