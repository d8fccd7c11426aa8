"""Curated Transformers: NaN or infinity in a value that the mask hides makes the output NaN.

In a key it does so within enable_torch_sdp, where the mask is added; written out, hidden logits are replaced.
"""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention, enable_torch_sdp

scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
mask = AttentionMask(torch.tensor([[True, False]]))  # the second key is hidden
spared = []
for fused in (False, True):
    for name in ("key", "value"):
        for poison in (float("nan"), float("inf")):
            arrays = {each: torch.ones(1, 1, 2, 4) for each in ("query", "key", "value")}
            arrays[name][0, 0, 1] = poison
            with enable_torch_sdp(use_torch_sdp=fused):
                output = scorer(**arrays, attention_mask=mask, use_causal_mask=False)
            print(f"torch_sdp {fused}, {poison} in the hidden {name}: the first row is {output[0, 0, 0]}; else ones")
            if not output[0, 0, 0].isnan().all():
                spared.append((fused, name))
sys.exit(int(spared == [(False, "key"), (False, "key")]))
