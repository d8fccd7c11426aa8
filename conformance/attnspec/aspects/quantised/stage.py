"""How attention that faults change reads codes: zero points are taken off, and scales multiplied in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.aspects.quantised.arrays import EVERY, GLOBALS, NAMES, ZEROS
from attnspec.faults import staged as sound
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import INPUTS, Array

Restore = Callable[[PreparedCall], PreparedCall]


class QuantisedStage(AspectStage):
    """Codes as attention reads them: zero points are taken off, and scales multiplied in, before anything else."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """The call with dequantised query, key and value, and without scales and zero points."""
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
    """Codes (B,H,S,D), in the dtype of the computation, times scales that broadcast to them."""
    return codes if scale is None else codes * np.asarray(scale).astype(codes.dtype)


def is_one_for_features(scale: Array | None) -> bool:
    """Whether a scale (B,Hkv,S,D), or 1 in the place of each, is one for all features of a token."""
    return scale is not None and bool((np.asarray(scale) == np.asarray(scale)[..., :1]).all())


def shift_codes(codes: Array, zero: Array | None) -> Array:
    """Codes (B,H,S,D), in the dtype of the computation, less zero points that broadcast to them."""
    return codes if zero is None else codes - np.asarray(zero).astype(codes.dtype)


def read_changed(change: Callable[[Array], Array], *keywords: str) -> Restore:
    """A `restore` stage that reads other scales or zero points than it was given, by keyword; all have the four axes of
    their array.
    """
    def restore(work: PreparedCall) -> PreparedCall:
        """The call, dequantised by what was changed (B,H,S,D)."""
        given = {keyword: value for keyword in keywords if (value := getattr(work, keyword)) is not None}
        changed = {keyword: change(np.broadcast_to(value, getattr(work, EVERY[keyword]).shape))
                   for keyword, value in given.items()}
        return sound.restore(work.but(**changed))
    return restore


def keep_stale(keyword: str) -> Callable[[], Attend]:
    """A maker of functions that keep the scales or zero points of the call before wherever they fit."""
    def make() -> Attend:
        kept: dict[str, Array] = {}

        def restore(work: PreparedCall) -> PreparedCall:
            """The call, dequantised by those (B,H,S,D) of the call before."""
            value = getattr(work, keyword)
            if value is None:
                return sound.restore(work)
            before = kept.get(keyword)
            kept[keyword] = np.array(value)
            used = before if before is not None and before.shape == np.shape(value) else value
            return sound.restore(work.but(**{keyword: used}))

        return staged(restore=restore)()
    return make
