"""The keyword `scale`."""

from __future__ import annotations

from functools import partial

from attnspec.core.keyword import Acts, Keyword, Saying, Values, read_number

KEYWORDS = (
    Keyword(
        "scale", "float", "what the dot products are multiplied by; None means 1/sqrt(D)", "scale", Acts.LOGITS,
        "float | None", promise="an explicit scale instead of 1/sqrt(D)", in_layers=False,
        values=Values((0.125, 1.0, -0.25, 0.0, 0.3), "scales", 1.0, repr, partial(read_number, "scale"), float,
                      # A scale of 0 would make all weights the same, and so all their roundings.
                      generic=(0.3, 0.0625, 1.0)),
        other_names=("softmax_scale", "sm_scale", "scaling", "scale_factor"),
        parameters=("scale", "softmax_scale", "sm_scale", "scaling", "scale_factor", "attn_scale", "qk_scale",
                    "temperature", "norm_factor", "softmax_temperature"),
        sayings=(Saying("scale", posed=0.75),
                 Saying("1 / scale", "what the dot products are divided by", posed=0.75))),
)
