"""Faults that remember: caches with too short a key, buffers that are used again, calls that are counted.

Each `make` returns a function with a memory of its own, so loading a fault anew resets it, and all is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import Attend, Stages, as_attend, attention
from attnspec.faults.work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array


def _signature(call: HandedOver) -> Hashable:
    """What a compiled graph is keyed by: shapes and dtypes, not contents."""
    arrays = (call.query, call.key, call.value, call.mask, call.bias)
    shapes = (None if array is None else (array.shape, str(array.dtype)) for array in arrays)
    return (*shapes, call.causal, call.return_weights)


@dataclass(slots=True)
class Remembered:
    """Answers, or one argument of a call, remembered by shape: the first one of each shape is used for all."""

    argument: str = ""
    kept: dict[Hashable, Any] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer to this call, with what is remembered in the place of what was given."""
        if not self.argument:
            return self._answer(call)
        given = getattr(call, self.argument)
        if given is None:
            return attention(call)
        kept = self.kept.setdefault(_signature(call), np.array(given) if isinstance(given, np.ndarray) else given)
        return attention(call.but(**{self.argument: kept}))

    def _answer(self, call: HandedOver) -> Answer:
        place = _signature(call)
        if place not in self.kept:
            self.kept[place] = attention(call)
        kept = self.kept[place]
        return (kept[0].copy(), kept[1].copy()) if call.return_weights else kept.copy()


@dataclass(slots=True)
class AtSomeCalls:
    """Something happens at some calls only: `change` sees the sound answer and the number of the call, from 1."""

    change: Callable[[Array, int], Array]
    count: int = 0

    def __call__(self, call: HandedOver) -> Answer:
        """The answer to this call, changed according to its number."""
        self.count += 1
        answer = attention(call)
        if isinstance(answer, tuple):
            return self.change(answer[0], self.count), answer[1]
        return self.change(answer, self.count)


