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
from attnspec.scaffold.extended import Parameters, bind_keyword
from attnspec.scaffold.form import CallForm, Site
from attnspec.scaffold.lookup import normalise_name
from attnspec.scaffold.probe_problems import expect_usual, plain_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.telling import say_handed_on

LSE_KEYWORD = "return_lse"


def learn_weights(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Asked for by a flag, or always there. Whether they are right is for the suite to judge; that they are weights,
    and not logits, is told by their rows, which sum to 1.
    """
    if form.arrangement.mapped_axes or form.reading is None:
        return form
    averaging = {each.name for each in parameters[Site.CALL]} & {"average_attn_weights"}
    known = replace(form, arguments={**form.arguments, **dict.fromkeys(averaging, "False")})
    flagged = bind_keyword(known, "return_weights", parameters, [Saying("True")])
    named = _list_flag_options(known, parameters)
    found = next((found for option in (known, *flagged, *named) for found in _list_with_weights(option, trier)), None)
    return found or _hand_on_wrong_weights(form, named, trier)


_WEIGHTS_FLAG = re.compile(r"(return|need|output|with|give)s?_(attn_|attention_)?(prob|weight)")
"""What the name of a flag has in it that asks for weights."""


def _list_flag_options(form: CallForm, parameters: Parameters) -> list[CallForm]:
    """The form asked for weights by a flag whose name says so."""
    taken = {each.parameter for each in form.bindings}
    named = [replace(each, tried_as="return_weights") for each in parameters[Site.CALL]
             if each.default is False and each.name not in taken and _WEIGHTS_FLAG.match(normalise_name(each.name))]
    return list(bind_keyword(form, "return_weights", {Site.CALL: named}, [Saying("True")]))


def _hand_on_wrong_weights(form: CallForm, flagged: list[CallForm], trier: Trier) -> CallForm:
    """The form with what a flag asks for as weights, though its rows do not sum to 1: a check tells what is wrong."""
    for found in (each for option in flagged for each in _list_with_weights(option, trier, are_weights=False)):
        name = found.parameter_for("return_weights")
        against = "the rows of what comes back then do not sum to 1, as those of weights do (they may be logits)"
        return replace(found, remarks=(*form.remarks, say_handed_on(name, "return_weights", against)))
    return form


def _list_with_weights(form: CallForm, trier: Trier, *, are_weights: bool = True) -> Iterator[CallForm]:
    """The form with weights, wherever they may be in what comes back. are_weights: whether their rows sum to 1."""
    asked = plain_problem(form).but(return_weights=True)
    raw = trier.call_raw(replace(form, reading=None),
                         asked if "return_weights" in form.keywords else plain_problem(form))
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    for found in trier.find_outputs(form, raw, asked, expect_usual(form, asked).output.shape):
        for path, back, limits in trier.find_weights(raw, asked, are_weights=are_weights):
            reading = replace(form.reading, asked_path=found.reading.path, weights_path=path, weights_layout=back)
            candidate = replace(form, reading=reading, limits={**form.limits, **limits})
            if trier.is_right(candidate, asked) and trier.is_right(candidate, plain_problem(form)):
                yield candidate


def learn_log_sum_exps(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Asked for by a flag: whether they are right is for the suite to judge. Always there: they have to be near them,
    to one base or the other.
    """
    if form.arrangement.mapped_axes or form.reading is None or form.reading.weights_path or form.kind is Kind.LAYER:
        return form
    flagged = bind_keyword(form, LSE_KEYWORD, parameters, [Saying("True")])
    found = next((found for option in (form, *flagged) for found in _list_with_log_sum_exps(option, trier)), None)
    return found or _note_other_numbers(form, trier)


def _list_with_log_sum_exps(form: CallForm, trier: Trier) -> Iterator[CallForm]:
    """The form with log-sum-exps, wherever they may be in what comes back."""
    asked, is_asked = plain_problem(form).but(**{LSE_KEYWORD: True}), LSE_KEYWORD in form.keywords
    raw = trier.call_raw(replace(form, reading=None), asked if is_asked else plain_problem(form))
    truth = expect_usual(form, asked)
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    for output, (path, back, found) in product(trier.find_outputs(form, raw, asked, truth.output.shape),
                                               trier.find_log_sum_exps(raw, asked)):
        candidate = replace(form, reading=replace(form.reading, asked_path=output.reading.path, weights_path=path,
                                                  weights_layout=back, extra_keyword=LSE_KEYWORD))
        is_one = is_asked or _are_log_sum_exps(found, truth.lse, tolerance_of(asked.dtype))
        if is_one and trier.is_right(candidate, asked) and trier.is_right(candidate, plain_problem(form)):
            yield candidate


def _note_other_numbers(form: CallForm, trier: Trier) -> CallForm:
    """The form with a remark on what is always there, has the shape of log-sum-exps, and is none."""
    raw = trier.call_raw(replace(form, reading=None), plain_problem(form))
    found = list(trier.find_log_sum_exps(raw, plain_problem(form))) if raw is not None else []
    if found and form.reading is not None and _speaks_of_lse(form, trier):
        path, back, _ = found[0]
        told = (f"answer{path} is handed on as `return_lse`, but it is no log-sum-exp: attnspec check says what is "
                "wrong.")
        reading = replace(form.reading, asked_path=form.reading.path, weights_path=path, weights_layout=back,
                          extra_keyword=LSE_KEYWORD)
        return replace(form, reading=reading, remarks=(*form.remarks, told))
    paths = [path for path, _, _ in found]
    said = [f"answer{path} has the shape of log-sum-exps, and other numbers: it is not judged." for path in paths[:1]]
    return replace(form, remarks=(*form.remarks, *said))


_LSE_WORDS = re.compile(r"(?<![a-z])lse(?![a-z])|log_?sum_?exp|log of (the|each)\b[^.]*\bsum", re.IGNORECASE)


def _speaks_of_lse(form: CallForm, trier: Trier) -> bool:
    """Whether its name or docstring speaks of log-sum-exps."""
    callee = trier.process.examine(form.target)
    return any(_LSE_WORDS.search(text) for text in (callee.name, *callee.docs))


def _are_log_sum_exps(found: Array, truth: Array, within: float) -> bool:
    """Whether these are log-sum-exps (B,H,T), to the base e or 2."""
    return any(np.allclose(found, truth / unit, atol=within) for unit in (1.0, math.log(2)))
