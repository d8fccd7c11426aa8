"""x-transformers: query head h reads key/value head h % kv_heads; nearly all others use h // (heads / kv_heads)."""

import sys

import torch
from x_transformers.attend import Attend

query, key = torch.zeros(1, 4, 1, 2), torch.zeros(1, 2, 1, 2)
value = torch.tensor([0.0, 1.0]).reshape(1, 2, 1, 1)  # each key/value head holds its own number
read = [int(entry) for entry in Attend()(query, key, value)[0].flatten()]
print("key/value heads that query heads 0, 1, 2, 3 read:", read)
sys.exit(int(read == [0, 1, 0, 1]))
