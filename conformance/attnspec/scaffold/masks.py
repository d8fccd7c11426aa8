"""Learns how a mask or a bias is passed: its axes, shape and meaning, and if it hides rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attnspec.core.keyword import Saying
from attnspec.problems.problem import Array
from attnspec.scaffold.form import TEMPLATES, Binding, CallForm, Parameters, Site, bind_keyword
from attnspec.scaffold.probe_problems import (
    AnyProblem,
    expect_usual,
    plain_problem,
    sample_bias,
    sample_mask,
    tolerance_of,
)
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier


def find_first_right(forms: Iterable[CallForm], problem: AnyProblem,
                     trier: Trier) -> CallForm | None:
    """Returns the first of these forms that is right at a problem, or None."""
    return next((form for form in forms if trier.is_right(form, problem)), None)


_MASK_SHAPES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "BHTS": (("{0}", ""), ("{0}.reshape(-1, *{0}.shape[2:])", "(B·H,T,S)")),
    "BTS": (("{0}[:, 0]", "(B,T,S)"), ("{0}[:, :1]", "(B,1,T,S)")),
    "BHS": (("{0}[:, :, 0]", "(B,H,S)"),),
    "BS": (("{0}[:, 0, 0]", "(B,S)"), ("{0}[:, :1, :1]", "(B,1,1,S)"), ("{0}[:, 0, :1]", "(B,1,S)")),
    "TS": (("{0}[0, 0]", "(T,S)"),),
}
"""By the axes of a mask, how (B,H,T,S) becomes what is taken, and its shape."""


def learn_full_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds a mask of truth values for every score."""
    return _learn_mask(form, ("BHTS",), _list_truth_meanings(form), parameters, trier) or form


