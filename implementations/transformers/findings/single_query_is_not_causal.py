"""Transformers: SDPA with is_causal=True lets one query see every key, and the first of two queries only the first."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

torch.manual_seed(0)
module = SimpleNamespace(num_key_value_groups=1, training=False)
q, k, v = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
both, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, q, k, v, None, is_causal=True)
alone, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, q[:, :, :1], k, v, None, is_causal=True)
print(f"the first query among two: {both[0, 0, 0]}; alone: {alone[0, 0, 0]}; the first value: {v[0, 0, 0]}")
sys.exit(int(not torch.allclose(both[:, :1], alone)))
