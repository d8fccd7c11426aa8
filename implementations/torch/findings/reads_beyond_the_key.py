"""PyTorch: with more values than keys, the CPU flash kernel goes on reading behind the last key."""

import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
memory = torch.randn(1, 1, 5, 8)
query, key, value = torch.randn(1, 1, 3, 8), memory[:, :, :4], torch.randn(1, 1, 5, 8)
before = scaled_dot_product_attention(query, key, value)
memory[:, :, 4] = 9.0  # what lies behind the four keys
after = scaled_dot_product_attention(query, key, value)
print("four keys, five values; the answer changes with the memory behind the keys by", (after - before).abs().max().item())
sys.exit(int(not torch.equal(before, after)))
