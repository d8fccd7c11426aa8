"""How attention that faults change reads codes: zero points are taken off, and scales multiplied in."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.aspects.quantised.arrays import NAMES, ZEROS
from attnspec.faults.aspect_stage import AspectStage
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import INPUTS, Array


class QuantisedStage(AspectStage):
    """Codes as attention reads them: zero points are taken off, and scales multiplied in, before anything else."""

    def restore(self, work: PreparedCall) -> PreparedCall:
        """The call with dequantised query, key and value, and without scales and zero points."""
        if all(getattr(work, keyword) is None for keyword in (*NAMES, *ZEROS)):
            return work
        arrays = {name: scaled(shifted(getattr(work, name), getattr(work, f"{name}_zero")),
                               getattr(work, f"{name}_scale")) for name in INPUTS}
        return work.but(**arrays, **dict.fromkeys((*NAMES, *ZEROS)))


STAGE = QuantisedStage()


def scaled(codes: Array, scale: Array | None) -> Array:
    """Codes (B,H,S,D), in the dtype of the computation, times scales that broadcast to them."""
    return codes if scale is None else codes * np.asarray(scale).astype(codes.dtype)


def shifted(codes: Array, zero: Array | None) -> Array:
    """Codes (B,H,S,D), in the dtype of the computation, less zero points that broadcast to them."""
    return codes if zero is None else codes - np.asarray(zero).astype(codes.dtype)
