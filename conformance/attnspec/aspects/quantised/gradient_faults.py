"""These faults of backward passes lose scales and zero points in gradients beside codes.

What comes as codes has no gradient; what attends with them has. The forward passes are right.
"""

from __future__ import annotations

import numpy as np

from attnspec.aspects.quantised.keyword import POOL
from attnspec.aspects.quantised.stage import Change, is_one_for_features
from attnspec.faults import staged as forward
from attnspec.faults.backward import BackwardMethod, BackwardValues, Edits, Reread, as_backward, reread, reread_without
from attnspec.faults.fault import GROUPED, QUERIES, SQUARE, Fault, SoundFormulation, panel_recipe
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import HandedOver
from attnspec.problems.problem import Array


def _backward_fault(name: str, keyword: str, story: str, reach: str, *, read: Reread | None = None,
                    edits: Edits | None = None) -> Fault:
    """A fault of the backward pass beside a sound forward pass, about one keyword."""
    return Fault(f"backward_{name}", keyword, story, reach, staged(), backward=lambda: as_backward(
        edits=edits, reread=read))


def _read_as(known: BackwardValues, array: str, read: Reread) -> Array:
    """The query, key or value (B,H,S,D) of a call that is read in another way; a sink's are 0."""
    work = forward.prepare(read(known.taken.call))
    numbers, whole = getattr(work, array).astype(known.taken.wide), getattr(known.taken, array)
    return np.pad(numbers, [(0, long - short) for long, short in zip(whole.shape, numbers.shape, strict=True)])


def _last_product_with(array: str, read: Reread) -> Edits:
    """The last product of the other gradient is with this array as `read` gives it."""
    if array == "key":
        return {"query_keys": lambda _, known: _read_as(known, "key", read)}
    return {"key_queries": lambda _, known: _read_as(known, "query", read)}


def _change_meaning(keyword: str, change: Change) -> Reread:
    """The backward pass changes the scales or zero points that the forward pass had."""
    def read(call: HandedOver) -> HandedOver:
        numbers = getattr(call, keyword)
        return call if numbers is None else call.but(**{keyword: change(np.asarray(numbers))})
    return read


def _take_first(axis: int) -> Change:
    """The first along an axis serves all; (B,Hkv,S,D) or 1 in the place of each."""
    return lambda scale: scale.take([0], axis)


def _exchange_scales(call: HandedOver) -> HandedOver:
    """All keys have the first scale of the values, and the other way round."""
    if call.key_scale is None or call.value_scale is None:
        return call
    key, value = np.asarray(call.key_scale)[..., :1], np.asarray(call.value_scale)[..., :1]
    return call.but(key_scale=value, value_scale=key)


_ANY = "gradients, {} scales other than 1"
_ZEROS = "gradients, {} zero points by token"

GRADIENT_FAULTS = (
    _backward_fault(
        "key_scale_ignored", "key_scale",
        "The backward pass reads codes of keys without their scale.",
        _ANY.format("key"), read=reread_without("key_scale")),
    _backward_fault(
        "key_scale_left_out", "key_scale",
        "The last product of a query's gradient is with codes, not with keys.",
        _ANY.format("key"), edits=_last_product_with("key", reread_without("key_scale"))),
    _backward_fault(
        "key_scale_twice", "key_scale",
        "The scale is multiplied into dS, and into the keys behind it.",
        _ANY.format("key"), edits=_last_product_with("key", _change_meaning("key_scale", np.square))),
    _backward_fault(
        "key_scale_of_first_token", "key_scale",
        "The scale of the first key serves all in the backward pass.",
        "gradients, key scales by token", read=_change_meaning("key_scale", _take_first(2))),
    _backward_fault(
        "key_scale_of_first_head", "key_scale",
        "The scale of the first head serves all in the backward pass.",
        "gradients, key scales by head, more heads than one", read=_change_meaning("key_scale", _take_first(1))),
    _backward_fault(
        "value_scale_ignored", "value_scale",
        "The backward pass reads codes of values without their scale.",
        _ANY.format("value"), read=reread_without("value_scale")),
    _backward_fault(
        "value_scale_of_first_head", "value_scale",
        "The scale of the first head serves all in the backward pass.",
        "gradients, value scales by head, more heads than one", read=_change_meaning("value_scale", _take_first(1))),
    _backward_fault(
        "scales_exchanged", "value_scale",
        "The backward pass has key and value read by each other's scales.",
        "gradients, key scales other than value scales", read=_exchange_scales),
    _backward_fault(
        "query_scale_ignored", "query_scale",
        "The backward pass reads codes of queries without their scale.",
        _ANY.format("query"), read=reread_without("query_scale")),
    _backward_fault(
        "query_scale_left_out", "query_scale",
        "The last product of a key's gradient is with codes of queries.",
        _ANY.format("query"), edits=_last_product_with("query", reread_without("query_scale"))),
    _backward_fault(
        "key_zero_ignored", "key_zero",
        "The backward pass does not take the zero points of keys off.",
        _ZEROS.format("key"), read=reread_without("key_zero")),
    _backward_fault(
        "key_zero_left_on", "key_zero",
        "The last product of a query's gradient is with keys and their zero point.",
        _ZEROS.format("key"), edits=_last_product_with("key", reread_without("key_zero"))),
    _backward_fault(
        "value_zero_ignored", "value_zero",
        "The backward pass does not take the zero points of values off.",
        _ZEROS.format("value"), read=reread_without("value_zero")),
)


