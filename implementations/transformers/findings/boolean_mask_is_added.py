"""Transformers: eager attention adds a boolean mask to the logits as 1 and 0; SDPA reads it as "may attend"."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

torch.manual_seed(0)
module = SimpleNamespace(num_key_value_groups=1, training=False, is_causal=False)
q, k, v = (torch.randn(1, 1, 2, 4) for _ in range(3))
mask = torch.tensor([[[[True, False], [True, True]]]])  # the first query may not see the second key
eager, weights = eager_attention_forward(module, q, k, v, mask, scaling=0.5)
sdpa, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, q, k, v, mask, scaling=0.5)
print(f"weight of the hidden key: {weights[0, 0, 0, 1]:.3f} eager")
print(f"first row: {eager[0, 0, 0]} eager, {sdpa[0, 0, 0]} sdpa; the first value: {v[0, 0, 0]}")
sys.exit(int(weights[0, 0, 0, 1] > 0))
