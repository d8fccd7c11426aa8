"""A bias by position that a callee adds of its own: measured, told, and switched off where it is kept in a tensor.

With queries of 0 a row's weights are the softmax of the bias alone, and the output is those weights times values that
are known. So the weights can be solved for, and their logarithms are the bias, up to one number a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.numerics.expectation import lowered
from attnspec.problems.problem import Array, LayerProblem
from attnspec.scaffold.extended import Parameters
from attnspec.scaffold.form import At, CallableKind, CallForm
from attnspec.scaffold.probe_problems import SCALES, AnyProblem, close, plain, truths
from attnspec.scaffold.replaced import ADDS_PLACES, unturned_places
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.imports import alias
from attnspec.scaffold.writing.source import tensors_source
from attnspec.subjects.call import Call
from attnspec.subjects.callee import Hosted
from attnspec.subjects.subject import SubjectDied, SubjectRaised

_PLACES = 5
"""Queries and keys; fewer than a head is wide, so that weights can be solved for."""
_HIDDEN = 2.0**-16
"""A weight below it is that of a key that is not seen: solving in float32 leaves up to some 2^-18 in place of 0."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionBias:
    """matrix: (H,T,T), 0 on the diagonal, -inf where a key is not seen.  slopes: of each head, where the bias falls by
    that with every place of distance; empty where it is of another form.
    """

    matrix: Array
    slopes: tuple[float, ...] = ()

    @property
    def is_causal(self) -> bool:
        """Whether later keys are not seen."""
        return bool(np.isneginf(self.matrix).any())

    @property
    def has_one_slope(self) -> bool:
        """Whether several heads fall by one slope."""
        return len(self.slopes) > 1 and float(np.ptp(self.slopes)) <= _HIDDEN

    @property
    def words(self) -> str:
        """What it adds: `a bias of its own: head h adds -m·|i - j|, …`."""
        H = len(self.matrix)
        if not self.slopes:
            return f"a bias of its own that depends on j - i, of query i and key j (for H = {H})"
        distance = "(i - j)" if self.is_causal else "|i - j|"
        listed = ", ".join(f"{slope:.3g}" for slope in self.slopes)
        return f"a bias of its own: head h adds -m·{distance}, for H = {H} with m = {listed}"


def measure_bias(form: CallForm, trier: Trier) -> PositionBias | None:
    """The bias by position that a form adds; None where it is not attention with such a bias."""
    bias = _bias_of(form, trier)
    return bias if bias is not None and _explains(bias, form, trier) else None


def _bias_of(form: CallForm, trier: Trier) -> PositionBias | None:
    """What its weights say where queries are 0; None where they are not those of a bias by position."""
    problem = _without_queries(plain(form, T=_PLACES, S=_PLACES))
    answer = trier.answer(form, problem)
    if answer is None or problem.sizes.T != _PLACES:
        return None
    weights = _weights(problem, answer.output.astype(np.float64))
    if weights is None or not np.allclose(weights, weights[:1], atol=close(problem.dtype)):
        return None
    later = np.triu(np.ones((_PLACES, _PLACES), bool), 1)
    hidden = weights[0] < _HIDDEN
    if hidden.all(axis=0).any() and not (hidden == later).all():
        return None
    with np.errstate(divide="ignore"):
        logits = np.where(hidden, -np.inf, np.log(np.maximum(weights[0], _HIDDEN)))
    matrix = logits - np.diagonal(logits, axis1=1, axis2=2)[:, :, None]
    within = close(problem.dtype)
    return PositionBias(matrix, _slopes(matrix, within)) if _is_by_distance(matrix, within) else None


def _without_queries(problem: AnyProblem) -> AnyProblem:
    """The problem with queries of 0."""
    if not isinstance(problem, LayerProblem):
        return problem.but(query=np.zeros_like(problem.query))
    zeros = {name: np.zeros_like(array) for name, array in problem.params.items() if name.endswith("_query")}
    return problem.but(params={**problem.params, **zeros})


def _weights(problem: AnyProblem, output: Array) -> Array | None:
    """(B,H,T,S), from an output (B,H,T,Dv) or (B,T,M); None where an output of that shape does not say."""
    if not np.isfinite(output).all():
        return None
    if not isinstance(problem, LayerProblem):
        return output @ np.linalg.pinv(problem.value.astype(np.float64))
    params = {name: array.astype(np.float64) for name, array in problem.params.items()}
    heads = output - params.get("b_out", 0)
    heads = heads @ np.linalg.pinv(params["w_out"]) if "w_out" in params else heads
    mixed = heads.reshape(*heads.shape[:2], problem.heads, -1).swapaxes(1, 2)
    return mixed @ np.linalg.pinv(lowered(problem).value)


