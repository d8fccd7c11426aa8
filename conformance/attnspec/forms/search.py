"""Finds the form of a callable: first how its arrays lie, then keyword by keyword, each step proved by an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.forms.form import Form, Layout, Passed
from attnspec.forms.layer import layer_forms
from attnspec.forms.lookup import lifts_of, parameters_of, theirs
from attnspec.forms.trying import GROUPED, SCALES, SELF, SIZES, Trier, bias_of, mask_of, problem_of
from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import Kind
from attnspec.problems.problem import LayerProblem, Problem

AnyProblem = Problem | LayerProblem
_MASKS = ("mask", "~mask", "mask.flatten(0, 1)", "~mask.flatten(0, 1)", "mask.reshape(-1, *mask.shape[2:])",
          "~mask.reshape(-1, *mask.shape[2:])")
# FlashAttention says -1 for a side without bound
_WINDOWS = ("window", "tuple(-1 if side is None else side for side in window)")
_BIASES = ("bias", "bias.flatten(0, 1)", "bias.reshape(-1, *bias.shape[2:])")


def form_of(target: str, function: Callable[..., Any], trier: Trier) -> Form:
    """The form of the callable that `target` names. Raises TargetError, which says how far the search came."""
    form = _plain(target, function, trier)
    parameters = _call_parameters(function, form)
    for learn in (_masks, _biases, _causal, _scale, _softcap, _window, _weights, _grouped):
        form = learn(form, parameters, trier)
    return form


def plain_problem(form: Form) -> AnyProblem:
    """What every form is tried on first, and its keywords are added to."""
    problem = problem_of(form.kind, SELF if form.inputs == 1 else SIZES)
    has_biases = any("b_out" in text for text in form.state.values())
    if isinstance(problem, LayerProblem) and not has_biases:
        return problem.but(params={name: array for name, array in problem.params.items() if name.startswith("w_")})
    return problem


def _plain(target: str, function: Callable[..., Any], trier: Trier) -> Form:
    forms = layer_forms(target, function) if isinstance(function, type) else _function_forms(target, function)
    for form in forms:
        if (found := _with_scale(form, trier)) is not None:
            return found
    raise TargetError(f"{target} answers as attention in no form that was tried ({trier.seen or 'no call came back'}). "
                      "Write its adapter by hand: docs/writing-an-adapter.md.")


def _with_scale(form: Form, trier: Trier) -> Form | None:
    """The form if it answers rightly; with a remark where its default scale is another than 1/sqrt(D)."""
    problem = plain_problem(form)
    if trier.is_right(form, problem):
        return form
    for name in SCALES:
        scaled = replace(form, default_scale=name,
                         remarks=(*form.remarks, f"Its default scale is {name}, not 1/sqrt(D)."))
        if trier.is_right(scaled, problem):
            return scaled
    return None


def _function_forms(target: str, function: Callable[..., Any]) -> Iterator[Form]:
    parameters = parameters_of(function)
    names = tuple(found[0] for word in ("query", "key", "value") if (found := theirs(word, parameters)))
    by_name = names if len(names) == 3 and names != parameters[:3] else ()
    heads = theirs("heads", parameters)
    for lift in lifts_of(function):
        for layout in Layout:
            fixed = {heads[0]: "query.shape[1]"} if heads and layout is Layout.BTE else {}
            if bool(heads) is not (layout is Layout.BTE) and not (heads and layout is Layout.NTD):
                continue
            form = Form(target, lift=lift, layout=layout, names=by_name, fixed=fixed)
            yield from (form, replace(form, returns_pair=True))


def _call_parameters(function: Callable[..., Any], form: Form) -> tuple[str, ...]:
    called = getattr(function, "forward", function) if form.kind is Kind.LAYER else function
    return parameters_of(called)


def _extended(form: Form, keyword: str, parameters: Iterable[str], expressions: Iterable[str]) -> Iterator[Form]:
    """The form with one more keyword, in every way in which it may be handed over."""
    for parameter in theirs(keyword, parameters):
        for expression in expressions:
            yield replace(form, passed=(*form.passed, Passed(keyword, parameter, expression)))


def _first_right(forms: Iterable[Form], problem: AnyProblem, trier: Trier) -> Form | None:
    return next((form for form in forms if trier.is_right(form, problem)), None)


def _masks(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    problem = plain_problem(form)
    mask = mask_of(problem.sizes)
    found = _first_right(_extended(form, "mask", parameters, _MASKS), problem.but(mask=mask), trier)
    if found or not theirs("mask", parameters):
        return found or form
    by_batch = np.broadcast_to(mask[:, :1], mask.shape).copy()
    alike = _first_right(_extended(form, "mask", parameters, ("mask[:, 0]", "~mask[:, 0]", "mask[:, :1]")),
                         problem.but(mask=by_batch), trier)
    said = (f"{alike.parameter('mask')} is one mask for all heads ({alike.passed[-1].expression})" if alike
            else f"{theirs('mask', parameters)[0]} was not understood ({trier.seen})")
    return replace(form, remarks=(*form.remarks, f"{said[0].upper()}{said[1:]}, so masks are left out."))


def _biases(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    problem = plain_problem(form)
    posed = problem.but(bias=bias_of(problem.sizes))
    return _first_right(_extended(form, "bias", parameters, _BIASES), posed, trier) or form


def _causal(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    problem = plain_problem(form).but(causal=True)
    return _first_right(_extended(form, "causal", parameters, ("True",)), problem, trier) or form


def _scale(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    if form.kind is Kind.LAYER:
        return form
    problem = plain_problem(form).but(scale=0.75)
    return _first_right(_extended(form, "scale", parameters, ("scale",)), problem, trier) or form


def _softcap(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    problem = plain_problem(form).but(softcap=0.5)
    return _first_right(_extended(form, "softcap", parameters, ("softcap",)), problem, trier) or form


def _window(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    problem = plain_problem(form).but(window=(1, None))
    return _first_right(_extended(form, "window", parameters, _WINDOWS), problem, trier) or form


def _weights(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    """Weights are judged by the suite; here it is enough that a pair of the right shapes comes back."""
    problem = plain_problem(form).but(return_weights=True)
    if "average_attn_weights" in parameters:
        form = replace(form, fixed={**form.fixed, "average_attn_weights": "False"})
    options = _extended(form, "return_weights", parameters, ("True",))
    return next((option for option in options if trier.output(option, problem) is not None), form)


def _grouped(form: Form, parameters: tuple[str, ...], trier: Trier) -> Form:
    """A flag for fewer key/value heads is given where there are fewer."""
    if form.kind is Kind.LAYER or "enable_gqa" not in parameters:
        return form
    flagged = replace(form, fixed={**form.fixed, "enable_gqa": "key.shape[1] != query.shape[1]"})
    return flagged if trier.is_right(flagged, problem_of(form.kind, GROUPED)) else form


