"""What the rules of today compare an answer with: the formula in a wider dtype, in the same one, or rounded eagerly."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Any

import numpy as np
from attnspec.core.forms import KEY_COUNTS, TABLE
from attnspec.faults import staged
from attnspec.faults.staged import Stages, attention
from attnspec.faults.staged_forms import LayerCall, run_layer
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall, near_keys, own_keys, wide_dtype
from attnspec.problems.problem import Array, LayerProblem, Problem


class ReferencePart(enum.Enum):
    """Which part of an answer a reference is for."""

    OUTPUT = "output"
    WEIGHTS = "weights"
    AVERAGED_WEIGHTS = "averaged weights"


class ReferencedProblem:
    """A problem with its references, each worked out when a rule first asks for it, and kept for the next subject."""

    def __init__(self, problem: Problem | LayerProblem) -> None:
        self.problem = problem

    @cached_property
    def output(self) -> Reference:
        """What the output is compared with, (B,H,T,Dv), of a layer (B,T,M)."""
        return Reference(self.problem, ReferencePart.OUTPUT)

    @cached_property
    def weights(self) -> Reference:
        """What returned weights are compared with, (B,H,T,S)."""
        return Reference(self.problem, ReferencePart.WEIGHTS)

    @cached_property
    def averaged_weights(self) -> Reference:
        """The same for a layer that returns the mean over its heads, (B,T,S)."""
        return Reference(self.problem, ReferencePart.AVERAGED_WEIGHTS)

    @cached_property
    def has_hidden_rows(self) -> bool:
        """Whether some query sees no key at all."""
        problem, sizes = self.problem, self.problem.sizes
        past = problem.past if isinstance(problem, Problem) else 0
        seen = np.ones((1, 1, sizes.T, sizes.S), bool) if problem.mask is None else problem.mask
        if problem.causal:
            seen = seen & staged.triangle(sizes.T, sizes.S, past)
        seen = seen & near_keys(problem, np.arange(sizes.S) - np.arange(sizes.T)[:, None] - past)
        if KEY_COUNTS in problem.given:
            seen = seen & own_keys(problem, sizes.S)
        return not seen.any(axis=-1).all()


class Reference:
    """One part of an answer by the formula, under the conventions that attnspec recommends.

    The output is (B,H,T,Dv), of a layer (B,T,M); weights are (B,H,T,S), averaged over heads (B,T,S).
    """

    def __init__(self, problem: Problem | LayerProblem, part: ReferencePart) -> None:
        self._problem = problem
        self._part = part

    @property
    def is_capped(self) -> bool:
        """Whether the problem has a softcap."""
        return self._problem.softcap is not None

    @property
    def is_sloped(self) -> bool:
        """Whether the problem has slopes."""
        return self._problem.alibi_slopes is not None

    @cached_property
    def wider(self) -> Array:
        """In the next wider dtype, such as (B,H,T,Dv), unrounded: float32 for the half dtypes, else float64."""
        io = self._problem.query.dtype
        return self.compute_part(np.dtype(np.float32 if io.itemsize == 2 else np.float64), staged.SOUND)

    @cached_property
    def same(self) -> Array:
        """What a library returns in the inputs' dtype, such as (B,H,T,Dv): float32 inside for halves, one rounding."""
        return self.compute_part(self._problem.query.dtype, staged.SOUND)

    @cached_property
    def eager(self) -> Array:
        """Every intermediate result rounded to the inputs' dtype, the key scaled before; such as (B,H,T,Dv)."""
        io = self._problem.query.dtype
        return self.compute_part(io, eager_in(io))

    @cached_property
    def rounded_output(self) -> Array:
        """`wider`, such as (B,H,T,Dv), rounded to the dtype of the inputs, and from there exactly in float64."""
        return self.wider.astype(self._problem.query.dtype).astype(np.float64)

    @cached_property
    def eager_error(self) -> float:
        """The largest distance of `eager` from `rounded`."""
        return float(np.abs(self.eager.astype(np.float64) - self.rounded_output).max())

    @cached_property
    def noise(self) -> float:
        """The most that an entry of `rounded` moves when 0.3 is added and taken away again, in the inputs' dtype."""
        io = self._problem.query.dtype
        there = (self.rounded_output.astype(np.float32) + np.float32(0.3)).astype(io)
        back = (there.astype(np.float32) - np.float32(0.3)).astype(io)
        return float(np.abs(back.astype(np.float64) - self.rounded_output).max())

    def compute_part(self, dtype: np.dtype[Any], stages: Stages) -> Array:
        """By these stages, of arrays in this dtype: output (B,H,T,Dv), of a layer (B,T,M); weights (B,H,T,S), averaged
        (B,T,S).
        """
        problem = self._problem
        both = _layer(problem, dtype) if isinstance(problem, LayerProblem) else attention(_call(problem, dtype), stages)
        assert isinstance(both, tuple)  # it was asked for the pair
        output, weights = both
        if self._part is ReferencePart.AVERAGED_WEIGHTS:
            return _average_heads(weights)
        return output if self._part is ReferencePart.OUTPUT else weights


def _average_heads(weights: Array) -> Array:
    """(B,H,T,S) -> (B,T,S): the mean over heads, worked out in the wide dtype."""
    averaged: Array = weights.astype(wide_dtype(weights.dtype)).mean(axis=1).astype(weights.dtype)
    return averaged


def _call(problem: Problem, dtype: np.dtype[Any]) -> HandedOver:
    query, key, value, bias = _arrays_in(problem, dtype)
    given = {name: each for name, each in problem.given.items() if name != TABLE}  # its keys are in no pages yet
    return HandedOver(query, key, value, **{**given, "bias": bias, "return_weights": True})


def _layer(problem: LayerProblem, dtype: np.dtype[Any]) -> Answer:
    query, key, value, bias = _arrays_in(problem, dtype)
    params = {name: array.astype(dtype) for name, array in problem.params.items()}
    keywords = {**problem.given, "bias": bias, "return_weights": True}
    return run_layer(LayerCall(query, key, value, params, problem.heads, **keywords))


def _arrays_in(problem: Problem | LayerProblem, dtype: np.dtype[Any]) -> tuple[Array, Array, Array, Array | None]:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), all (B,·,M) for a layer, and bias in this dtype."""
    bias = None if problem.bias is None else problem.bias.astype(dtype)
    return problem.query.astype(dtype), problem.key.astype(dtype), problem.value.astype(dtype), bias


def eager_in(io: np.dtype[Any]) -> Stages:
    """Stages that round each intermediate result to `io` and go on in the wide dtype."""
    def stored(array: Array) -> Array:
        """An intermediate result, such as logits (B,H,T,S), rounded to `io` and held in its own dtype."""
        rounded: Array = array.astype(io).astype(array.dtype)
        return rounded

    def logits(work: PreparedCall, factor: float) -> Array:
        """Logits (B,H,T,S) with the scaled key and the products each rounded."""
        key = stored(work.key * work.key.dtype.type(factor))
        return stored(work.query @ key.swapaxes(-1, -2))

    def capped(dots: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S), divided by the softcap, bent and multiplied again, each rounded."""
        if work.softcap is None:
            return dots
        softcap = dots.dtype.type(work.softcap)
        return stored(stored(np.tanh(stored(dots / softcap))) * softcap)

    return Stages(logits=logits, bend=capped, add_bias=lambda dots, work: stored(staged.add_bias(dots, work)),
                  softmax=lambda hidden, work: stored(staged.softmax(hidden, work)))