def learn_bias(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds a bias for every score."""
    problem = plain_problem(form)
    sayings = [Saying(expression.format("bias"), shape) for expression, shape in _MASK_SHAPES["BHTS"]]
    sayings += [Saying("[bias]", "in a list")]
    posed = problem.but(bias=sample_bias(problem.sizes, form.dtype))
    return find_first_right(bind_keyword(form, "bias", parameters, sayings), posed, trier) or form


def learn_partial_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds a mask that is the same along some axes, or is added, if no better one is taken."""
    if form.parameter_for("mask"):
        return form
    taken, few = form.parameter_for("bias"), [axes for axes in _MASK_SHAPES if axes != "BHTS"]
    rest = {at: [each for each in listed if each.name != taken] for at, listed in parameters.items()}
    return _learn_mask(form, few, _list_truth_meanings(form), rest, trier) or _learn_mask(
        form, ["BHTS", *few], [_find_added_meaning(form)], rest, trier) or form


def learn_mask_as_bias(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """Passes a mask as a bias to a callee that takes no mask, if -inf does it no harm."""
    problem, as_mask = plain_problem(form), replace(form, limits={**form.limits, "bias_is_mask": True})
    is_asked = bool(form.parameter_for("bias")) and not form.parameter_for("mask")
    return as_mask if is_asked and trier.is_right(as_mask, problem.but(mask=sample_mask(problem.sizes))) else form


def learn_square_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds a mask that is right where T = S and raises elsewhere, as one cut to the queries."""
    if form.understands("mask") or form.attends_to_itself or form.takes_one_query:
        return form
    taken = {each.parameter for each in form.bindings}
    rest = {at: [each for each in listed if each.name not in taken] for at, listed in parameters.items()}
    said = "It takes a mask where T = S only."
    squares = replace(form, mask_of_squares=True, remarks=(*form.remarks, said))
    return _learn_mask(squares, tuple(_MASK_SHAPES),
                       (*_list_truth_meanings(form), _find_added_meaning(form)), rest,
                       trier) or form


def find_nearest_mask(form: CallForm, parameters: Parameters, trier: Trier) -> Attempt | None:
    """Finds the nearest reading of a mask that differs along as many axes as are taken."""
    taken = {each.parameter for each in form.bindings}
    rest = {at: [each for each in listed if each.name not in taken] for at, listed in parameters.items()}
    means = (*_list_truth_meanings(form), _find_added_meaning(form))
    for axes in _MASK_SHAPES:
        trier.forget_nearest()
        _learn_mask(form, [axes], means, rest, trier)
        if trier.nearest and trier.nearest.progress is Progress.OTHER_NUMBERS:
            return trier.nearest
    return None


def _list_truth_meanings(form: CallForm) -> Sequence[tuple[str, str]]:
    """Lists what True or False, or one or zero, may mean: the expression, and words."""
    return (("{0}", "True where a query may attend"), ("~{0}", "True where a key is hidden"),
            (TEMPLATES[form.lift].number_mask, "1 where a query may attend, else 0"))


def _find_added_meaning(form: CallForm) -> tuple[str, str]:
    """Returns the expression and words of a mask of numbers that are added."""
    return TEMPLATES[form.lift].added_mask, "added, 0 or -inf"


def _learn_mask(form: CallForm, all_axes: Sequence[str], means: Sequence[tuple[str, str]],
                parameters: Parameters, trier: Trier) -> CallForm | None:
    """Adds a mask along the first of these axes that is right, in one of these meanings."""
    problem = plain_problem(form)
    problem = plain_problem(form, S=problem.sizes.T) if form.mask_of_squares else problem
    for axes in all_axes:
        posed = problem.but(mask=sample_mask(problem.sizes, axes))
        limits = {} if axes == "BHTS" else {"mask_axes": axes}
        sayings = [Saying(meaning.format(expression.format("mask")), f"{says}{shape and f', {shape}'}", limits)
                   for expression, shape in _MASK_SHAPES[axes] for meaning, says in means]
        if found := find_first_right(bind_keyword(form, "mask", parameters, sayings), posed,
                                     trier):
            return found
    return None


HIDES_QUERIES = "it hides the rows of queries, where a mask of padding hides keys"
HIDES_BOTH = ("It hides tokens as keys and, beside that, as queries, whose rows are then no "
              "attention: that is fit for padding, and is no `mask`. Rows of the tokens that it "
              "leaves were right in the one case that was tried.")
KEY_MASK_LIMITS = {"mask_axes": "BS"}

_ROW_MASK_SHAPES = (("mask[:, 0, :, 0]", "mask[:, 0, 0]", "(B,S)"),
                    ("mask[:, 0, :, 0][:, None, None]", "mask[:, :1, :1]", "(B,1,1,S)"))
"""A mask of queries as truth values, the same of keys, and its shape in words."""
_ROW_MASK_MEANINGS = (("{0}", "True where a query may attend"),
                      ("~{0}", "True where a key is hidden"))


def read_as_key_mask(form: CallForm, parameter: str, trier: Trier) -> Binding | None:
    """Reads a parameter that hides rows of queries as a mask of keys; None if it hides none."""
    rows, posed = _pose_rows(form)
    for of_queries, of_keys, shape in _ROW_MASK_SHAPES:
        for meaning, says in _ROW_MASK_MEANINGS:
            passed = Binding("mask", parameter, meaning.format(of_queries))
            answer = trier.answer(replace(form, bindings=(*form.bindings, passed)), posed)
            if answer is not None and _hides_rows(form, answer.output.astype(np.float64), rows):
                return Binding("mask", parameter, meaning.format(of_keys), f"{says}, {shape}",
                               Site.CALL)
    return None


def hides_keys_and_queries(form: CallForm, parameter: str, trier: Trier) -> bool:
    """Says whether a layer's parameter hides tokens as keys and as queries."""
    if not form.attends_to_itself:
        return False
    rows, posed = _pose_rows(form)
    sizes = posed.sizes
    hidden = posed.but(mask=np.broadcast_to(rows[:, None, None], (sizes.B, sizes.H, sizes.T, sizes.S)).copy())
    for _, of_keys, _ in _ROW_MASK_SHAPES:
        for meaning, _ in _ROW_MASK_MEANINGS:
            passed = Binding("mask", parameter, meaning.format(of_keys))
            answer = trier.answer(replace(form, bindings=(*form.bindings, passed)), hidden)
            if answer is not None and _hides_rows(form, answer.output.astype(np.float64), rows, hidden):
                return True
    return False


def _pose_rows(form: CallForm) -> tuple[Array, AnyProblem]:
    """Returns the visible queries (B,T), and a problem whose mask hides all keys from others."""
    problem = plain_problem(form)
    sizes = problem.sizes
    rows: Array = (np.arange(sizes.B)[:, None] + np.arange(sizes.T)) % 3 > 0
    shape = (sizes.B, sizes.H, sizes.T, sizes.S)
    return rows, problem.but(mask=np.broadcast_to(rows[:, None, :, None], shape).copy())


def _hides_rows(form: CallForm, output: Array, rows: Array, meant: AnyProblem | None = None) -> bool:
    """Says whether an output (B,H,T,Dv), or (B,T,M), is right in these rows (B,T) alone."""
    problem = meant or plain_problem(form)
    apart = np.abs(output - expect_usual(form, problem).output)
    worst = np.where(np.isnan(apart), np.inf, apart).max(axis=-1)
    seen = rows if worst.ndim == rows.ndim else np.broadcast_to(rows[:, None], worst.shape)
    is_right = worst <= tolerance_of(problem.dtype)
    return bool((is_right == seen).all())
