"""Makes the small problems that tell forms apart, and computes what is expected of them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.keywords import FROM_PLACE, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.bound import row_log_sum_exp
from attnspec.numerics.expectation import concat_heads, inner_problem
from attnspec.numerics.operands import add_extra_key, prepare_operands, read_entries
from attnspec.numerics.reference import compute_truth
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.mistakes import MISTAKES, PlainMistake, can_be_made

AnyProblem = Problem | LayerProblem

CROSS_SIZES = Sizes(4, 2, 2, 3, 5, 8, 8)
"""Sizes at which most axes have a length of their own."""
SQUARE_SIZES = Sizes(4, 2, 2, 3, 3, 8, 8)

OTHER_SCALES: Mapping[str, Callable[[Sizes], float]] = {
    "1": lambda _: 1.0, "1/D": lambda sizes: 1 / sizes.D, "1/sqrt(H*D)": lambda sizes: 1 / math.sqrt(sizes.H * sizes.D)}
"""Scales, other than 1/sqrt(D), that a library may have where none is given."""

_CONVENTION_CHOICES: tuple[Mapping[str, str], ...] = tuple(
    {"causal_alignment": alignment, "grouped_heads": heads}
    for alignment, heads in itertools.product(("top_left", "bottom_right"), ("repeat", "tile")))


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What the definition says. output (B,H,T,Dv), of a layer (B,T,M); sees_keys: (B,H,T) or
    (B,T), whether a row sees a key; weights (B,H,T,S); lse (B,H,T).
    """

    output: Array
    sees_keys: Array
    weights: Array
    lse: Array

    def gap(self, output: Array) -> tuple[float, str]:
        """Returns the largest gap of an output (B,H,T,Dv) or (B,T,M) over rows with keys, and
        where.
        """
        apart = np.where(self.sees_keys[..., None], np.abs(output - self.output), 0.0)
        if not apart.size:
            return 0.0, ""
        place = np.unravel_index(np.argmax(np.where(np.isnan(apart), np.inf, apart)), apart.shape)
        worst = float(apart[place])
        at = tuple(int(each) for each in place)
        told = f"{output[place]:.3g} where {self.output[place]:.3g} is expected, at {at}"
        return (math.inf if math.isnan(worst) else worst), told


def measure_unlikeness(truth: Expected, output: Array) -> float:
    """Returns 0 for an output (B,H,T,Dv) or (B,T,M) like the truth, 1 for unrelated, 2 for NaN."""
    seen = truth.sees_keys[..., None]
    first, second = (np.where(seen, array, 0.0).ravel() for array in (output, truth.output))
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    if math.isnan(lengths):
        return 2.0
    return 1 - float(first @ second) / lengths if lengths else 1.0


def plain_problem(form: CallForm, M: int = 0, **lengths: int) -> AnyProblem:
    """Makes the problem that a form is tried on first, to which its keywords are added. M: the
    width of a layer's model. lengths: other lengths of our axes.
    """
    sizes = replace(CROSS_SIZES, **{**form.sizes, **lengths})
    if form.attends_to_itself:
        sizes = replace(SQUARE_SIZES, **{**form.sizes, **lengths})
        sizes = replace(sizes, S=sizes.T)
    if form.limits.get("single_head"):
        sizes = replace(sizes, H=1, Hkv=1)
    problem = sample_problem(form.kind, sizes, form.dtype, M)
    if isinstance(problem, LayerProblem):
        has_any, which = form.limits.get("has_biases") is not False, str(form.limits.get("biases", "all"))
        biased = Limits(has_biases=has_any, biases=which).is_biased
        left_out = [f"b_{part}" for part in ("query", "key", "value", "out") if not biased(part)]
        if form.limits.get("projects_output") is False:
            left_out += ["w_out", "b_out"]
        problem = problem.but(params={name: array for name, array in problem.params.items()
                                      if not name.startswith(tuple(left_out))})
        if form.limits.get("one_memory"):
            problem = problem.but(value=problem.key)
    posed = problem.but(causal=form.is_always_causal)
    return posed if isinstance(posed, LayerProblem) else pose_for_aspects(form, posed)


def pose_for_aspects(form: CallForm, problem: Problem) -> Problem:
    """Adds to a problem what a form takes of aspects that learn their own parameters."""
    return functools.reduce(lambda posed, part: part.pose_problem(form, posed), load_parts("search"), problem)


def square_problem(form: CallForm, **lengths: int) -> AnyProblem:
    """Makes a plain problem for a causal call, with T = S where nothing else is taken."""
    problem = plain_problem(form, **lengths)
    is_square = form.limits.get("causal_lengths") == "equal"
    return plain_problem(form, **{**lengths, "S": problem.sizes.T}) if is_square else problem


def expect_usual(form: CallForm, problem: AnyProblem) -> Expected:
    """Returns what the definition says under the usual conventions."""
    return next(list_expected(problem, form.default_scale, form.mistake))


