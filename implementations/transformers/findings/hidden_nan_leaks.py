"""Transformers: NaN or infinity in a key or value that a mask hides makes the output NaN."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

module = SimpleNamespace(num_key_value_groups=1, training=False, is_causal=False)
seen = torch.tensor([[[[True, False], [True, False]]]])
added = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
reached = []
for name, attend, mask in (("eager", eager_attention_forward, added), ("sdpa", ALL_ATTENTION_FUNCTIONS["sdpa"], seen)):
    for place in range(1, 3):
        for poison in (float("nan"), float("inf")):
            arrays = [torch.ones(1, 1, 2, 4) for _ in range(3)]
            arrays[place][0, 0, 1] = poison
            output, _ = attend(module, *arrays, mask, scaling=0.5)
            print(f"{name}: {poison} in the hidden {('key', 'value')[place - 1]} gives {output[0, 0, 0]}")
            reached.append(bool(output.isnan().any()))
sys.exit(int(all(reached)))
