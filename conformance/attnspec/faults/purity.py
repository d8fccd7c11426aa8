"""Inputs written to, outputs that are inputs, and memory read in the wrong layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import around, attention
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Array

_LAYOUT = "that is not contiguous"


def _scales_query(call: HandedOver) -> Answer:
    """Query *= scale, in place."""
    factor = sound.scale(sound.take(call))
    call.query[...] = (call.query.astype(np.float64) * factor).astype(call.query.dtype)
    return attention(call.but(scale=1.0))


def _restores_query(call: HandedOver) -> Answer:
    """The query is scaled in place and scaled back: bits are lost where the scale is no power of two."""
    answer = attention(call)
    factor = sound.scale(sound.take(call)) or 1.0
    scaled = (call.query.astype(np.float64) * factor).astype(call.query.dtype)
    call.query[...] = (scaled.astype(np.float64) / factor).astype(call.query.dtype)
    return answer


def _writes(name: str, make: Callable[[HandedOver], Array]) -> Callable[[HandedOver], Answer]:
    """The answer is right; one input, such as key (B,Hkv,S,D), holds something else afterwards."""
    def answer(call: HandedOver) -> Answer:
        right = attention(call)
        array = getattr(call, name)
        if array is not None and array.flags.writeable:
            array[...] = make(call).astype(array.dtype)
        return right
    return answer


def _hidden_zeroed(call: HandedOver) -> Array:
    """Values (B,Hkv,S,Dv); where Hkv = H, those that no query of the head may see are cleared."""
    if call.mask is None or call.value.shape[1] != call.query.shape[1]:
        return call.value
    shape = (*call.query.shape[:3], call.key.shape[2])
    seen = np.asarray(np.broadcast_to(call.mask, shape).any(axis=2))
    return np.where(seen[..., None], call.value, 0)


def _lowered(call: HandedOver) -> Array:
    """The caller's bias (…,T,S) with the causal triangle written into it."""
    assert call.bias is not None
    T, S = call.bias.shape[-2:]
    return np.where(sound.triangle(T, S), call.bias, np.asarray(-np.inf, call.bias.dtype))


def _narrowed(call: HandedOver) -> Array:
    """The caller's mask (…,T,S), True only within the causal triangle."""
    assert call.mask is not None
    T, S = call.mask.shape[-2:]
    return call.mask & sound.triangle(T, S)


def _value_returned(call: HandedOver) -> Answer:
    """With one visible key and equal shapes the value itself is returned, not a copy."""
    answer = attention(call)
    output = answer[0] if isinstance(answer, tuple) else answer
    if output.shape != call.value.shape or not np.array_equal(output, call.value):
        return answer
    return (call.value, answer[1]) if isinstance(answer, tuple) else call.value


def _into_query(call: HandedOver) -> Answer:
    """The output is written over the query where the shapes agree."""
    answer = attention(call)
    output = answer[0] if isinstance(answer, tuple) else answer
    if output.shape != call.query.shape or not call.query.flags.writeable:
        return answer
    call.query[...] = output
    return (call.query, answer[1]) if isinstance(answer, tuple) else call.query


def misread(array: Array) -> Array:
    """An input, such as (B,Hkv,S,D), read on from its lowest address as if contiguous, never beyond its last entry."""
    if array.flags.c_contiguous:
        return array
    upward = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in array.strides)]
    reach = sum((length - 1) * step for length, step in zip(upward.shape, upward.strides, strict=True))
    memory = np.lib.stride_tricks.as_strided(upward, (reach // array.itemsize + 1,), (array.itemsize,))
    return np.resize(memory, array.shape)


def _last_axis_misread(array: Array) -> Array:
    """An input, such as (B,Hkv,S,D): all strides are honoured but the last, which is taken to be one entry."""
    return array if array.strides[-1] == array.itemsize or array.shape[-1] < 2 else misread(array)


def _misreading(*names: str, read: Callable[[Array], Array] = misread) -> Callable[[HandedOver], Answer]:
    """Attention that misreads the inputs of these names, such as query (B,H,T,D), with `read`."""
    def answer(call: HandedOver) -> Answer:
        given = {name: getattr(call, name) for name in names}
        return attention(call.but(**{name: read(array) for name, array in given.items() if array is not None}))
    return answer


def _all_misread_with_mask(call: HandedOver) -> Answer:
    return _misreading("query", "key", "value")(call) if call.mask is not None else attention(call)


FAULTS = (
    Fault("query_scaled_in_place", Stage.PURITY, "query *= scale.", "any scale other than 1", around(_scales_query)),
    Fault("query_scaled_and_back", Stage.PURITY, "The query is scaled in place, and scaled back.",
          "a scale that is no power of two", around(_restores_query)),
    Fault("query_holds_output", Stage.PURITY, "The output is written into the query's memory.", "Dv = D",
          around(_into_query)),
    Fault("key_cleared", Stage.PURITY, "The key is overwritten: its memory is used as a scratch buffer.", "any input",
          around(_writes("key", lambda call: np.zeros_like(call.key)))),
    Fault("value_cleared_where_hidden", Stage.PURITY, "Masked values are set to zero in the caller's array.",
          "a mask that masks a key for all queries, Hkv = H", around(_writes("value", _hidden_zeroed))),
    Fault("mask_inverted_in_place", Stage.PURITY, "The caller's mask is inverted in place.", "a mask",
          around(_writes("mask", lambda call: ~np.asarray(call.mask)))),
    Fault("mask_holds_triangle", Stage.PURITY, "The causal mask is written into the caller's mask.",
          "a mask that shows a later key", around(_writes("mask", _narrowed))),
    Fault("bias_holds_triangle", Stage.PURITY, "The causal mask is written into the caller's bias.", "a bias, S > 1",
          around(_writes("bias", _lowered))),
    Fault("value_returned_itself", Stage.PURITY, "For a single key the caller's value is returned, not a copy.",
          "S = T = 1 and Hkv = H, no mask that masks it", around(_value_returned)),
    Fault("layout_of_query", Stage.LAYOUT, "The query's strides are ignored.", f"a query {_LAYOUT}",
          around(_misreading("query")), link="https://github.com/pytorch/pytorch/issues/181133"),
    Fault("layout_of_key", Stage.LAYOUT, "The key's strides are ignored.", f"a key {_LAYOUT}",
          around(_misreading("key")),
          link="https://github.com/torch-spyre/torch-spyre/issues/4331"),
    Fault("layout_of_value", Stage.LAYOUT, "The value's strides are ignored.", f"a value {_LAYOUT}",
          around(_misreading("value")),
          link="https://github.com/ROCm/pytorch/issues/3230"),
    Fault("layout_of_mask", Stage.LAYOUT, "The mask's strides are ignored.", f"a mask {_LAYOUT}",
          around(_misreading("mask")), link="https://github.com/pytorch/pytorch/issues/191937"),
    Fault("layout_of_bias", Stage.LAYOUT, "The bias's strides are ignored.", f"a bias {_LAYOUT}",
          around(_misreading("bias"))),
    Fault("layout_last_axis", Stage.LAYOUT, "The last axis is assumed to have stride 1, as BLAS requires.",
          "an input whose last axis is strided", around(_misreading("query", "key", "value", read=_last_axis_misread)),
          link="https://github.com/pytorch/pytorch/pull/187506"),
    Fault("layout_with_mask", Stage.LAYOUT, "The masked kernel ignores strides, the other one honours them.",
          "a mask, and inputs that are not contiguous", around(_all_misread_with_mask),
          link="https://github.com/pytorch/pytorch/issues/112577"),
)
