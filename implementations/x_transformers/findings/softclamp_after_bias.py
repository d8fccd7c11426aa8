"""x-transformers: softclamp_logits clamps the sum of logits and bias, so a bias of -inf hides nothing.

Gemma 2, where the cap is from, and the score_mod of flex_attention, cap the dot products and mask afterwards.
"""

import math
import sys

import torch
from x_transformers.attend import Attend

torch.manual_seed(0)
query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 3, 8)
value = torch.eye(3)[None, None]  # so that the output is the weights
bias = torch.tensor([0.0, 3.0, -math.inf]).expand(1, 1, 1, 3)
cap = 2.0
logits = query @ key.mT / math.sqrt(8)
seen = Attend(softclamp_logits=True, logit_softclamp_value=cap)(query, key, value, attn_bias=bias)[0]
before = torch.softmax(cap * torch.tanh(logits / cap) + bias, -1)
after = torch.softmax(cap * torch.tanh((logits + bias) / cap), -1)
print("seen:             ", seen.flatten().tolist())
print("capped, then bias:", before.flatten().tolist())
print("bias, then capped:", after.flatten().tolist())
sys.exit(int(torch.allclose(seen, after) and not torch.allclose(seen, before)))
