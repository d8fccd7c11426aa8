"""What comes back beside the output: weights, or log-sum-exps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from attnspec.core.keyword import Saying
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Array
from attnspec.scaffold.extended import Parameters, extended
from attnspec.scaffold.form import At, CallForm
from attnspec.scaffold.lookup import plain as plain_name
from attnspec.scaffold.probe_problems import close, plain, truth_of
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.telling import say_handed_on

LSE = "return_lse"


def weights(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Asked for by a flag, or always there. Whether they are right is for the suite to judge; that they are weights,
    and not logits, is told by their rows, which sum to 1.
    """
    if form.arrangement.mapped or form.reading is None:
        return form
    averaging = {each.name for each in parameters[At.CALL]} & {"average_attn_weights"}
    known = replace(form, given={**form.given, **dict.fromkeys(averaging, "False")})
    flagged = extended(known, "return_weights", parameters, [Saying("True")])
    named = _options_by_flag(known, parameters)
    found = next((found for option in (known, *flagged, *named) for found in _with_weights(option, trier)), None)
    return found or _with_wrong_weights(form, named, trier)


_WEIGHTS = re.compile(r"(return|need|output|with|give)s?_(attn_|attention_)?(prob|weight)")
"""What the name of a flag has in it that asks for weights."""


def _options_by_flag(form: CallForm, parameters: Parameters) -> list[CallForm]:
    """The form asked for weights by a flag whose name says so."""
    taken = {each.parameter for each in form.passed}
    named = [replace(each, tried_as="return_weights") for each in parameters[At.CALL]
             if each.default is False and each.name not in taken and _WEIGHTS.match(plain_name(each.name))]
    return list(extended(form, "return_weights", {At.CALL: named}, [Saying("True")]))


def _with_wrong_weights(form: CallForm, flagged: list[CallForm], trier: Trier) -> CallForm:
    """The form with what a flag asks for as weights, though its rows do not sum to 1: a check tells what is wrong."""
    for found in (each for option in flagged for each in _with_weights(option, trier, are_weights=False)):
        name = found.parameter("return_weights")
        against = "the rows of what comes back then do not sum to 1, as those of weights do (they may be logits)"
        return replace(found, remarks=(*form.remarks, say_handed_on(name, "return_weights", against)))
    return form


def _with_weights(form: CallForm, trier: Trier, *, are_weights: bool = True) -> Iterator[CallForm]:
    """The form with weights, wherever they may be in what comes back. are_weights: whether their rows sum to 1."""
    asked = plain(form).but(return_weights=True)
    raw = trier.returned(replace(form, reading=None), asked if "return_weights" in form.keywords else plain(form))
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    for found in trier.outputs(form, raw, asked, truth_of(form, asked).output.shape):
        for path, back, limits in trier.weights(raw, asked, are_weights=are_weights):
            reading = replace(form.reading, asked=found.reading.path, weights=path, weights_back=back)
            candidate = replace(form, reading=reading, limits={**form.limits, **limits})
            if trier.is_right(candidate, asked) and trier.is_right(candidate, plain(form)):
                yield candidate


def log_sum_exps(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Asked for by a flag: whether they are right is for the suite to judge. Always there: they have to be near them,
    to one base or the other.
    """
    if form.arrangement.mapped or form.reading is None or form.reading.weights or form.kind is Kind.LAYER:
        return form
    flagged = extended(form, LSE, parameters, [Saying("True")])
    found = next((found for option in (form, *flagged) for found in _with_log_sum_exps(option, trier)), None)
    return found or _of_other_numbers(form, trier)


def _with_log_sum_exps(form: CallForm, trier: Trier) -> Iterator[CallForm]:
    """The form with log-sum-exps, wherever they may be in what comes back."""
    asked, is_asked = plain(form).but(**{LSE: True}), LSE in form.keywords
    raw, truth = trier.returned(replace(form, reading=None), asked if is_asked else plain(form)), truth_of(form, asked)
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    for output, (path, back, found) in product(trier.outputs(form, raw, asked, truth.output.shape),
                                               trier.log_sum_exps(raw, asked)):
        candidate = replace(form, reading=replace(form.reading, asked=output.reading.path, weights=path,
                                                  weights_back=back, beside=LSE))
        is_one = is_asked or _are_near(found, truth.lse, close(asked.dtype))
        if is_one and trier.is_right(candidate, asked) and trier.is_right(candidate, plain(form)):
            yield candidate


def _of_other_numbers(form: CallForm, trier: Trier) -> CallForm:
    """The form with a remark on what is always there, has the shape of log-sum-exps, and is none."""
    raw = trier.returned(replace(form, reading=None), plain(form))
    found = list(trier.log_sum_exps(raw, plain(form))) if raw is not None else []
    if found and form.reading is not None and _is_named_so(form, trier):
        path, back, _ = found[0]
        told = (f"answer{path} is handed on as `return_lse`, but it is no log-sum-exp: attnspec check says what is "
                "wrong.")
        reading = replace(form.reading, asked=form.reading.path, weights=path, weights_back=back, beside=LSE)
        return replace(form, reading=reading, remarks=(*form.remarks, told))
    paths = [path for path, _, _ in found]
    said = [f"answer{path} has the shape of log-sum-exps, and other numbers: it is not judged." for path in paths[:1]]
    return replace(form, remarks=(*form.remarks, *said))


_LSE = re.compile(r"(?<![a-z])lse(?![a-z])|log_?sum_?exp|log of (the|each)\b[^.]*\bsum", re.IGNORECASE)


def _is_named_so(form: CallForm, trier: Trier) -> bool:
    """Whether its name or docstring speaks of log-sum-exps."""
    callee = trier.there.examined(form.target)
    return any(_LSE.search(text) for text in (callee.name, *callee.docs))


def _are_near(found: Array, truth: Array, within: float) -> bool:
    """Whether these are log-sum-exps (B,H,T), to the base e or 2."""
    return any(np.allclose(found, truth / unit, atol=within) for unit in (1.0, math.log(2)))
