"""The keywords of decoding: keys and values from earlier calls, and what counts from a query's own place behind them.

They join the others in `keywords`. Their clauses are a pool of their own, so that those of other keywords of serving
keep their cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attnspec.core.keyword import Acts, Keyword, RareValues, Saying
from attnspec.core.nouns import Kind
from attnspec.core.serving_keywords import make_patterns

POOL = "caches"

PastPattern = Literal["new_as_queries", "half", "one_new", "one_past", "none"]
PAST_PATTERNS: Mapping[PastPattern, str] = {
    "new_as_queries": "as many new keys as queries, if there are more keys than queries; else half",
    "half": "half of the keys are past",
    "one_new": "all but the last key are past",
    "one_past": "only the first key is past",
    "none": "no key is past: an empty cache",
}
"""How keys are divided into past and new ones; a single one is new. A clause asks for `none`, which shows little."""
USUAL_PASTS: tuple[PastPattern, ...] = ("new_as_queries", "half", "one_new", "one_past")

SlopePattern = Literal["powers", "geometric", "of_entries", "steep", "zero"]
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

_ATTENTION = frozenset({Kind.ATTENTION})


def _slopes_misfit(limits: Any, slopes: Any, _causal: bool) -> str:  # noqa: ANN401  (KeywordLimits; a pattern or an array)
    """What of slopes, (H,) or (B,H), or of their pattern, a subject with these limits does not take."""
    has_own = slopes == OWN_SLOPES.pattern if isinstance(slopes, str) else slopes.ndim == 2
    return "only alibi_slopes (H,), the same for every batch entry" if limits.slopes_are_shared and has_own else ""


CACHES = (
    Keyword(
        "past_key", "(B,Hkv,P,D) of the dtype", "keys of earlier calls, which stand before `key`: a query's own place "
        "is P + i, whatever `causal_alignment` says and whatever the lengths; mask and bias have P + S columns, and "
        "lengths count past and new keys together", "past", Acts.KEYS, "{0} | None",
        promise="keys and values of earlier calls stand before the new ones", kinds=_ATTENTION, in_layers=False,
        axes="BHPD", values=make_patterns("past_key", PAST_PATTERNS, USUAL_PASTS, "past keys", "past_patterns"),
        sample="half", is_uncommon=True, pool=POOL, beside="past_value", questions={
            "past.form": "Which keys does a query see where there are past keys and values?",
            "past.causal": "Where does a query stand under the causal flag where there are past keys?"},
        asks="Which keys does a query see beside a past?",
        other_names=("past_k", "cached_key"),
        parameters=("past_key", "past_k", "past_keys", "key_past", "cached_key", "cached_keys", "k_past", "prev_key",
                    "prev_k"),
        sayings=(Saying("past_key"), Saying("past_key.swapaxes(1, 2)", "(B,P,Hkv,D)"))),
    Keyword(
        "past_value", "(B,Hkv,P,Dv) of the dtype", "values of earlier calls, which stand before `value`; given "
        "together with `past_key`", "past", Acts.KEYS, "{0} | None",
        promise="keys and values of earlier calls stand before the new ones", kinds=_ATTENTION, in_layers=False,
        axes="BHPD", is_uncommon=True, pool=POOL, beside="past_key", other_names=("past_v", "cached_value"),
        parameters=("past_value", "past_v", "past_values", "value_past", "cached_value", "cached_values", "v_past",
                    "prev_value", "prev_v"),
        sayings=(Saying("past_value"), Saying("past_value.swapaxes(1, 2)", "(B,P,Hkv,Dv)"))),
    Keyword(
        "alibi_slopes", "(H,) or (B,H) float32, or float64 beside float64", "a bias of -slope·abs(p - j), where p is "
        "the query's own place, as `causal_alignment` counts it", "alibi_slopes", Acts.LOGITS, "{0} | None",
        promise="each head lowers its logits by its slope times the distance from the query's own place",
        in_layers=False, axes="BH", values=make_patterns("alibi_slopes", SLOPE_PATTERNS, USUAL_SLOPES, "slopes",
                                                         "slope_patterns"),
        sample="steep", is_uncommon=True, is_from_place=True, pool=POOL, misfit=_slopes_misfit,
        rare=OWN_SLOPES, questions={
            "slopes.form": "What is added to the logits of a query by the slope of its head?",
            "slopes.longer_keys": "From which place does the distance of query i count if T < S?",
            "slopes.longer_queries": "From which place does the distance of query i count if T > S?"},
        asks="What does a slope add to the logits?",
        other_names=("slopes", "alibi"),
        parameters=("alibi_slopes", "slopes", "alibi_slope", "alibi", "m_slopes"),
        sayings=(Saying("alibi_slopes"),)),
)

CACHED = tuple(word.name for word in CACHES if "P" in word.axes)
"""The keywords that stand before key and value, in this order."""
