"""The keywords `past_key` and `past_value`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.keyword import CACHES_POOL, Acts, Keyword, PastPattern, Saying, make_pattern_values
from attnspec.core.nouns import Kind

PAST_PATTERNS: Mapping[PastPattern, str] = {
    "new_as_queries": "as many new keys as queries, if there are more keys than queries; else half",
    "half": "half of the keys are past",
    "one_new": "all but the last key are past",
    "one_past": "only the first key is past",
    "none": "no key is past: an empty cache",
}
"""How many keys are past; one at least is new. A clause asks for `none`, which shows little."""
USUAL_PASTS: tuple[PastPattern, ...] = ("new_as_queries", "half", "one_new", "one_past")

_ATTENTION = frozenset({Kind.ATTENTION})

KEYWORDS = (
    Keyword(
        "past_key", "(B,Hkv,P,D) of the dtype", "keys of earlier calls, which stand before `key`: a query's own place "
        "is P + i, whatever `causal_alignment` says and whatever the lengths; mask and bias have P + S columns, and "
        "lengths count past and new keys together", "past", Acts.KEYS, "{0} | None",
        promise="keys and values of earlier calls stand before the new ones", kinds=_ATTENTION, in_layers=False,
        axes="BHPD", values=make_pattern_values("past_key", PAST_PATTERNS, USUAL_PASTS, "past keys", "past_patterns"),
        sample="half", is_uncommon=True, pool=CACHES_POOL, beside="past_value", questions={
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
        axes="BHPD", is_uncommon=True, pool=CACHES_POOL, beside="past_key", other_names=("past_v", "cached_value"),
        parameters=("past_value", "past_v", "past_values", "value_past", "cached_value", "cached_values", "v_past",
                    "prev_value", "prev_v"),
        sayings=(Saying("past_value"), Saying("past_value.swapaxes(1, 2)", "(B,P,Hkv,Dv)"))),
)
