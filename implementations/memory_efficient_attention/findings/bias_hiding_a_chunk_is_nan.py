"""memory-efficient-attention-pytorch: an attn_bias of -inf all over one chunk of keys makes the row NaN."""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

torch.manual_seed(0)
query, key, value = torch.randn(1, 1, 2, 8), torch.randn(1, 1, 8, 8), torch.randn(1, 1, 8, 8)
bias = torch.zeros(1, 1, 2, 8)
bias[..., 4:] = -torch.inf  # the second chunk of four keys is hidden
whole = attention(query, key, value, attn_bias=bias)
chunked = memory_efficient_attention(query, key, value, attn_bias=bias, k_bucket_size=4)
print("attention:", whole[0, 0, 0, :3].tolist())
print("memory_efficient_attention, four keys at a time:", chunked[0, 0, 0, :3].tolist())
sys.exit(int(bool(chunked.isnan().all() and whole.isfinite().all())))
