"""PyTorch on CUDA: varlen_attn with the window (-1, 0) sees keys up to the last one, not up to the query's own number."""

import sys

import torch
from torch.nn.attention.varlen import varlen_attn

QUERIES, KEYS = 2, 4
query, key, value = (torch.zeros(length, 1, 64, dtype=torch.float16, device="cuda") for length in (QUERIES, KEYS, KEYS))
value[:, 0, :KEYS] = torch.eye(KEYS, device="cuda")  # so that the output is the weights
borders = [torch.tensor([0, length], dtype=torch.int32, device="cuda") for length in (QUERIES, KEYS)]
answer = varlen_attn(query, key, value, *borders, QUERIES, KEYS, window_size=(-1, 0))[:, 0, :KEYS]
seen = [torch.nonzero(row).flatten().tolist() for row in answer]
print(f"{QUERIES} queries, {KEYS} keys: the queries see the keys {seen}")
sys.exit(int(seen[0] != [0]))
