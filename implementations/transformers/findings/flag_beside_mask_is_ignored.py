"""Transformers: SDPA heeds is_causal=True only where there is no mask; a mask that shows everything switches it off."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

torch.manual_seed(0)
module = SimpleNamespace(num_key_value_groups=1, training=False)
q, k, v = (torch.randn(1, 1, 3, 4) for _ in range(3))
everything = torch.ones(1, 1, 3, 3, dtype=torch.bool)
attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
alone, masked = (attend(module, q, k, v, mask, is_causal=True)[0] for mask in (None, everything))
print(f"first row, is_causal=True: without a mask {alone[0, 0, 0]}, beside a mask that hides nothing {masked[0, 0, 0]}")
sys.exit(int(not torch.allclose(alone, masked)))
