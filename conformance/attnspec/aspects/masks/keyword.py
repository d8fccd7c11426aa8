"""The keywords `mask`, `bias` and `causal`."""

from __future__ import annotations

from attnspec.core.keyword import Acts, Keyword, Saying

_MASK_NAMES = ("mask", "attn_mask", "attention_mask", "src_mask", "att_mask", "masks", "key_mask",
               "key_padding_mask", "padding_mask", "custom_mask")

KEYWORDS = (
    Keyword(
        "mask", "(B,H,T,S) bool", "True where a query may attend to a key", "masking", Acts.VISIBILITY, "{0} | None",
        promise="a boolean mask excludes keys, whatever values they hold", hides=True, axes="BHTS",
        other_names=("attn_mask", "attention_mask", "src_mask"), parameters=_MASK_NAMES),
    Keyword(
        "bias", "(B,H,T,S) of the dtype", "added to the scaled logits before the softmax; -inf masks a key", "bias",
        Acts.LOGITS, "{0} | None", promise="an additive bias on the scaled logits", hides=True, axes="BHTS",
        other_names=("attn_bias", "attention_bias"),
        parameters=("bias", "attn_bias", "attention_bias", "biases", "position_bias", "relative_position_bias",
                    *_MASK_NAMES)),  # a mask's parameter may also be where a bias is added
    Keyword(
        "causal", "bool", "a query attends to no later key; see `causal_alignment`", "causal", Acts.VISIBILITY, "bool",
        promise="a query attends to no later key", hides=True, as_causal=True, called="causal flag",
        other_names=("is_causal", "use_causal_mask"),
        parameters=("causal", "is_causal", "use_causal_mask", "use_causal", "autoregressive", "mask_future",
                    "causal_mask", "attn_mask_type", "mask_type", *_MASK_NAMES[:3]),
        sayings=(Saying("True", posed=True), Saying('"causal"', "a word", posed=True))),
)
