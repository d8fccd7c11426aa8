"""Transformers: with eager attention, a logit beyond 65504 makes the output NaN in float16; with SDPA it does not.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
"""

import math
import sys
from importlib import import_module
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

MODELS = ("bert", "gemma2", "gpt2", "llama", "mistral", "t5", "vit")
module = SimpleNamespace(num_key_value_groups=1, training=False, is_causal=False)
ways = {name: import_module(f"transformers.models.{name}.modeling_{name}").eager_attention_forward for name in MODELS}
holds = []
for name, attend in {**ways, "SDPA": ALL_ATTENTION_FUNCTIONS["sdpa"]}.items():
    for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
        answers = []
        for dtype in (torch.float32, torch.float16):
            query = key = torch.full((1, 1, 1, D), entry, dtype=dtype)
            output, _ = attend(module, query, key, torch.full_like(query, 3), attention_mask=None, scaling=D**-0.5)
            answers.append(float(output.max()))
        single, half = answers
        print(f"{name}, one key, value 3, logit {entry**2 * D**0.5:,.0f}: float32 {single}, float16 {half}")
        holds.append(single == 3 and (half == 3 if name == "SDPA" else math.isnan(half)))
sys.exit(int(all(holds)))