def _scale_columns(known: BackwardValues, keyword: str) -> Array:
    """(B,H,1,S): the scale of each key or value, that of a sink 1."""
    B, H, _, S = known.taken.visible.shape
    shape = (B, known.taken.kv_heads, known.taken.keys, 1)
    scale = np.broadcast_to(np.asarray(getattr(known.taken.call, keyword))[..., :1], shape).astype(known.taken.wide)
    wide = np.repeat(scale, H // shape[1], axis=1).swapaxes(-1, -2)
    return np.pad(wide, [(0, 0), (0, 0), (0, 0), (0, S - shape[2])], constant_values=1)


def _scaled_dots(array: Array, known: BackwardValues) -> Array:
    """DX (B,H,T,S), times the scale of each key where its features share one."""
    if not is_one_for_features(known.taken.call.key_scale):
        return array
    return array * _scale_columns(known, "key_scale")


def _codes_of_keys(array: Array, known: BackwardValues) -> Array:
    """Keys (B,H,S,D) without the scale that is in dX already."""
    if not is_one_for_features(known.taken.call.key_scale):
        return array
    return _read_as(known, "key", reread(key_scale=None))


def _scaled_products(array: Array, known: BackwardValues) -> Array:
    """DP (B,H,T,S) of codes of values, times the scale of each where its features share one."""
    if not is_one_for_features(known.taken.call.value_scale):
        return array
    codes = _read_as(known, "value", reread(value_scale=None))
    codes = np.where(np.isfinite(codes), codes, 0)
    products = (known.taken.grad @ codes.swapaxes(-1, -2)) * _scale_columns(known, "value_scale")
    return products if known.factor is None else products * known.factor


_FOLDED: Edits = {"query_dots": _scaled_dots, "query_keys": _codes_of_keys, "products": _scaled_products}

SOUND_GRADIENTS = (
    SoundFormulation("codes_differentiated", "codes are dequantised first, in both passes", staged(), POOL,
                     backward=as_backward),
    SoundFormulation("scales_folded_back", "codes attend; scales are multiplied into dP and into dS",
                     staged(), POOL, backward=lambda: as_backward(BackwardMethod(block=8), _FOLDED)),
)

GRADIENT_PANEL = tuple(
    panel_recipe(sizes, f"grad_output {features}", seed=180 + at,
                 **dict.fromkeys(features.split(), f"{storage}/{granularity}/odd"))  # type: ignore[arg-type]  # by keyword
    for storage in ("int8", "float8_e4m3fn") for at, granularity in enumerate(("token", "head"))
    for sizes, features in ((GROUPED, "key_scale value_scale"), (SQUARE, "query_scale"), (QUERIES, "value_scale"))
) + tuple(
    panel_recipe(sizes, f"grad_output {array}_scale {array}_zero", seed=190, **{  # type: ignore[arg-type]  # by keyword
        f"{array}_scale": f"{storage}/token/odd", f"{array}_zero": "spread"})
    for storage in ("int8", "uint8") for sizes, array in ((GROUPED, "key"), (QUERIES, "value")))
"""Calls by which a diagnosis tells them apart."""
