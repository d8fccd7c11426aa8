"""Measures a bias by position that a callee adds of its own, and switches it off.

With queries of 0 a row's weights are the softmax of the bias alone. With unit vectors as values,
and an output projection that changes nothing, the output is these weights as they are: every
product is by 0 or 1, so that a hidden key has exactly 0. The logarithms of the others are the
bias, up to one number a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.problems.problem import Array, LayerProblem
from attnspec.scaffold.form import CallableKind, CallForm, Parameters, Site
from attnspec.scaffold.probe_problems import OTHER_SCALES, AnyProblem, list_expected, plain_problem, tolerance_of
from attnspec.scaffold.replaced import PLACE_ADDING_NAME, list_replacements
from attnspec.scaffold.trial_adapter import Trier, list_layer_arguments
from attnspec.scaffold.writing.lines import find_alias
from attnspec.scaffold.writing.source import write_tensors_source
from attnspec.subjects.call import Call

_PLACE_COUNT = 5
"""The number of queries and keys; a head is wider, so each key has its own unit vector."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionBias:
    """A bias by position.

    matrix: (H,T,T), 0 on the diagonal, -inf where a key is hidden.  slopes: by head, how far the
    bias falls with every place of distance; empty where it has another form.  tolerance: how far
    two entries that are meant to be equal may lie apart.
    """

    matrix: Array
    tolerance: float
    slopes: tuple[float, ...] = ()

    @property
    def is_causal(self) -> bool:
        """Says whether later keys are hidden."""
        return bool(np.isneginf(self.matrix).any())

    @property
    def has_one_slope(self) -> bool:
        """Says whether several heads share one slope."""
        return len(self.slopes) > 1 and float(np.ptp(self.slopes)) <= self.tolerance

    @property
    def words(self) -> str:
        """Describes what it adds: `a bias of its own: head h adds -m·|i - j|, …`."""
        H = len(self.matrix)
        if not self.slopes:
            return f"a bias of its own that depends on j - i, of query i and key j (for H = {H})"
        distance = "(i - j)" if self.is_causal else "|i - j|"
        listed = ", ".join(f"{slope:.3g}" for slope in self.slopes)
        return f"a bias of its own: head h adds -m·{distance}, for H = {H} with m = {listed}"


def measure_bias(form: CallForm, trier: Trier) -> PositionBias | None:
    """Measures a form's bias by position, by weights where queries are 0; None if it has none."""
    problem, within = plain_problem(form, T=_PLACE_COUNT, S=_PLACE_COUNT), tolerance_of(form.dtype)
    matrix = _read_place_logits(form, _zero_queries(problem), trier)
    if matrix is None or not _is_by_distance(matrix, within):
        return None
    bias = PositionBias(matrix, within, _read_slopes(matrix, within))
    is_something = np.abs(matrix[np.isfinite(matrix)]).max() > within
    return bias if is_something and _explains_answer(bias, form, trier) else None


def depends_on_distance(form: CallForm, trier: Trier) -> bool | None:
    """Says whether equal queries and equal keys are weighed by their distance alone. So do all
    that turn both alike. Returns None where the weights do not say.
    """
    matrix = _read_place_logits(form, _share_queries(plain_problem(form, T=_PLACE_COUNT, S=_PLACE_COUNT)), trier)
    return None if matrix is None else _is_by_distance(matrix, tolerance_of(form.dtype))


def _read_place_logits(form: CallForm, problem: AnyProblem, trier: Trier) -> Array | None:
    """Reads logits (H,T,T), less each query's own, if tokens differ by place alone; or None."""
    posed = _give_unit_values(problem) if problem.sizes.T == problem.sizes.S == _PLACE_COUNT else None
    answer = trier.answer(form, posed) if posed is not None else None
    if posed is None or answer is None or not np.isfinite(answer.output).all():
        return None
    weights = _read_weights(posed, answer.output.astype(np.float64))
    if not np.allclose(weights, weights[:1], atol=tolerance_of(posed.dtype)):
        return None
    later = np.triu(np.ones((_PLACE_COUNT, _PLACE_COUNT), bool), 1)
    hidden = weights[0] < DTYPES[problem.dtype].normal  # 0, or so far below 1 that the dtype holds few of its digits
    if np.diagonal(hidden, axis1=1, axis2=2).any() or (hidden.all(axis=0).any() and not (hidden == later).all()):
        return None
    logits: Array = np.where(hidden, -np.inf, np.log(np.where(hidden, 1.0, weights[0])))
    matrix: Array = logits - np.diagonal(logits, axis1=1, axis2=2)[:, :, None]
    return matrix


def _zero_queries(problem: AnyProblem) -> AnyProblem:
    if not isinstance(problem, LayerProblem):
        return problem.but(query=np.zeros_like(problem.query))
    zeros = {name: np.zeros_like(array) for name, array in problem.params.items() if name.endswith("_query")}
    return problem.but(params={**problem.params, **zeros})


def _share_queries(problem: AnyProblem) -> AnyProblem:
    """Gives all places one query and one key; in a layer, by features that all tokens share."""
    if not isinstance(problem, LayerProblem):
        same = {name: np.broadcast_to(array[:1, :, :1], array.shape).copy()
                for name, array in (("query", problem.query), ("key", problem.key))}
        return problem.but(**same)
    made = {name: array.copy() for name, array in problem.params.items()}
    for name in ("w_query", "w_key"):
        made[name][:_PLACE_COUNT] = 0
    return problem.but(params=made)


