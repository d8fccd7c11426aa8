"""How gradients are observed: those that come back beside an output whose gradient is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from attnspec.numerics.expectation import Expectation
from attnspec.numerics.gradients import Gradient
from attnspec.problems.problem import HELD, INPUTS, Array
from attnspec.subjects.call import of_parameter
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Posed, Scene

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

DIFFERENTIATED: Mapping[str, str] = {name: of for name, (of, _) in (*OF_INPUT.items(), *OF_PARAMETER.items())}
"""By observable, what the gradient is with respect to."""

Arrays = tuple[list[Array], tuple[str, ...]]
Definition = tuple[Array, Array, Array]


def observer_of(name: GradientOf) -> Callable[[Scene, Posed[Any]], Arrays]:
    """How the gradient with respect to an input is observed."""
    return partial(_observe, name)


def _observe(name: GradientOf, scene: Scene, posed: Posed[Any]) -> Arrays:
    """The gradient of each part, in the shape of the input, as (B,H,T,D), and its axes."""
    of, axes = OF_INPUT[name]
    if any(getattr(part, of) is None for part in posed.parts):
        raise NoClaim(f"there is no {of} to differentiate with respect to")
    answers = scene.answers(posed)
    if any(of not in answer.by_input for answer in answers):
        raise OutsideLimits(f"a {of} is a constant to it, without a gradient")
    arrays = [answer.by_input[of] for answer in answers]
    return arrays, axes[len(axes) - arrays[0].ndim:]


def observe_parameter(name: ParameterGradient, scene: Scene, posed: Posed[Any]) -> Arrays:
    """The gradient of a parameter, w_query (M,H·D) and its like, for each part, and its axes."""
    of, axes = OF_PARAMETER[name]
    if not scene.is_layer or any(part.grad_output is None for part in posed.parts):
        raise NoClaim(f"there is no {of} to differentiate with respect to")
    limits = scene.subject.declaration.limits
    has_none = of in BIASES and not limits.is_biased(of.removeprefix("b_"))
    if has_none or (of in OF_OUTPUT and not limits.projects_output):
        raise OutsideLimits(f"it has no {of}")
    return [answer.by_input[of_parameter(of)] for answer in scene.answers(with_parameters(posed))], axes


def with_parameters(posed: Posed[Any]) -> Posed[Any]:
    """The same run, of which the gradients of a layer's parameters are asked for, too."""
    return replace(posed, parts=tuple(part.but(of_parameters=True) for part in posed.parts),
                   key=f"{posed.key}+{PARAMETERS}")


def define_parameter(name: ParameterGradient, expected: Expectation, scene: Scene) -> Definition:  # noqa: ARG001  (a definer's)
    """Truth, allowance and claim of it, (M,H·D) and its like."""
    assert expected.gradients is not None
    found = expected.gradients[OF_PARAMETER[name][0]]
    return found.truth, found.allowance, found.claimed


def definer_of(name: GradientOf) -> Callable[[Expectation, Scene], Definition]:
    """What the definition says of it."""
    return partial(_define, name)


def _define(name: GradientOf, expected: Expectation, scene: Scene) -> Definition:
    """Truth, allowance and claim of the gradient, each in the shape of the input, as (B,H,T,D)."""
    assert expected.gradients is not None
    of = OF_INPUT[name][0]
    found = expected.gradients[of]
    if not scene.is_layer or of not in INPUTS:
        return found.truth, found.allowance, found.claimed
    return found.truth, found.allowance, found.claimed & _of_places(expected.gradients, of, scene)


def _of_places(gradients: Mapping[str, Gradient], of: str, scene: Scene) -> Array:
    """(B,1,T,1): the places of a layer's input of which something may be said. Its projections mix the heads, and what
    one input serves as: key and value, which may lie side by side in one memory, or all three. One NaN spoils a place.
    """
    together: tuple[str, ...] = HELD if of in HELD else (of,)
    together = INPUTS if scene.subject.declaration.limits.self_attention_only else together
    whole = [gradients[name].claimed.all(axis=(1, 3), keepdims=True) for name in together]
    return np.asarray(np.logical_and.reduce(whole))
