"""Curated Transformers in float16: a masked key gets the weight of visible ones if its logit is 65504 higher.

Within enable_torch_sdp a mask lowers logits by 65504. Written out, masked logits are -65504, and visible ones below that
are -inf. The hidden key's value is 3, the visible one's 1.
"""

import sys

import torch
from curated_transformers.layers import AttentionMask, ScaledDotProductAttention, enable_torch_sdp

scorer = ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None).eval()
hides, shows = AttentionMask(torch.tensor([[True, False]])), AttentionMask(torch.tensor([[True, True]]))
value = torch.tensor([[1.0] * 4, [3.0] * 4])[None, None]
seen = []
for dtype in (torch.float16, torch.float32):
    for what, keys, mask, causal in (("a masked key, logit 115,200", (0, 240), hides, False),
                                     ("a later key, logit 115,200", (0, 240), shows, True),
                                     ("the only visible key, logit -115,200", (-240, 0), hides, False)):
        query = torch.full((1, 1, 2, 4), 240, dtype=dtype)
        key = torch.tensor([[float(entry)] * 4 for entry in keys], dtype=dtype)[None, None]
        for fused in (False, True):
            with enable_torch_sdp(use_torch_sdp=fused):
                output = scorer(query=query, key=key, value=value.to(dtype), attention_mask=mask, use_causal_mask=causal)
            seen.append(float(output[0, 0, 0, 0]))
            print(f"{dtype}, torch_sdp {fused}, {what}: the first query gets {seen[-1]:.0f}, and should get 1")
sys.exit(int(seen == [1, 3, 1, 3, 3, 3] + 6 * [1]))
