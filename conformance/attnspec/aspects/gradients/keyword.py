"""The keyword `grad_output`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.keyword import (
    GRAD,
    GRADIENTS_POOL,
    GRADIENTS_PROFILE,
    Acts,
    GradPattern,
    Keyword,
    make_pattern_values,
)

GRAD_PATTERNS: Mapping[GradPattern, str] = {
    "normal": "independent N(0,1), rounded to the dtype",
    "of_rows": "the same, each query's times a power of two of its own, from 1/64 to 64",
    "integers": "whole numbers between -2 and 2: exact in every format",
    "one_row": "one query of each head has a gradient, the others have zeros",
    "of_one_sign": "between 1/2 and 1: partial sums grow",
    "one_large": "1/64 for all queries, and 64 for the first one of each head: what is added to a large number",
    "one_entry": "one entry of each head is 1, all others are 0: a row of the weights is read",
    "ones": "1 everywhere: the gradient of the output's sum",
    "tiny": "N(0,1) times 2^-10",
    "large": "N(0,1) times 64",
    "zero": "0 everywhere",
}
"""How the gradient of the output is made. A clause asks for those after `one_large`."""
USUAL_GRADS: tuple[GradPattern, ...] = ("normal", "of_rows", "integers", "one_row", "of_one_sign", "one_large")

KEYWORDS = (
    Keyword(
        GRAD, "(B,H,T,Dv) of the output's dtype", "the gradient of the output: those of the inputs are asked for",
        GRADIENTS_PROFILE, Acts.ANSWER, "{0}", promise="the gradients of the inputs are those of the definition",
        kinds=frozenset(), in_layers=False, axes="BHTV",
        values=make_pattern_values(GRAD, GRAD_PATTERNS, USUAL_GRADS, "gradients of the output", "grad_patterns"),
        sample="normal", is_uncommon=True, pool=GRADIENTS_POOL, called="output's gradient",
        other_names=("grad_out", "dout"), parameters=(GRAD, "grad_out", "dout", "do", "cotangent")),
)
