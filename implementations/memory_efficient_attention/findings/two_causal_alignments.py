"""memory-efficient-attention-pytorch: where T and S differ, its two functions align the causal mask differently."""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

query, key, value = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4), torch.eye(5)[None, None]
seen = {}
for attend in (attention, memory_efficient_attention):
    seen[attend] = [int(row) for row in (attend(query, key, value, causal=True)[0, 0] > 0).sum(-1)]
    print(f"{attend.__name__}: keys that the two queries see of five: {seen[attend]}")
sys.exit(int(seen == {attention: [4, 5], memory_efficient_attention: [1, 2]}))
