"""The keyword `return_lse`."""

from __future__ import annotations

from attnspec.core.keyword import SERVING_POOL, Acts, Keyword

KEYWORDS = (
    Keyword(
        "return_lse", "bool", "return (output, lse), or (output, weights, lse): lse (B,H,T) is the logarithm of the "
        "sum of the exponentials of a row's visible logits, its sink among them; float32, or float64 beside float64",
        "lse", Acts.ANSWER, "bool", promise="the log-sum-exp of every row is returned beside the output",
        in_layers=False, is_uncommon=True, pool=SERVING_POOL, questions={
            "lse.form": "What is the log-sum-exp of a row of four logits of 0?",
            "lse.hidden_row": "What is the log-sum-exp of a row that sees no key?"},
        asks="What is returned as the log-sum-exp?",
        other_names=("return_residual", "return_softmax_lse", "return_attn_lse"),
        parameters=("return_lse", "return_residual", "return_softmax_lse", "return_attn_lse", "return_logsumexp")),
)
