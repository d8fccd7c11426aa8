"""memory-efficient-attention-pytorch: with fewer values than keys, memory_efficient_attention may answer.

It zips the blocks of keys with those of values, and leaves out a block of keys for which there are no values.
"""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import memory_efficient_attention

query, key, value = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 257, 1), torch.arange(256.0).view(1, 1, 256, 1)
answers = {}
for size in (16, 512):
    try:
        answers[size] = memory_efficient_attention(query, key, value, k_bucket_size=size).item()
    except RuntimeError as raised:
        answers[size] = type(raised).__name__
    print(f"257 keys, 256 values, buckets of {size} keys: {answers[size]}")
sys.exit(int(answers == {16: 127.5, 512: "RuntimeError"}))
