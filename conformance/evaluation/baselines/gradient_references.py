"""What rules on gradients compare with: those of the formula in a wider dtype, in the same one, or rounded eagerly."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from attnspec.faults import staged
from attnspec.faults.backward import BackwardMethod, Taken, backward, fold, take
from attnspec.faults.staged_work import HandedOver
from attnspec.problems.problem import Array, Problem

from evaluation.baselines.references import ReferencedProblem

Gradients = Mapping[str, Array]  # by the names of the inputs, in their shapes

AUTOGRAD = BackwardMethod(delta="products", is_recomputed=False)
"""As a framework differentiates the formula: the weights are kept, and delta is the sum of P·dP."""


class GradientReference:
    """The gradients of a problem by the formula, each kind worked out when a rule first asks for it."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    @cached_property
    def wider(self) -> Gradients:
        """In the next wider dtype, unrounded: float32 for the half dtypes, else float64."""
        io = self._problem.query.dtype
        return self._compute_gradients(np.dtype(np.float32 if io.itemsize == 2 else np.float64))

    @cached_property
    def same(self) -> Gradients:
        """What a library returns in the inputs' dtype: float32 inside for halves, and one rounding."""
        return self._compute_gradients(self._problem.query.dtype)

    @cached_property
    def eager(self) -> Gradients:
        """Every intermediate result of both passes rounded to the inputs' dtype, the key scaled before."""
        with np.errstate(all="ignore"):
            return _eager(take(*_call(self._problem, self._problem.query.dtype), AUTOGRAD))

    @cached_property
    def rounded_gradients(self) -> Gradients:
        """`wider` rounded to the dtype of the inputs, and from there exactly in float64."""
        io = self._problem.query.dtype
        return {name: array.astype(io).astype(np.float64) for name, array in self.wider.items()}

    def _compute_gradients(self, dtype: np.dtype[Any]) -> Gradients:
        return backward(*_call(self._problem, dtype), AUTOGRAD)


class PosedGradients(ReferencedProblem):
    """A problem that gives the output's gradient, with its references."""

    problem: Problem

    @cached_property
    def gradients(self) -> GradientReference:
        """What the gradients are compared with."""
        return GradientReference(self.problem)


def _call(problem: Problem, dtype: np.dtype[Any]) -> tuple[HandedOver, Array]:
    """The call in this dtype, and the output's gradient (B,H,T,Dv)."""
    given = dict(problem.given)
    grad = np.asarray(given.pop("grad_output")).astype(dtype)
    if problem.bias is not None:
        given["bias"] = problem.bias.astype(dtype)
    query, key, value = (array.astype(dtype) for array in (problem.query, problem.key, problem.value))
    return HandedOver(query, key, value, **given), grad


@dataclass(frozen=True, slots=True)
class _Kept:
    """What an eager forward pass keeps. key (B,H,S,D): scaled.  bent, weights (B,H,T,S); bent: tanh, with a softcap."""

    key: Array
    bent: Array
    weights: Array


def _eager(taken: Taken) -> Gradients:
    """The gradients that an eager run of the formula in the dtype of the inputs has."""
    kept = _eager_forward(taken)
    products = _store_intermediate(taken.grad @ taken.value.swapaxes(-1, -2), taken)
    delta = (kept.weights * products).sum(axis=-1, keepdims=True)
    scores = _store_intermediate(kept.weights * (products - delta), taken)
    dots = _behind_cap(scores, kept, taken)
    key = _store_intermediate(_store_intermediate(dots.swapaxes(-1, -2) @ taken.query,
                                                  taken) * taken.wide.type(taken.factor), taken)
    value = _store_intermediate(kept.weights.swapaxes(-1, -2) @ taken.grad, taken)
    found = {"query": dots @ kept.key, "key": fold(key, taken.kv_heads), "value": fold(value, taken.kv_heads)}
    return {name: array.astype(taken.call.query.dtype) for name, array in found.items()}


def _eager_forward(taken: Taken) -> _Kept:
    """Logits (B,H,T,S), the same bent by a softcap, and weights, all as they are stored."""
    key = _store_intermediate(taken.key * taken.wide.type(taken.factor), taken)
    logits = bent = _store_intermediate(taken.query @ key.swapaxes(-1, -2), taken)
    if taken.call.softcap is not None:
        cap = taken.wide.type(taken.call.softcap)
        bent = _store_intermediate(np.tanh(_store_intermediate(logits / cap, taken)), taken)
        logits = _store_intermediate(bent * cap, taken)
    added = logits if taken.added is None else _store_intermediate(logits + taken.added, taken)
    hidden = np.where(taken.visible, added, -np.inf).astype(taken.wide)
    return _Kept(key, bent, _store_intermediate(staged.normalise(staged.exponentials(hidden)), taken))


def _behind_cap(scores: Array, kept: _Kept, taken: Taken) -> Array:
    """DS (B,H,T,S) -> dX, each of three steps through a softcap stored."""
    if taken.call.softcap is None:
        return scores
    cap = taken.wide.type(taken.call.softcap)
    return _store_intermediate(_store_intermediate(_store_intermediate(scores * cap, taken) * (1 - kept.bent**2),
                                                   taken) / cap, taken)


def _store_intermediate(array: Array, taken: Taken) -> Array:
    """An intermediate result of any shape, rounded to the dtype of the inputs and held in the wide one."""
    return array.astype(taken.call.query.dtype).astype(taken.wide)
