"""The keyword `sinks`."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.core.keyword import SERVING_POOL, Acts, Keyword, Saying, SinkPattern, make_pattern_values

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

KEYWORDS = (
    Keyword(
        "sinks", "(H,) float32, or float64 beside float64", "one more logit for each head, which joins the denominator "
        "of every row and has no value; nothing else changes it", "sinks", Acts.LOGITS,
        "{0} | None", promise="one more logit for each head joins the denominator of every row and has no value",
        in_layers=False, axes="H", values=make_pattern_values("sinks", SINK_PATTERNS, USUAL_SINKS, "sinks"),
        sample="spread", is_uncommon=True, pool=SERVING_POOL, questions={
            "sinks.form": "What does a sink s, one more logit for each head, do to the weights of a row?"},
        asks="What does a sink do to the weights?",
        other_names=("learnable_sink", "s_aux", "attention_sinks"),
        parameters=("sinks", "sink", "learnable_sink", "s_aux", "attention_sinks", "softmax_offset", "attn_sink"),
        sayings=(Saying("sinks"),)),
)