def _is_by_distance(matrix: Array, within: float) -> bool:
    """Whether a bias (H,T,T) depends on j - i alone, and is more than nothing."""
    diagonals = (np.diagonal(matrix, at, axis1=1, axis2=2) for at in range(1 - _PLACES, _PLACES))
    is_alike = all(np.allclose(each, each[:, :1], atol=within) for each in diagonals)
    seen = matrix[np.isfinite(matrix)]
    return is_alike and bool(np.abs(seen).max() > within)


def _slopes(matrix: Array, within: float) -> tuple[float, ...]:
    """By how much the bias (H,T,T) of each head falls with every place; empty where it does not fall so."""
    places = np.arange(_PLACES)
    distance = np.abs(places[:, None] - places)
    slopes = -matrix[:, 1, 0]
    expected = -slopes[:, None, None] * distance
    is_linear = np.allclose(np.where(np.isfinite(matrix), matrix, expected), expected, atol=within)
    return tuple(float(slope) for slope in slopes) if is_linear else ()


def _explains(bias: PositionBias, form: CallForm, trier: Trier) -> bool:
    """Whether it is attention with that bias, at one scale or another."""
    problem = plain(form, T=_PLACES, S=_PLACES)
    answer = trier.answer(form, problem)
    if answer is None:
        return False
    biased = problem.but(bias=np.broadcast_to(bias.matrix, (problem.sizes.B, *bias.matrix.shape)).astype(np.float64))
    output = answer.output.astype(np.float64)
    return any(truth.gap(output)[0] <= close(problem.dtype) for scale in ("", *SCALES)
               for truth in truths(biased, scale))


def switch_off(form: CallForm, parameters: Parameters, trier: Trier) -> Iterator[tuple[CallForm, str]]:
    """The form with what may be its bias switched off, and how: by a flag that is on, a call that is named for it, or a
    tensor of a torch module.
    """
    flags = [(at, each.name) for at, listed in parameters.items() for each in listed if each.default is True]
    for at, name in flags:
        more = {name: "False"}
        given, construction = ({**form.given, **more}, form.construction) if at is At.CALL else (
            form.given, {**form.construction, **more})
        yield replace(form, given=given, construction=construction), f"{name} is False"
    for places, listed in places_by_calls(form, trier, ADDS_PLACES):
        yield replace(form, replaced={**form.replaced, **places}), f"{listed} is replaced by what adds nothing"
    if form.family is CallableKind.TORCH:
        filled = {"".join(path).lstrip(".") for path in form.state or ()}
        yield from ((replace(form, zeroed=(name,)), f"{name} is set to 0")
                    for name in tensors_in(form, trier) if name not in filled)


_APART = (CallableKind.LINEN, CallableKind.HAIKU)
"""Whose submodules are there in a call alone."""


def places_by_calls(form: CallForm, trier: Trier, named: re.Pattern[str]) -> Iterator[tuple[Mapping[str, str], str]]:
    """Every set of replacements for calls of a class that are named so, by place, and their names in a list."""
    if not form.is_class:
        return
    for places in unturned_places(trier.there.examined(form.target).source, alias(form), named):
        if form.family in _APART and any(place.startswith("type(layer.") for place in places):
            continue
        names = [place.rpartition(", ")[2].strip('"') for place in places]
        yield places, " and ".join(place.partition(")")[0].rpartition(".")[2] if name == "__call__" else name
                                   for place, name in zip(places, names, strict=True))


def tensors_in(form: CallForm, trier: Trier) -> list[str]:
    """The names of all tensors that the module keeps."""
    callee = trier.there.written(tensors_source(form), "tensors", form.lift).callee
    assert isinstance(callee, Hosted)  # it was loaded there
    problem = plain(form)
    arrays = {name: getattr(problem, name) for name in ("query", "key", "value")}
    layered = {"params": problem.params, "heads": problem.heads} if isinstance(problem, LayerProblem) else {}
    try:
        told = callee.whole(Call(arrays, layered, problem.dtype, ()))
    except (SubjectRaised, SubjectDied):
        return []
    return ["".join(part.path).strip('[]"') for part in told.parts]
