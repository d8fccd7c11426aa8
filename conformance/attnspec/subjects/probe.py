"""What a subject really does where practice is divided, found with small problems whose answers tell the cases apart.

Queries are zero, so all visible keys weigh the same; values are the identity, so the output shows the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.keywords import PLACED
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer

YES, NO = "yes", "no"
_CLOSE = 2.0**-6
"""Far above the rounding of 1/2 … 1/8 in any dtype, far below the differences between the candidate answers."""


def probe_conventions(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """The convention's answer by name, `undefined` where none fits; and `grouped`: whether Hkv < H is accepted.

    Left out is what cannot be asked of this subject: it lacks the keyword, or its limits forbid the problem.
    Hidden rows are probed in each form: `hidden_row.mask`, `hidden_row.bias`; `hidden_row` is the first of them.
    """
    found: dict[str, str] = {}
    found.update(_hidden_rows(subject, dtype))
    keywords = subject.declaration.keywords
    if PLACED.keys() & keywords:
        found.update(_causal_alignment(subject, dtype))
    if {"causal", "mask"} <= keywords:
        found.update(_mask_with_causal(subject, dtype))
    found.update(_grouped(subject, dtype))
    return found


def _zero_queries(subject: Subject, dtype: DType, T: int, S: int) -> Problem:
    """B = 1, D = Dv = S: query and key zero, values the identity. Two heads: some libraries treat one otherwise."""
    number, H = numpy_dtype(dtype), 1 if subject.declaration.limits.single_head else 2
    value = np.tile(np.eye(S), (1, H, 1, 1)).astype(number)  # tiled, not broadcast: some kernels refuse odd strides
    return Problem(dtype, np.zeros((1, H, T, S), number), np.zeros((1, H, S, S), number), value)


def _seen(subject: Subject, problem: Problem) -> Array | None:
    """The output (B,H,T,Dv) as float64; None where the subject gives none."""
    try:
        return subject.answer(problem).output.astype(np.float64)
    except (SubjectRaised, UnusableAnswer):
        return None


def _first_fit(output: Array | None, candidates: Iterable[tuple[str, Array]]) -> str:
    """The name of the candidate that the output, or a part of it, is: any shape; NaN equals NaN."""
    if output is not None:
        for name, candidate in candidates:
            if np.allclose(output, candidate, rtol=0, atol=_CLOSE, equal_nan=True):
                return name
    return UNDEFINED


def _hidden_rows(subject: Subject, dtype: DType) -> Mapping[str, str]:
    problem = _zero_queries(subject, dtype, 4, 4)
    visible = np.ones((*problem.query.shape[:2], 4, 4), bool)
    # where queries share one mask, the keys of one row can be hidden only with those of all
    visible[..., 1 if "T" in subject.declaration.limits.mask_axes else slice(None), :] = False
    bias = np.where(visible, 0, -np.inf).astype(numpy_dtype(dtype))
    forms = {"mask": problem.but(mask=visible), "bias": problem.but(bias=bias)}
    found = {f"hidden_row.{form}": _hidden_row(_seen(subject, posed))
             for form, posed in forms.items() if not subject.refuses(posed)}
    return {"hidden_row": next(iter(found.values())), **found} if found else {}


def _hidden_row(output: Array | None) -> str:
    """What the second row of the output (B,H,T,Dv) holds, which sees none of four keys: an answer of the convention."""
    if output is None:
        return UNDEFINED
    candidates = {"zeros": 0.0, "uniform": 0.25, "nan": np.nan}
    return _first_fit(output[0, 0, 1], [(name, np.full(4, entry)) for name, entry in candidates.items()])


def _causal_alignment(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """Asked with more keys than queries and with fewer; the two answers must be the same one. Where there is no causal
    flag, the first other keyword that counts from a query's own place serves for it.
    """
    name = next(name for name in PLACED if name in subject.declaration.keywords)
    problems = [_zero_queries(subject, dtype, T, S).but(**{name: PLACED[name]}) for T, S in ((2, 5), (5, 2))]
    found = {_alignment(subject, problem) for problem in problems if not subject.refuses(problem)}
    return {"causal_alignment": found.pop() if len(found) == 1 else UNDEFINED} if found else {}


def _alignment(subject: Subject, problem: Problem) -> str:
    output = _seen(subject, problem)
    shifts = {"top_left": 0, "bottom_right": problem.sizes.S - problem.sizes.T}
    return next((name for name, shift in shifts.items() if output is not None and _is_triangle(output[0, 0], shift)),
                UNDEFINED)


def _is_triangle(weights: Array, shift: int) -> bool:
    """Whether row i of weights (T,S) spreads evenly over keys 0 … i + shift; rows without a key may hold anything."""
    T, S = weights.shape
    visible = np.tri(T, S, shift, dtype=bool)
    sees = visible.any(axis=1)
    return bool(np.allclose(weights[sees], _even(visible[sees]), rtol=0, atol=_CLOSE))


def _even(visible: Array) -> Array:
    """(T,S): the weights of rows that spread evenly over what is visible (T,S) to them."""
    even: Array = visible / visible.sum(axis=-1, keepdims=True)
    return even


def _mask_with_causal(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """Every query has a mask of its own, or, of a subject that takes no such mask, they share one."""
    mask = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1]], bool)
    mask = mask if "T" in subject.declaration.limits.mask_axes else mask[[0, 0, 0]]
    problem = _zero_queries(subject, dtype, 3, 3)
    # at full shape: a mask that broadcasts is another question
    posed = problem.but(mask=np.tile(mask, (*problem.query.shape[:2], 1, 1)), causal=True)
    return {} if subject.refuses(posed) else {"mask_with_causal": _together(subject, posed, mask)}


def _together(subject: Subject, problem: Problem, mask: Array) -> str:
    """Which keys a mask (T,S) and the causal flag leave visible together; `raises` where the call is refused."""
    causal = np.tri(3, dtype=bool)
    try:
        output = subject.answer(problem).output
    except SubjectRaised:
        return "raises"
    except UnusableAnswer:
        return UNDEFINED
    candidates = (("both", mask & causal), ("mask", mask), ("causal", causal))
    return _first_fit(output[0, 0].astype(np.float64), [(name, _even(visible)) for name, visible in candidates])


def _grouped(subject: Subject, dtype: DType) -> Mapping[str, str]:
    """Four query heads on two key/value heads whose values say which of them was read."""
    number = numpy_dtype(dtype)
    value = np.tile(np.arange(2).reshape(1, 2, 1, 1), (1, 1, 4, 4)).astype(number)
    flag = subject.declaration.limits.causal_only
    problem = Problem(dtype, np.zeros((1, 4, 4, 4), number), np.zeros((1, 2, 4, 4), number), value, causal=flag)
    if subject.declaration.limits.single_head:
        return {}
    output = None if subject.refuses(problem) else _seen(subject, problem)
    if output is None:
        return {"grouped": NO}
    heads = {"repeat": [0, 0, 1, 1], "tile": [0, 1, 0, 1]}
    read = _first_fit(output[0, :, 0, 0], [(name, np.array(order, float)) for name, order in heads.items()])
    return {"grouped": YES, "grouped_heads": read}
