"""Attention that faults change subtracts zero points of codes, and multiplies scales in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.aspects.quantised.arrays import EVERY, GLOBALS, NAMES, ZEROS
from attnspec.faults import staged as sound
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import INPUTS, Array

Change = Callable[[Array], Array]
Restore = Callable[[PreparedCall], PreparedCall]


class QuantisedStage(AspectStage):
    """Subtracts zero points from codes, and multiplies scales in, before anything else."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """Dequantise query, key and value, and leave scales and zero points out of the call."""
        every = (*NAMES, *ZEROS, *GLOBALS)
        if all(getattr(work, keyword) is None for keyword in every):
            return work
        arrays = {}
        for name in INPUTS:
            numbers = shift_codes(getattr(work, name), getattr(work, f"{name}_zero"))
            for keyword in (f"{name}_scale", f"{name}_global_scale"):
                numbers = scale_codes(numbers, getattr(work, keyword))
            arrays[name] = numbers
        return work.but(**arrays, **dict.fromkeys(every))


STAGE = QuantisedStage()


def scale_codes(codes: Array, scale: Array | None) -> Array:
    """Multiply codes (B,H,S,D) by scales that broadcast to them, in the codes' dtype."""
    return codes if scale is None else codes * np.asarray(scale).astype(codes.dtype)


def scale_columns(scale: Array, work: PreparedCall, dtype: np.dtype[Any]) -> Array:
    """Return one scale for each key (B,H,1,S), of scales that broadcast to (B,Hkv,S,1)."""
    B, H, _, S = work.shape
    heads = scale.shape[1]
    columns = np.broadcast_to(scale[..., 0], (B, heads, S))
    return np.repeat(columns, H // heads, axis=1)[:, :, None].astype(dtype)


def is_one_for_features(scale: Array | None) -> bool:
    """Whether all features of a token share one scale, (B,Hkv,S,D) or 1 in the place of each."""
    return scale is not None and bool((np.asarray(scale) == np.asarray(scale)[..., :1]).all())


def shift_codes(codes: Array, zero: Array | None) -> Array:
    """Subtract zero points that broadcast to codes (B,H,S,D), in the dtype of the computation."""
    return codes if zero is None else codes - np.asarray(zero).astype(codes.dtype)


def read_changed(change: Change, *keywords: str) -> Restore:
    """A `restore` stage that changes the scales or zero points of these keywords, at the full
    shape (B,H,S,D) of their array.
    """
    def restore(work: PreparedCall) -> PreparedCall:
        for keyword in keywords:
            value = getattr(work, keyword)
            if value is not None:
                work = work.but(**{keyword: change(np.broadcast_to(value, getattr(work, EVERY[keyword]).shape))})
        return sound.restore(work)
    return restore


def read_changed_codes(change: Change, *keywords: str) -> Restore:
    """A `restore` stage that changes the codes (B,H,S,D) which these keywords are about."""
    def restore(work: PreparedCall) -> PreparedCall:
        for keyword in keywords:
            codes = getattr(work, EVERY[keyword])
            if getattr(work, keyword) is not None:
                work = work.but(**{EVERY[keyword]: change(codes).astype(codes.dtype)})
        return sound.restore(work)
    return restore


def drop_if(condition: Callable[[PreparedCall], bool], *keywords: str) -> Restore:
    """A `restore` stage that ignores some keywords where a condition holds."""
    dropped = dict.fromkeys(keywords)
    return lambda work: sound.restore(work.but(**dropped) if condition(work) else work)


def has_one_query(work: PreparedCall) -> bool:
    """Whether a call has a single query, as a step of decoding has."""
    return work.shape[2] == 1


def take_first(axis: int) -> Change:
    """A change by which the first scale or zero point along an axis of (B,H,S,D) serves all."""
    return lambda numbers: np.broadcast_to(numbers.take([0], axis), numbers.shape)


def take_before(axis: int) -> Change:
    """A change by which each entry has the number of the one before along an axis of (B,H,S,D)."""
    return lambda numbers: np.roll(numbers, 1, axis)


def leave_tail(number: float) -> Change:
    """A change by which tokens of (B,H,S,D) that fill no block of four have this number."""
    def change(numbers: Array) -> Array:
        S = numbers.shape[2]
        is_tail = (np.arange(S) >= S // 4 * 4)[:, None]
        return np.where(is_tail, numbers.dtype.type(number), numbers)
    return change


def look_up_transposed(scale: Array, *_: object) -> Array:
    """Exchange token and feature where a scale (B,H,S,D) is looked up."""
    S, D = scale.shape[2:]
    tokens, features = np.arange(S)[:, None], np.arange(D)[None, :]
    return scale[:, :, features % S, tokens % D]


def repeat_to(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Bring scales of another array (B,H,S,D) to this shape, repeated where they are too few."""
    for axis, length in enumerate(shape):
        numbers = np.take(numbers, np.arange(length) % numbers.shape[axis], axis=axis)
    return numbers


def keep_stale(keyword: str) -> Callable[[], Attend]:
    """A maker of functions that use scales or zero points of the call before if they fit."""
    def make() -> Attend:
        last: list[Array] = []

        def restore(work: PreparedCall) -> PreparedCall:
            value = getattr(work, keyword)
            if value is None:
                return sound.restore(work)
            before, last[:] = last[:], [np.array(value)]
            if before and before[0].shape == np.shape(value):
                value = before[0]
            return sound.restore(work.but(**{keyword: value}))

        return staged(restore=restore)()
    return make
