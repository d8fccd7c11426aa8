"""The keywords of serving, where every entry of a batch has a length of its own. They join the others in `keywords`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attnspec.core.errors import SpecError, hint
from attnspec.core.keyword import Acts, Keyword, Saying, Values

POOL = "serving"
"""The pool of the clauses about these keywords."""

LengthPattern = Literal["ragged", "one_short", "full", "first_full", "shortest", "with_zero"]
LENGTH_PATTERNS: Mapping[LengthPattern, str] = {
    "ragged": "each batch entry has its own length, from 1 to all",
    "one_short": "all but the last one, in every entry",
    "full": "all, in every entry",
    "first_full": "all in the first batch entry, ragged in the others",
    "shortest": "the first one only, in every entry",
    "with_zero": "ragged, and every second entry, or the only one, has length 0",
}
"""How lengths are made. A clause asks for `full` and `shortest`, which show little, and for `with_zero`, since an entry
without a key has no truth.
"""
USUAL_LENGTHS: tuple[LengthPattern, ...] = ("ragged", "first_full", "one_short")


def _reader(keyword: str, known: tuple[str, ...]) -> Callable[[str], str]:
    """Reads the name of a pattern from a recipe. It raises ValueError, with the nearest name, for any other text."""
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{keyword}={text} names no pattern.{hint(text, known)}".rstrip("."))
        return text
    return read


def make_patterns(keyword: str, known: Mapping[Any, str], usual: tuple[Any, ...], what: str,
                  plural: str = "") -> Values:
    """The values of a keyword whose arrays are made by patterns, the first of the usual ones where none is said."""
    def taken(name: str) -> str:
        if name not in known:
            raise SpecError.unknown(f"pattern of {what}", name, known)
        return name

    plural = plural or f"{keyword.removesuffix('s')}_patterns"
    return Values(usual, plural, usual[0], str, _reader(keyword, tuple(known)), taken)


def _lengths(keyword: str) -> Values:
    return make_patterns(keyword, LENGTH_PATTERNS, USUAL_LENGTHS, "lengths")


SinkPattern = Literal["spread", "normal", "zero", "rising", "hundred", "minus_infinity"]
SINK_PATTERNS: Mapping[SinkPattern, str] = {
    "spread": "eighths between -4 and 4: exact in every format",
    "normal": "independent N(0,1), rounded to float32",
    "zero": "0 in every head: a softmax with one more in its denominator",
    "rising": "from -20 in the first head to 20 in the last",
    "hundred": "100 in every head: its exponential overflows float32 without a shift",
    "minus_infinity": "-inf in every head, which is none",
}
"""How sinks are made. `hundred` and `minus_infinity` are for clauses that ask for them."""
USUAL_SINKS: tuple[SinkPattern, ...] = ("spread", "normal", "zero", "rising")


SERVING = (
    Keyword(
        "key_lengths", "(B,) int32", "batch entry b has only its first n keys; the rest is hidden as by a mask. What "
        "counts from a query's own place counts from lengths: bottom-right is j <= i + key length - query length",
        "key_lengths", Acts.VISIBILITY, "{0} | None",
        promise="each batch entry has its own number of keys, and what lies beyond them is ignored",
        in_layers=False, hides=True, axes="B", values=_lengths("key_lengths"), sample="ragged", is_uncommon=True,
        pool=POOL, counts="S", questions={
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
        values=_lengths("query_lengths"), sample="ragged", is_uncommon=True, pool=POOL, counts="T", questions={
            "query_lengths.beyond": "What does a row hold that lies beyond the number of queries of its batch entry?"},
        asks="What do rows hold that lie beyond the number of queries?",
        other_names=("query_seq_lengths", "seqused_q"),
        parameters=("query_lengths", "query_seq_lengths", "seqused_q", "q_lens", "q_lengths", "actual_seq_lengths"),
        sayings=(Saying("query_lengths"),)),
    Keyword(
        "sinks", "(H,) float32, or float64 beside float64", "one more logit for each head, which joins the denominator "
        "of every row and has no value; nothing else changes it", "sinks", Acts.LOGITS,
        "{0} | None", promise="one more logit for each head joins the denominator of every row and has no value",
        in_layers=False, axes="H", values=make_patterns("sinks", SINK_PATTERNS, USUAL_SINKS, "sinks"), sample="spread",
        is_uncommon=True, pool=POOL, questions={
            "sinks.form": "What does a sink s, one more logit for each head, do to the weights of a row?"},
        asks="What does a sink do to the weights?",
        other_names=("learnable_sink", "s_aux", "attention_sinks"),
        parameters=("sinks", "sink", "learnable_sink", "s_aux", "attention_sinks", "softmax_offset", "attn_sink"),
        sayings=(Saying("sinks"),)),
    Keyword(
        "return_lse", "bool", "return (output, lse), or (output, weights, lse): lse (B,H,T) is the logarithm of the "
        "sum of the exponentials of a row's visible logits, its sink among them; float32, or float64 beside float64",
        "lse", Acts.ANSWER, "bool", promise="the log-sum-exp of every row is returned beside the output",
        in_layers=False,
        is_uncommon=True, pool=POOL, questions={
            "lse.form": "What is the log-sum-exp of a row of four logits of 0?",
            "lse.hidden_row": "What is the log-sum-exp of a row that sees no key?"},
        asks="What is returned as the log-sum-exp?",
        other_names=("return_residual", "return_softmax_lse", "return_attn_lse"),
        parameters=("return_lse", "return_residual", "return_softmax_lse", "return_attn_lse", "return_logsumexp")),
)
