"""The keywords `key_lengths` and `query_lengths`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.keyword import SERVING_POOL, Acts, Keyword, LengthPattern, Saying, Values, make_pattern_values

LENGTH_PATTERNS: Mapping[LengthPattern, str] = {
    "ragged": "each batch entry has its own length, from 1 to all",
    "one_short": "all but the last one, in every entry",
    "full": "all, in every entry",
    "first_full": "all in the first batch entry, ragged in the others",
    "shortest": "the first one only, in every entry",
    "with_zero": "ragged, and every second entry, or the only one, has length 0",
}
"""How lengths are made. A clause asks for `full` and `shortest`, which show little, and for
`with_zero`, since an entry without a key has no truth.
"""
USUAL_LENGTHS: tuple[LengthPattern, ...] = ("ragged", "first_full", "one_short")


def _lengths(keyword: str) -> Values:
    return make_pattern_values(keyword, LENGTH_PATTERNS, USUAL_LENGTHS, "lengths")


KEYWORDS = (
    Keyword(
        "key_lengths", "(B,) int32", "batch entry b has only its first n keys; the rest is hidden as by a mask. What "
        "counts from a query's own place counts from lengths: bottom-right is j <= i + key length - query length",
        "key_lengths", Acts.VISIBILITY, "{0} | None",
        promise="each batch entry has its own number of keys, and what lies beyond them is ignored",
        in_layers=False, hides=True, axes="B", values=_lengths("key_lengths"), sample="ragged", is_uncommon=True,
        pool=SERVING_POOL, counts="S", questions={
            "key_lengths.form": "Which keys does a query see where each batch entry has its own number of keys?",
            "key_lengths.causal": "From where does the causal flag count where batch entries have lengths?",
            "hidden_row.key_lengths": "What is the output of a query whose batch entry has no key?"},
        asks="Which keys does a query see where batch entries have lengths of their own?",
        other_names=("key_value_seq_lengths", "nonpad_kv_seqlen", "cache_seqlens"),
        parameters=("key_lengths", "key_value_seq_lengths", "nonpad_kv_seqlen", "cache_seqlens", "seqused_k", "kv_lens",
                    "kv_lengths", "key_seq_lengths", "valid_lens", "valid_lengths", "actual_seq_lengths_kv"),
        sayings=(Saying("key_lengths"),)),
    Keyword(
        "query_lengths", "(B,) int32", "batch entry b has only its first n queries; of later rows nothing is asked but "
        "what `beyond_length` declares", "query_lengths", Acts.VISIBILITY, "{0} | None",
        promise="each batch entry has its own number of queries", in_layers=False, axes="B",
        values=_lengths("query_lengths"), sample="ragged", is_uncommon=True, pool=SERVING_POOL, counts="T", questions={
            "query_lengths.beyond": "What does a row hold that lies beyond the number of queries of its batch entry?"},
        asks="What do rows hold that lie beyond the number of queries?",
        other_names=("query_seq_lengths", "seqused_q"),
        parameters=("query_lengths", "query_seq_lengths", "seqused_q", "q_lens", "q_lengths", "actual_seq_lengths"),
        sayings=(Saying("query_lengths"),)),
)
