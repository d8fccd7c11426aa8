"""Declares every convention undefined, and its output's format too, and computes nothing.

Convicted by: attention.definition, violated.
"""

from __future__ import annotations

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array) -> Array:
    return zeros(query, value)


NAMES = ("hidden_row", "causal_alignment", "mask_with_causal", "grouped_heads")
attend.conventions = dict.fromkeys(NAMES, "undefined")  # type: ignore[attr-defined]  # how a function declares it
attend.output_dtype = "undefined"  # type: ignore[attr-defined]  # see above
