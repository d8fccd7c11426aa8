"""Transformers: SDPA applies the dropout that it is handed in evaluation, too; eager attention asks module.training."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

torch.manual_seed(0)
module = SimpleNamespace(num_key_value_groups=1, training=False, is_causal=False)
q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
moved = {}
for name, attend in (("eager", eager_attention_forward), ("sdpa", ALL_ATTENTION_FUNCTIONS["sdpa"])):
    dropped, kept = (attend(module, q, k, v, None, scaling=0.5, dropout=dropout)[0] for dropout in (0.5, 0.0))
    moved[name] = (dropped - kept).abs().max().item()
print(f"a module in evaluation, dropout 0.5 against 0: {moved}")
sys.exit(int(moved["sdpa"] > 0))
