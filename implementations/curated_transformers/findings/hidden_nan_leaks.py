"""Curated Transformers: NaN or infinity in a key or value that the mask hides makes the output NaN."""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention

scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
mask = AttentionMask(torch.tensor([[True, False]]))  # the second key is hidden
reached = []
for name in ("key", "value"):
    for poison in (float("nan"), float("inf")):
        arrays = {each: torch.ones(1, 1, 2, 4) for each in ("query", "key", "value")}
        arrays[name][0, 0, 1] = poison
        output = scorer(**arrays, attention_mask=mask, use_causal_mask=False)
        print(f"{poison} in the hidden {name}: the first row is {output[0, 0, 0]}; without it, ones")
        reached.append(bool(output.isnan().any()))
sys.exit(int(any(reached)))
