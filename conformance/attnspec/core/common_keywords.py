"""The keywords that attention has had from the beginning: masks and weights, and what a layer is handed."""

from __future__ import annotations

from attnspec.core.keyword import Acts, Keyword, Saying
from attnspec.core.nouns import Kind

_LAYER = frozenset({Kind.LAYER})
_MASK_NAMES = ("mask", "attn_mask", "attention_mask", "src_mask", "att_mask", "masks", "key_mask",
               "key_padding_mask", "padding_mask", "custom_mask")

MASKS = (
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

WEIGHTS = Keyword(
    "return_weights", "bool", "return the pair (output, weights)", "weights", Acts.ANSWER, "bool",
    promise="the weights are returned beside the output",
    other_names=("need_weights", "return_attention_scores", "return_attn_weights", "output_attentions"),
    parameters=("return_weights", "need_weights", "return_attention_scores", "return_attn_weights",
                "output_attentions", "return_attn_probs", "return_attn", "return_attention"))

LAYERS = (
    Keyword(
        "params", "mapping of arrays", "w_query (M,H·D), w_key (M,Hkv·D), w_value (M,Hkv·Dv), w_out (H·Dv,M) and, only "
        "where the layer has biases, b_query, b_key, b_value, b_out; used as x @ W + b", "layers", Acts.LAYER,
        "Mapping[str, {0}]", kinds=_LAYER, required=_LAYER),
    Keyword(
        "heads", "int", "H; head h owns the columns h·D … (h+1)·D-1", "layers", Acts.LAYER, "int", kinds=_LAYER,
        required=_LAYER),
)
