"""How attention that faults change reads codes: zero points are taken off, and scales multiplied in."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.aspects.quantised.arrays import GLOBALS, NAMES, ZEROS
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import INPUTS, Array


class QuantisedStage(AspectStage):
    """Codes as attention reads them: zero points are taken off, and scales multiplied in, before anything else."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """The call with dequantised query, key and value, and without scales and zero points."""
        every = (*NAMES, *ZEROS, *GLOBALS)
        if all(getattr(work, keyword) is None for keyword in every):
            return work
        arrays = {}
        for name in INPUTS:
            numbers = shifted(getattr(work, name), getattr(work, f"{name}_zero"))
            for keyword in (f"{name}_scale", f"{name}_global_scale"):
                numbers = scaled(numbers, getattr(work, keyword))
            arrays[name] = numbers
        return work.but(**arrays, **dict.fromkeys(every))


STAGE = QuantisedStage()


def scaled(codes: Array, scale: Array | None) -> Array:
    """Codes (B,H,S,D), in the dtype of the computation, times scales that broadcast to them."""
    return codes if scale is None else codes * np.asarray(scale).astype(codes.dtype)


def shifted(codes: Array, zero: Array | None) -> Array:
    """Codes (B,H,S,D), in the dtype of the computation, less zero points that broadcast to them."""
    return codes if zero is None else codes - np.asarray(zero).astype(codes.dtype)
