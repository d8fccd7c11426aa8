"""The keyword `softcap`."""

from __future__ import annotations

import math

from attnspec.core.errors import SpecError
from attnspec.core.keyword import GROWN_FROM, Acts, Keyword, Saying, Values, read_number


def _read(text: str) -> float:
    """The cap that a recipe writes. Raises ValueError if it is not above 0."""
    cap = read_number("softcap", text)
    if not 0 < cap < math.inf:
        raise ValueError(f"softcap should be a number above 0, not {text!r}")
    return cap


def _check(cap: float) -> float:
    """The cap that YAML gives. Raises SpecError if it is not above 0."""
    if cap <= 0:
        raise SpecError(f"a softcap is above 0, not {cap:g}.")
    return float(cap)


def _grow(cap: float, keys: int) -> float:
    """The cap for more keys: twice as high for four times as many, as the largest logit grows."""
    return math.ldexp(cap, max(0, ((keys // GROWN_FROM).bit_length() - 1) // 2))


KEYWORDS = (
    Keyword(
        "softcap", "float", "c > 0: the scaled dot products x become c·tanh(x / c), before bias and mask", "softcap",
        Acts.LOGITS, "float | None", promise="scaled dot products are capped by a tanh before bias and mask",
        values=Values(
            # Exact in every format; from one that caps nearly all logits to what a large model caps at.
            (2.0, 30.0, 0.5, 8.0), "softcaps", 1.0, repr, _read, _check, grown=_grow,
            # The law of roundings is of first order in them, and a low cap bends within one rounding of a half.
            generic=(30.0, 8.0)),
        sample=2.0, is_uncommon=True, numbers={"softcap": float}, questions={
            "softcap.form": "What does a softcap c turn the scaled dot products x into?",
            "softcap.bias": "What does a softcap turn them into if there is a bias?"},
        asks="What does a softcap do to the scaled dot products?",
        other_names=("logits_soft_cap", "soft_cap", "logit_cap"),
        parameters=("softcap", "logits_soft_cap", "attn_logits_soft_cap", "soft_cap", "logit_cap", "logits_softcap",
                    "attn_logit_softcapping"),
        sayings=(Saying("softcap", posed=0.5),)),
)
