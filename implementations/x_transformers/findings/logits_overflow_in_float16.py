"""x-transformers: a logit beyond 65504 makes the output NaN in float16; with flash or softclamp_logits it does not.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
"""

import math
import sys

import torch
from x_transformers.attend import Attend

ways = {"eager": {}, "softclamp_logits": {"softclamp_logits": True}, "flash": {"flash": True}}
holds = []
for name, more in ways.items():
    for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
        answers = []
        for dtype in (torch.float32, torch.float16):
            query = key = torch.full((1, 1, 1, D), entry, dtype=dtype)
            answers.append(float(Attend(**more)(query, key, torch.full_like(query, 3))[0].max()))
        single, half = answers
        print(f"{name}, one key, value 3, logit {entry**2 * D**0.5:,.0f}: float32 {single}, float16 {half}")
        holds.append(single == 3 and (math.isnan(half) if name == "eager" else half == 3))
sys.exit(int(all(holds)))
