"""How large an error may be that is the same everywhere: what a precision class vouches for."""

from __future__ import annotations

import math

from attnspec.numerics.precision import Precision, unit

UNITS_OF_THE_ACCUMULATOR = 8
"""Roundings that every entry of an answer may share: the scale 4 (root and reciprocal, of a scale split in two), the
constants log2(e) and ln(2) of the exponential 1 each, and what its polynomial is off by on average 2 (1 ulp)."""

GUARDED = 1 / 16
"""Of a unit of the output: what truncation adds on average if four bits beyond the output's are kept."""


def systematic_error(precision: Precision, *, scale_width: int | None = None) -> float:
    """How large a relative error may be that is the same everywhere: what a subject of this class vouches for.

    Some units of the coarsest of what sums, exponentials and quotients are computed in; where the class does not vouch
    for that, besides it, a sixteenth of a unit of the output. Rounding to nearest adds u² a storage: numbers just above
    a power of two are rounded more coarsely than those below, which leaves -u²/5 on average.
    scale_width: what the default scale is the root of, for errors of the temperature: a constant that is stored more
    coarsely than all else is off by its roundings, unless its root and fourth root are powers of two.
    """
    working = max(unit(getattr(precision, word)).roundoff for word in ("accumulate", "softmax", "row_sum"))
    stored = max(unit(getattr(precision, word)).roundoff for word in ("output", "weights", "logits", "prescale"))
    error = UNITS_OF_THE_ACCUMULATOR * working + stored**2
    if precision.systematic == "output":
        error += GUARDED * unit(precision.output).roundoff
    constant = unit(precision.scale).roundoff
    if scale_width is not None and constant > working and math.log(scale_width, 16) % 1:
        error += precision.scale_roundings * constant
    return error