def _give_unit_values(problem: AnyProblem) -> AnyProblem | None:
    """Gives each key a unit vector as its value, so that the output is the weights. A layer's
    tokens say their place in their first features. Returns None where a value is too narrow.
    """
    sizes = problem.sizes
    if sizes.Dv < _PLACE_COUNT:
        return None
    if not isinstance(problem, LayerProblem):
        return problem.but(value=np.broadcast_to(np.eye(_PLACE_COUNT, sizes.Dv, dtype=problem.value.dtype),
                                                 problem.value.shape).copy())
    tokens = np.broadcast_to(problem.query[:1, :1], problem.query.shape).copy()
    tokens[..., :_PLACE_COUNT] = np.eye(_PLACE_COUNT)
    made = {name: np.zeros_like(array) if name in ("b_value", "b_out") else array
            for name, array in problem.params.items()}
    made["w_value"] = np.tile(np.eye(_PLACE_COUNT, sizes.Dv, dtype=tokens.dtype), sizes.Hkv)
    made["w_value"] = np.vstack([made["w_value"], np.zeros_like(problem.params["w_value"][_PLACE_COUNT:])])
    if "w_out" in made:
        made["w_out"] = np.eye(*made["w_out"].shape, dtype=tokens.dtype)
    return problem.but(**dict.fromkeys(("query", "key", "value"), tokens), params=made)


def _read_weights(problem: AnyProblem, output: Array) -> Array:
    """Reads weights (B,H,T,S) from an output (B,H,T,Dv) or (B,T,M) that shows them."""
    if isinstance(problem, LayerProblem):
        sizes = problem.sizes
        output = output[..., :sizes.H * sizes.Dv].reshape(sizes.B, sizes.T, sizes.H, sizes.Dv).swapaxes(1, 2)
    return output[..., :_PLACE_COUNT]


def _is_by_distance(matrix: Array, within: float) -> bool:
    """Says whether logits (H,T,T) depend on j - i alone."""
    diagonals = (np.diagonal(matrix, at, axis1=1, axis2=2) for at in range(1 - _PLACE_COUNT, _PLACE_COUNT))
    return all(np.allclose(each, each[:, :1], atol=within) for each in diagonals)


def _read_slopes(matrix: Array, within: float) -> tuple[float, ...]:
    """Reads how far the bias (H,T,T) of each head falls with every place; empty if it does not."""
    places = np.arange(_PLACE_COUNT)
    distance = np.abs(places[:, None] - places)
    slopes = -matrix[:, 1, 0]
    expected = -slopes[:, None, None] * distance
    is_linear = np.allclose(np.where(np.isfinite(matrix), matrix, expected), expected, atol=within)
    return tuple(float(slope) for slope in slopes) if is_linear else ()


def _explains_answer(bias: PositionBias, form: CallForm, trier: Trier) -> bool:
    """Says whether the callee is attention with that bias, at one scale or another."""
    problem = plain_problem(form, T=_PLACE_COUNT, S=_PLACE_COUNT)
    answer = trier.answer(form, problem)
    if answer is None:
        return False
    biased = problem.but(bias=np.broadcast_to(bias.matrix, (problem.sizes.B, *bias.matrix.shape)).astype(np.float64))
    output = answer.output.astype(np.float64)
    return any(truth.gap(output)[0] <= tolerance_of(problem.dtype) for scale in ("", *OTHER_SCALES)
               for truth in list_expected(biased, scale))


def list_bias_switches(form: CallForm, parameters: Parameters,
                       trier: Trier) -> Iterator[tuple[CallForm, str]]:
    """Lists the form with what may be its bias switched off, and how. It may be a flag that is on,
    a call with a telling name, or a tensor of a PyTorch module.
    """
    flags = [(at, each.name) for at, listed in parameters.items() for each in listed if each.default is True]
    for at, name in flags:
        more = {name: "False"}
        if at is Site.CALL:
            off = replace(form, arguments={**form.arguments, **more})
        else:
            off = replace(form, construction={**form.construction, **more})
        yield off, f"{name} is False"
    for places, names in list_call_replacements(form, trier, PLACE_ADDING_NAME):
        listed = " and ".join(names)
        yield replace(form, replacements={**form.replacements, **places}), f"{listed} is replaced by what adds nothing"
    if form.family is CallableKind.TORCH:
        filled = {"".join(path).lstrip(".") for path in form.state or ()}
        for name in list_tensors(form, trier):
            if name not in filled:
                yield replace(form, zero_tensors=(name,)), f"{name} is set to 0"


_CALL_ONLY_FAMILIES = (CallableKind.LINEN, CallableKind.HAIKU)
"""The families whose submodules exist in a call alone."""


def list_call_replacements(form: CallForm, trier: Trier,
                           named: re.Pattern[str]) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """Lists replacements, by place, for calls with such names, and the names."""
    if not form.is_class:
        return
    for places in list_replacements(trier.process.examine(form.target).source, find_alias(form),
                                    named):
        if form.family in _CALL_ONLY_FAMILIES and any(place.startswith("type(layer.") for place in places):
            continue
        names = [place.rpartition(", ")[2].strip('"') for place in places]
        yield places, [place.partition(")")[0].rpartition(".")[2] if name in ("__call__", "forward") else name
                       for place, name in zip(places, names, strict=True)]


def list_tensors(form: CallForm, trier: Trier) -> list[str]:
    """Lists the names of all tensors that the module keeps."""
    problem = plain_problem(form)
    arrays = {name: getattr(problem, name) for name in ("query", "key", "value")}
    call = Call(arrays, list_layer_arguments(problem), problem.dtype, ())
    told = trier.process.call_text(write_tensors_source(form), "tensors", call, form.lift)
    return ["".join(part.path).strip('[]"') for part in told.parts] if told else []
