"""Finds the form of a callable: first how its arrays lie, then keyword by keyword, each step proved by an answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from attnspec.forms.form import At, Family, Form
from attnspec.forms.functions import function_forms
from attnspec.forms.layers import call_of, class_forms, tree_forms
from attnspec.forms.learning import Parameters, learned
from attnspec.forms.lookup import made_by, parameters_of
from attnspec.forms.posing import SCALES, AnyProblem, close, plain, truths
from attnspec.forms.telling import lying
from attnspec.forms.trying import Output, Step, Trier
from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import DType

def _as_it_is(form: Form, trier: Trier) -> Form:  # noqa: ARG001  (a pose's signature)
    return form


def _square(form: Form, trier: Trier) -> Form | None:  # noqa: ARG001
    """As many keys as queries, where there were more."""
    is_new = not form.arrangement.is_one and not form.limits.get("self_attention_only")
    return replace(form, limits={**form.limits, "self_attention_only": True}) if is_new else None


def _half(form: Form, trier: Trier) -> Form | None:
    """In float16, where nothing came back in float32."""
    refused = trier.nearest is not None and trier.nearest.step is Step.RAISED
    return replace(form, dtype=DType.FLOAT16) if refused else None


_POSES: tuple[Callable[[Form, Trier], Form | None], ...] = (_as_it_is, _square, _half)
"""What a form may have to be put to."""


def form_of(target: str, function: Callable[..., Any], trier: Trier) -> Form:
    """The form of the callable that `target` names. Raises TargetError, which says how far the search came."""
    for pose in _POSES:
        for form in _forms(target, function, trier, pose):
            if (found := _found(form, trier)) is not None:
                return learned(found, _parameters(function, found), trier)
    raise TargetError(_failure(target, trier))


def _forms(target: str, function: Callable[..., Any], trier: Trier,
           pose: Callable[[Form, Trier], Form | None]) -> Iterator[Form]:
    if isinstance(function, type):
        forms = class_forms(target, function, trier)
    else:
        forms = itertools.chain(tree_forms(target, function), function_forms(target, function))
    return (posed for form in forms if (posed := pose(form, trier)) is not None)


def _parameters(function: Callable[..., Any], form: Form) -> Parameters:
    if isinstance(function, type):
        return {At.CALL: call_of(function, form.family), At.CONSTRUCTOR: made_by(function)}
    return {At.CALL: parameters_of(function)}


def _found(form: Form, trier: Trier) -> Form | None:
    """The form if it answers rightly, in whatever way the output is read; also with another scale, or always causal."""
    problem = plain(form)
    returned = trier.returned(form, problem)
    if returned is None:
        return None
    outputs = trier.outputs(form, returned, problem, next(truths(problem, "")).output.shape)
    for known in _variations(form):
        for output in _nearest_first(known, outputs):
            candidate = replace(known, reading=output.reading)
            if trier.is_right(candidate, plain(candidate)):
                return candidate
    _keep_nearest(form, problem, outputs, trier)
    return None


def _variations(form: Form) -> Iterator[Form]:
    """The form as it is; with another default scale; always causal."""
    yield form
    for name in SCALES:
        yield replace(form, default_scale=name,
                      remarks=(*form.remarks, f"Its default scale is {name}, not 1/sqrt(D)."))
    yield replace(form, limits={**form.limits, "causal_only": True}, remarks=(*form.remarks, "It is always causal."))


def _nearest_first(form: Form, outputs: list[Output]) -> Iterator[Output]:
    """The outputs that are right by one convention or another."""
    problem = plain(form)
    known = list(truths(problem, form.default_scale))
    for output in outputs:
        if any(truth.gap(output.array)[0] <= close(problem.dtype) for truth in known):
            yield output


def _keep_nearest(form: Form, problem: AnyProblem, outputs: list[Output], trier: Trier) -> None:
    truth = next(truths(problem, ""))
    for output in outputs:
        trier.differs(replace(form, reading=output.reading), *truth.gap(output.array))


def _failure(target: str, trier: Trier) -> str:
    """What was tried, the nearest of it, and what stood against that."""
    nearest = trier.nearest
    told = "" if nearest is None else f" Nearest is: {_described(nearest.form)}; but {nearest.against}."
    return (f"{target} answers as attention in none of {trier.tried} forms that were tried.{told} Write its adapter by "
            "hand: docs/writing-an-adapter.md.")


def _described(form: Form) -> str:
    given = {**form.construction, **form.given}
    told = f", given {', '.join(f'{name}={text}' for name, text in given.items())}" if given else ""
    read = f", its output read as {form.reading.back.shape}" if form.reading else ""
    return f"{'a class, ' if form.family is not Family.FUNCTION else ''}{lying(form)}{told}{read}"
