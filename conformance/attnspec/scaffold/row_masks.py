"""A mask of padding that hides the rows of queries: in place of keys, which is a mistake; or beside keys, which is a
choice, since nobody reads what padding gets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.problems.problem import Array
from attnspec.scaffold.form import Binding, CallForm, Site
from attnspec.scaffold.probe_problems import AnyProblem, expect_usual, plain_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Trier

HIDES_QUERIES = "it hides the rows of queries, where a mask of padding hides keys"
HIDES_BOTH = ("It hides tokens as keys and, beside that, as queries, whose rows are then no attention: that is fit for "
              "padding, and is no `mask`. Rows of the tokens that it leaves were right in the one case that was tried.")
KEY_MASK_LIMITS = {"mask_axes": "BS"}
"""The limit of a mask that is read as one of keys."""

_ROW_MASK_SHAPES = (("mask[:, 0, :, 0]", "mask[:, 0, 0]", "(B,S)"),
                    ("mask[:, 0, :, 0][:, None, None]", "mask[:, :1, :1]", "(B,1,1,S)"))
"""A mask as truth values of queries, as those of keys, and its shape in words."""
_ROW_MASK_MEANINGS = (("{0}", "True where a query may attend"), ("~{0}", "True where a key is hidden"))


def read_as_key_mask(form: CallForm, parameter: str, trier: Trier) -> Binding | None:
    """A parameter that hides rows of queries, handed a mask of keys; None for one that does not hide them."""
    rows, posed = _pose_rows(form)
    for of_queries, of_keys, shape in _ROW_MASK_SHAPES:
        for meaning, says in _ROW_MASK_MEANINGS:
            passed = Binding("mask", parameter, meaning.format(of_queries))
            answer = trier.answer(replace(form, bindings=(*form.bindings, passed)), posed)
            if answer is not None and _hides_rows(form, answer.output.astype(np.float64), rows):
                return Binding("mask", parameter, meaning.format(of_keys), f"{says}, {shape}", Site.CALL)
    return None


def hides_keys_and_queries(form: CallForm, parameter: str, trier: Trier) -> bool:
    """Whether a parameter of a layer that attends to itself hides tokens as keys and as queries: rows of the others are
    right.
    """
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
    """The queries (B,T) that are not hidden, and a problem whose mask hides all keys from the others."""
    problem = plain_problem(form)
    sizes = problem.sizes
    rows: Array = (np.arange(sizes.B)[:, None] + np.arange(sizes.T)) % 3 > 0
    shape = (sizes.B, sizes.H, sizes.T, sizes.S)
    return rows, problem.but(mask=np.broadcast_to(rows[:, None, :, None], shape).copy())


def _hides_rows(form: CallForm, output: Array, rows: Array, meant: AnyProblem | None = None) -> bool:
    """Whether an output (B,H,T,Dv), or (B,T,M), is right in these rows (B,T) and in no other. meant: the problem to
    which those are held, where it is not the plain one.
    """
    problem = meant or plain_problem(form)
    apart = np.abs(output - expect_usual(form, problem).output)
    worst = np.where(np.isnan(apart), np.inf, apart).max(axis=-1)
    seen = rows if worst.ndim == rows.ndim else np.broadcast_to(rows[:, None], worst.shape)
    is_right = worst <= tolerance_of(problem.dtype)
    return bool((is_right == seen).all())
