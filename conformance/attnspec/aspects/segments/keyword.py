"""The keywords `query_segments` and `key_segments`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.core.keyword import (
    SEGMENTS_POOL,
    Acts,
    Keyword,
    KeywordLimits,
    RareValues,
    Saying,
    SegmentPattern,
    make_pattern_values,
)

SEGMENT_PATTERNS: Mapping[SegmentPattern, str] = {
    "ragged": "up to four segments, one behind the other, in each batch entry its own",
    "two": "two segments, the first of which ends in each batch entry at a place of its own",
    "by_turns": "three segments by turns, whose numbers are large: 2^24, 2^24 + 1, 2^24 + 256, 2^24 …",
    "padded": "ragged; the last segment is padding, whose number is 0; the others count from 1",
    "alike": "two segments, whose border is the same in all batch entries",
    "one": "one segment, which is none",
    "keys_apart": "two segments, and the last key is of a third, which no query is of",
}
"""How segments are made. Each holds a query and a key where there are enough. A clause asks for
`alike`, `one`, and `keys_apart`.
"""
USUAL_SEGMENTS: tuple[SegmentPattern, ...] = ("ragged", "two", "by_turns", "padded")

OWN_KEY_SEGMENTS = RareValues("keys_apart", "segments_are_shared", "key_segments of their own")
"""The values that who takes one array of segments for queries and keys does not take."""


def _segments_misfit(limits: KeywordLimits, segments: Any, _causal: bool) -> str:  # noqa: ANN401  (a pattern or an array)
    """Why a subject with these limits does not take such a pattern of segments."""
    is_apart = isinstance(segments, str) and segments == OWN_KEY_SEGMENTS.pattern
    return "one array of segments, for queries and keys" if limits.segments_are_shared and is_apart else ""


KEYWORDS = (
    Keyword(
        "query_segments", "(B,T) int32", "the number of each query's segment: a query sees the keys of its own segment "
        "and no others", "segments", Acts.VISIBILITY, "{0} | None",
        promise="a query attends to the keys of its own segment only", in_layers=False, hides=True, axes="BT",
        values=make_pattern_values("query_segments", SEGMENT_PATTERNS, USUAL_SEGMENTS, "segments", "segment_patterns"),
        sample="two", is_uncommon=True, pool=SEGMENTS_POOL, beside="key_segments", misfit=_segments_misfit,
        rare=OWN_KEY_SEGMENTS, questions={
            "segments.form": "Which keys does a query see where queries and keys have segments?"},
        asks="Which keys does a query see where there are segments?",
        other_names=("q_segment_ids", "segment_ids"),
        parameters=("query_segments", "q_segment_ids", "query_segment_ids", "segment_ids_q", "q_segments", "q_seg_ids"),
        sayings=(Saying("query_segments"),)),
    Keyword(
        "key_segments", "(B,S) int32", "the number of each key's segment; given together with `query_segments`",
        "segments", Acts.VISIBILITY, "{0} | None", promise="a query attends to the keys of its own segment only",
        in_layers=False, hides=True, axes="BS", is_uncommon=True, pool=SEGMENTS_POOL, beside="query_segments",
        other_names=("kv_segment_ids",),
        parameters=("key_segments", "kv_segment_ids", "key_segment_ids", "segment_ids_k", "kv_segments",
                    "k_segment_ids", "kv_seg_ids"),
        sayings=(Saying("key_segments"),)),
)
