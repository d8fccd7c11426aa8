"""The keyword `cache`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.keyword import DECODER_POOL, Acts, Keyword, StepPattern, make_pattern_values

STEP_PATTERNS: Mapping[StepPattern, str] = {
    "at_once": "the past is stored by one call",
    "token_by_token": "the last 16 past keys are stored one by one, and those before them at once",
    "halves": "the past is stored in two calls",
    "growing": "the past is stored in calls of 1, 2, 3 … keys, and after the seventh call all that are left at once",
    "beside_another": "as halves; by turns with it, another sequence is stored in a cache of its own",
    "after_another": "as at_once; before that, another sequence, as long as past and new keys, is stored in a cache of "
                     "its own and given up",
    "tried_before": "as at_once; before the new keys, others are tried behind the same cache, and that answer given up",
}
"""How a past came into the cache. A clause asks for `tried_before`: not every cache stands it."""
USUAL_STEPS: tuple[StepPattern, ...] = ("at_once", "token_by_token", "halves", "growing", "beside_another",
                                        "after_another")

KEYWORDS = (
    Keyword(
        "cache", "None, or what the call before handed back", "the cache of a sequence: what earlier calls stored, and "
        "None before the first; the call hands back the one for the next call", "decoder", Acts.LAYOUT, "Any",
        promise="calls one behind the other, each with the cache of the one before, are calls with a past",
        kinds=frozenset(), in_layers=False,
        values=make_pattern_values("cache", STEP_PATTERNS, USUAL_STEPS, "steps", "step_patterns"), sample="halves",
        is_uncommon=True, pool=DECODER_POOL, questions={
            "cache.steps": "Which keys does a query see behind a cache that two calls have filled?",
            "cache.overfull": "What does a call do whose keys the cache has no room for?",
            "cache.used": "May a cache be continued a second time?"},
        asks="What does a query see behind a cache?",
        other_names=("kv_cache", "past_key_values"),
        parameters=("cache", "kv_cache", "past_key_values", "past_key_value", "layer_past", "past_kv", "kv_state")),
)