@dataclass(slots=True)
class Buffered:
    """One output buffer for each shape, handed out again and again: the next call overwrites what was returned."""

    kept: dict[Hashable, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer, in the buffer of its shape."""
        answer = attention(call)
        output = answer[0] if isinstance(answer, tuple) else answer
        buffer = self.kept.setdefault((output.shape, str(output.dtype)), np.empty_like(output))
        buffer[...] = output
        return (buffer, answer[1]) if isinstance(answer, tuple) else buffer


@dataclass(slots=True)
class Accumulating:
    """The buffer is added to and never cleared."""

    kept: dict[Hashable, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer plus all earlier ones of its shape."""
        answer = attention(call)
        output = answer[0] if isinstance(answer, tuple) else answer
        place = (output.shape, str(output.dtype))
        self.kept[place] = self.kept[place] + output if place in self.kept else output
        total = self.kept[place].copy()
        return (total, answer[1]) if isinstance(answer, tuple) else total


@dataclass(slots=True)
class TriangleCache:
    """The causal mask is made once for each T, with the S of that day; later the last S columns are taken."""

    kept: dict[int, Array] = field(default_factory=dict)

    def __call__(self, call: HandedOver) -> Answer:
        """The answer with a triangle from the cache, cut or filled up on the left."""
        return attention(call, Stages(past=self._past))

    def _past(self, work: PreparedCall) -> Array:
        """What the causal flag allows, (T,S): the cached triangle, cut or filled up with True on the left."""
        _, _, T, S = work.shape
        if not work.causal:
            return sound.past(work)
        kept = self.kept.setdefault(T, sound.triangle(T, S))[:, -S:]
        return np.pad(kept, [(0, 0), (S - kept.shape[1], 0)], constant_values=True)


@dataclass(slots=True)
class Randomised:
    """Dropout whose generator runs on from call to call."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, call: HandedOver) -> Answer:
        """The answer with one weight in a hundred dropped."""
        return attention(call, Stages(weigh=self._weigh))

    def _weigh(self, weights: Array, work: PreparedCall) -> Array:  # noqa: ARG002  (the stage's signature)
        """Weights (B,H,T,S) with one in a hundred dropped and the others scaled up."""
        return np.where(self.random.random(weights.shape) >= 0.01, weights / 0.99, 0).astype(weights.dtype)


@dataclass(slots=True)
class LastShape:
    """Rows beyond the first one come from the previous call if that had the same shape (a slot overwritten late)."""

    before: Array | None = None

    def __call__(self, call: HandedOver) -> Answer:
        """The answer, its last row from the call before."""
        answer = attention(call)
        output = answer[0] if isinstance(answer, tuple) else answer
        stale, self.before = self.before, output.copy()
        if stale is not None and stale.shape == output.shape and stale.dtype == output.dtype:
            output[:, :, -1] = stale[:, :, -1]
        return answer


def _remembering(make: Callable[[], Callable[[HandedOver], Answer]]) -> Callable[[], Attend]:
    return lambda: as_attend(make())


def _every(period: int) -> Callable[[Array, int], Array]:
    """A change of the output (B,H,T,Dv) to zeros at every `period`-th call."""
    return lambda output, number: np.zeros_like(output) if number % period == 0 else output


def _from_second(output: Array, number: int) -> Array:
    """The output (B,H,T,Dv), halved from the second call on."""
    return output if number == 1 else output * output.dtype.type(0.5)


def _first_call(output: Array, number: int) -> Array:
    """The output (B,H,T,Dv), zeros at the first call."""
    return np.zeros_like(output) if number == 1 else output


_TWICE = "two calls with equal shapes and different contents"
_GRAPH = "https://github.com/pytorch/pytorch/pull/184122"

FAULTS = (
    Fault("stale_output", Stage.STATE, "The output is cached by shape, so later calls get an old one.",
          _TWICE, _remembering(Remembered), link=_GRAPH),
    Fault("stale_key", Stage.STATE, "The key is cached by shape, so later calls use an old one.", _TWICE,
          _remembering(lambda: Remembered("key"))),
    Fault("stale_value", Stage.STATE, "The value is cached by shape, so later calls use an old one.", _TWICE,
          _remembering(lambda: Remembered("value"))),
    Fault("stale_mask", Stage.STATE, "The mask is cached by shape, so later calls use an old one.",
          f"{_TWICE}, the masks differ",
          _remembering(lambda: Remembered("mask"))),
    Fault("stale_bias", Stage.STATE, "The bias is cached by shape, so later calls use an old one.",
          f"{_TWICE}, the biases differ",
          _remembering(lambda: Remembered("bias"))),
    Fault("stale_scale", Stage.STATE, "The scale is cached by shape, so later calls use an old one.",
          "two calls with equal shapes and different scales", _remembering(lambda: Remembered("scale")), link=_GRAPH),
    Fault("stale_triangle", Stage.STATE, "The causal mask is cached by T alone.",
          "two causal calls with equal T and different S", _remembering(TriangleCache)),
    Fault("stale_last_row", Stage.STATE, "The last row is written after the answer has been returned.", _TWICE,
          _remembering(LastShape)),
    Fault("every_seventh_call_wrong", Stage.STATE, "The output is wrong now and then (a race).", "seven calls",
          _remembering(lambda: AtSomeCalls(_every(7)))),
    Fault("first_call_wrong", Stage.STATE, "The first call returns memory that was never written.", "the first call",
          _remembering(lambda: AtSomeCalls(_first_call))),
    Fault("later_calls_halved", Stage.STATE, "From the second call on the output is halved (a running average).",
          "a second call",
          _remembering(lambda: AtSomeCalls(_from_second))),
    Fault("output_buffer_reused", Stage.STATE, "One output buffer for each shape is returned again and again.",
          f"{_TWICE}; the first answer changes", _remembering(Buffered),
          link="https://github.com/ScalingIntelligence/KernelBench/pull/82"),
    Fault("output_accumulated", Stage.STATE,
          "The outputs of all earlier calls are added to the output (beta=1 in the matrix product).",
          "two calls with outputs of equal shape",
          _remembering(Accumulating)),
    Fault("dropout_random", Stage.STATE, "Dropout stays on in evaluation.", "any input",
          _remembering(Randomised), link="https://github.com/huggingface/pytorch-image-models/pull/1978"),
)
