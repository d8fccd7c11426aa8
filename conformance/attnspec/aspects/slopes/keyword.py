"""The keyword `alibi_slopes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.core.keyword import (
    CACHES_POOL,
    Acts,
    Keyword,
    KeywordLimits,
    RareValues,
    Saying,
    SlopePattern,
    make_pattern_values,
)

SLOPE_PATTERNS: Mapping[SlopePattern, str] = {
    "powers": "1/2, 1/4 … 1/256 in the heads, and again from 1/2: those of ALiBi for eight heads",
    "geometric": "those of ALiBi for any number of heads: 2^(-8(h+1)/H), rounded to float32",
    "of_entries": "(B,H): of each batch entry its own, eighths between 1/8 and 4",
    "steep": "1, 2, 3 and 4 in the heads, and again from 1",
    "zero": "0 in every head, which is none",
}
"""How slopes are made. A clause asks for `zero`."""
OWN_SLOPES = RareValues("of_entries", "slopes_are_shared", "alibi_slopes (B,H)")
USUAL_SLOPES: tuple[SlopePattern, ...] = ("powers", "geometric", "of_entries", "steep")


def _slopes_misfit(limits: KeywordLimits, slopes: Any, _causal: bool) -> str:  # noqa: ANN401  (a pattern or an array)
    """Why a subject with these limits does not take slopes, (H,) or (B,H), or their pattern."""
    has_own = slopes == OWN_SLOPES.pattern if isinstance(slopes, str) else slopes.ndim == 2
    return "only alibi_slopes (H,), the same for every batch entry" if limits.slopes_are_shared and has_own else ""


KEYWORDS = (
    Keyword(
        "alibi_slopes", "(H,) or (B,H) float32, or float64 beside float64", "a bias of -slope·abs(p - j), where p is "
        "the query's own place, as `causal_alignment` counts it", "alibi_slopes", Acts.LOGITS, "{0} | None",
        promise="each head lowers its logits by its slope times the distance from the query's own place",
        in_layers=False, axes="BH", values=make_pattern_values("alibi_slopes", SLOPE_PATTERNS, USUAL_SLOPES, "slopes",
                                                    "slope_patterns"),
        sample="steep", is_uncommon=True, is_from_place=True, pool=CACHES_POOL, misfit=_slopes_misfit,
        rare=OWN_SLOPES, questions={
            "slopes.form": "What is added to the logits of a query by the slope of its head?",
            "slopes.longer_keys": "From which place does the distance of query i count if T < S?",
            "slopes.longer_queries": "From which place does the distance of query i count if T > S?"},
        asks="What does a slope add to the logits?",
        other_names=("slopes", "alibi"),
        parameters=("alibi_slopes", "slopes", "alibi_slope", "alibi", "m_slopes"),
        sayings=(Saying("alibi_slopes"),)),
)
