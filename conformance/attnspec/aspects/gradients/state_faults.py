"""Backward passes that remember, overwrite what they are handed, or return gradients otherwise than they are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.core.keyword import GRAD
from attnspec.faults.backward import AttendBackward, BackwardMethod, as_backward
from attnspec.faults.fault import Fault
from attnspec.faults.staged import SOUND, Attend, as_attend, attention, staged
from attnspec.faults.state import misread
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Change = Callable[[Mapping[str, Array], Mapping[str, Array]], Mapping[str, Array]]
_ANY = "gradients"


def _changed(change: Change) -> Callable[[], AttendBackward]:
    """A maker of backward passes whose results are changed by a function of the results and the inputs."""
    def make() -> AttendBackward:
        """A fresh one."""
        sound = as_backward(BackwardMethod())

        def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                            **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
            """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
            found = sound(query, key, value, grad_output, **keywords)
            return change(found, {"query": query, "key": key, "value": value, "grad_output": grad_output})

        return attend_backward
    return make


def _accumulating() -> AttendBackward:
    """One that adds to the buffers of the call before, where the shapes are the same."""
    sound, before = as_backward(BackwardMethod()), dict[str, Array]()

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
        found = dict(sound(query, key, value, grad_output, **keywords))
        old = before.get("query")
        before["query"] = found["query"].copy()
        if old is not None and old.shape == found["query"].shape and old.dtype == found["query"].dtype:
            found["query"] = found["query"] + old
        return found

    return attend_backward


def _misreading(read: Callable[[Array], Array]) -> Callable[[], AttendBackward]:
    """A maker of backward passes that misread the output's gradient."""
    def make() -> AttendBackward:
        """A fresh one."""
        sound = as_backward(BackwardMethod())

        def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                            **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
            """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
            return sound(query, key, value, read(grad_output), **keywords)

        return attend_backward
    return make


def _once(array: Array) -> Array:
    """(B,H,T,Dv): of one that is expanded, the one number in memory, and zeros for what lies beyond."""
    if all(stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True)):
        return array
    return np.where(np.arange(array.size).reshape(array.shape) == 0, array, 0).astype(array.dtype)


_TRAINING = [False]
"""Whether the function is left in training mode. A fresh forward pass is not."""


def _in_training() -> Attend:
    """A forward pass that drops weights once there was a backward pass."""
    _TRAINING[0] = False
    return as_attend(lambda call: attention(call, replace(SOUND, weigh=_dropped) if _TRAINING[0] else SOUND))


def _dropped(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (a stage's signature)
    """(B,H,T,S): every tenth weight is dropped, the others grow."""
    kept = np.arange(weights.size).reshape(weights.shape) % 10 != 0
    return np.asarray(weights * kept / weights.dtype.type(0.9))


def _switching() -> AttendBackward:
    """One that leaves the function in training mode."""
    sound = as_backward(BackwardMethod())

    def attend_backward(query: Array, key: Array, value: Array, grad_output: Array,
                        **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv), grad_output (B,H,T,Dv) -> gradients by name."""
        _TRAINING[0] = True
        return sound(query, key, value, grad_output, **keywords)

    return attend_backward


def _overwriting(found: Mapping[str, Array], given: Mapping[str, Array]) -> Mapping[str, Array]:
    """The output's gradient (B,H,T,Dv) is scaled in place."""
    given["grad_output"][...] = given["grad_output"] * 2
    return found


def _fault(name: str, story: str, make: Callable[[], AttendBackward], reach: str = _ANY, link: str = "") -> Fault:
    return Fault(f"grad_{name}", GRAD, story, reach, staged(), link, backward=make)


_MOST = 2.0
"""The largest entry of a gradient that is clipped."""


def _per_entry(found: Mapping[str, Array], given: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gradients of any shape; of the output's (B,H,T,Dv) each entry of the batch counts that has one."""
    counted = max(1, int(given["grad_output"].any(axis=(1, 2, 3)).sum()))
    return {name: (array / array.dtype.type(counted)).astype(array.dtype) for name, array in found.items()}


FAULTS = (
    _fault("accumulates", "The query's gradient is added to a buffer that is not cleared.", _accumulating,
           "a second call of the same shapes"),
    _fault("ignores_strides", "The output's gradient is read by the strides of the output.", _misreading(misread),
           "an output's gradient that is not contiguous", "https://github.com/ROCm/aotriton/issues/236"),
    _fault("expanded_once", "Of an output's gradient at stride 0, memory beyond its one number is read.",
           _misreading(_once), "an output's gradient that is expanded"),
    Fault("grad_switches_to_training", GRAD, "A backward pass leaves the function in training mode.",
          "a call after a backward pass", _in_training, backward=_switching),
    _fault("overwrites", "The output's gradient is scaled in place.", _changed(_overwriting)),
    _fault("in_float32", "Gradients come back in the dtype of the accumulators.",
           _changed(lambda found, _: {name: array.astype(np.float64 if array.dtype == np.float32 else np.float32)
                                      for name, array in found.items()})),
    _fault("key_for_value", "The gradients of key and value are returned in the wrong order.",
           _changed(lambda found, _: {**found, "key": found["value"], "value": found["key"]}
                    if found["key"].shape == found["value"].shape else found), "Dv = D"),
    _fault("batch_mean", "Gradients are divided by the number of entries of the batch that have one.",
           _changed(_per_entry), "a batch of several entries"),
    _fault("clipped", "Gradients are clipped, before a loss scale is taken out again.",
           _changed(lambda found, _: {name: np.clip(array, -_MOST, _MOST) for name, array in found.items()}),
           "gradients beyond ±2"),
    _fault("query_aliases", "The query's gradient is written over the query.",
           _changed(lambda found, given: {**found, "query": _fill_buffer(given["query"], found["query"])})),
)


def _fill_buffer(buffer: Array, array: Array) -> Array:
    """(B,H,T,D): the buffer, holding the array."""
    buffer[...] = array
    return buffer