def list_expected(problem: AnyProblem, default_scale: str, mistake: str = "") -> Iterator[Expected]:
    """Lists what the definition says under each convention, perhaps with a plain mistake."""
    made = MISTAKES[mistake] if mistake else PlainMistake("none")
    if isinstance(problem, LayerProblem) and made.of_params:
        problem = made.of_params(problem)
    inner = read_entries(inner_problem(problem) if isinstance(problem, LayerProblem) else problem)
    inner = made.of_problem(inner) if made.of_problem else inner
    if inner.scale is None and default_scale:
        inner = inner.but(scale=OTHER_SCALES[default_scale](problem.sizes))
    matters = bool(FROM_PLACE & problem.keywords) or inner.sizes.Hkv != inner.sizes.H
    for conventions in _CONVENTION_CHOICES if matters else _CONVENTION_CHOICES[:1]:
        operands = prepare_operands(inner, conventions, None, None)
        operands = operands if inner.sinks is None else add_extra_key(operands, inner.sinks)
        found, sees = compute_truth(operands, np.float64), np.asarray(operands.counts > 0)
        output = made.of_weights(found, operands) if made.of_weights else found.output
        output = np.asarray(made.of_heads(output) if made.of_heads else output)
        weights = np.asarray(found.weights / np.where(found.total == 0, 1, found.total)[..., None])
        if isinstance(problem, LayerProblem):
            output, sees = _project_output(problem, output), np.asarray(sees.all(axis=1))
        with np.errstate(divide="ignore"):  # -inf where a row sees no key
            lse = row_log_sum_exp(found, operands)
        yield Expected(output, sees, weights, lse)


def expected_mistakes(problem: AnyProblem) -> Iterator[tuple[str, Expected]]:
    """Yields each plain mistake that changes a problem's output, and what it makes of it."""
    usual = next(list_expected(problem, ""))
    for name, mistake in MISTAKES.items():
        if can_be_made(mistake, problem):
            told = next(list_expected(problem, "", name))
            if told.sees_keys.any() and usual.gap(told.output)[0] > 4 * tolerance_of(problem.dtype):
                yield name, told


def _project_output(problem: LayerProblem, output: Array) -> Array:
    """Projects heads (B,H,T,Dv) to (B,T,M), or to (B,T,H·Dv) where the layer has no projection."""
    heads = concat_heads(output)
    out = {name: array.astype(np.float64) for name, array in problem.params.items() if name.endswith("_out")}
    return np.asarray((heads @ out["w_out"] if "w_out" in out else heads) + out.get("b_out", 0))


def tolerance_of(dtype: DType) -> float:
    """Returns the gap that tells forms apart: above rounding, below what a wrong layout moves."""
    return 2.0**-8 if dtype in (DType.FLOAT32, DType.FLOAT64) else 2.0**-4


def sample_problem(kind: Kind, sizes: Sizes, dtype: DType = DType.FLOAT32,
                   M: int = 0) -> AnyProblem:
    """Makes a problem of entries without structure. M: a layer's model width, usually H·D."""
    draw, number = np.random.RandomState(1), numpy_dtype(dtype)

    def entries(*shape: int, size: float = 1.0) -> Array:
        """Draws normal entries of a shape such as (B,H,T,D), times `size`, in the dtype."""
        return (draw.standard_normal(shape) * size).astype(number)

    if kind is Kind.ATTENTION:
        query, key = entries(sizes.B, sizes.H, sizes.T, sizes.D), entries(sizes.B, sizes.Hkv, sizes.S, sizes.D)
        return Problem(dtype, query, key, entries(sizes.B, sizes.Hkv, sizes.S, sizes.Dv))
    return _sample_layer_problem(sizes, entries, dtype, M or sizes.H * sizes.D)


def _sample_layer_problem(sizes: Sizes, entries: Callable[..., Array], dtype: DType,
                          M: int) -> LayerProblem:
    """Makes inputs (B,T,M) and (B,S,M), weights such as w_query (M,H·D), biases such as (H·D,)."""
    widths = {"query": sizes.H * sizes.D, "key": sizes.Hkv * sizes.D,
              "value": sizes.Hkv * sizes.Dv}
    query = entries(sizes.B, sizes.T, M)
    params = {f"w_{name}": entries(M, width, size=M**-0.5) for name, width in widths.items()}
    params |= {"w_out": entries(sizes.H * sizes.Dv, M, size=M**-0.5)}
    params |= {f"b_{name[2:]}": entries(array.shape[1], size=0.5) for name, array in params.items()}
    key, value = (query, query) if sizes.T == sizes.S else (entries(sizes.B, sizes.S, M), entries(sizes.B, sizes.S, M))
    return LayerProblem(dtype, query, key, value, params, sizes.H, sizes.Hkv)


def sample_mask(sizes: Sizes, axes: str = "BHTS") -> Array:
    """Makes a mask (B,H,T,S) that differs along these axes; every query sees a key."""
    shape = tuple(length if axis in axes else 1 for axis, length in
                  zip("BHTS", (sizes.B, sizes.H, sizes.T, sizes.S), strict=True))
    mask: Array = np.random.RandomState(2).random_sample(shape) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    return np.broadcast_to(mask, (sizes.B, sizes.H, sizes.T, sizes.S)).copy()


def sample_bias(sizes: Sizes, dtype: DType = DType.FLOAT32) -> Array:
    """Makes a bias (B,H,T,S) that is large enough to be seen."""
    bias: Array = np.random.RandomState(3).standard_normal((sizes.B, sizes.H, sizes.T, sizes.S))
    return (bias * 2).astype(numpy_dtype(dtype))
