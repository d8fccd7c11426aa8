"""PyTorch on CUDA: beside the causal flag, the memory-efficient kernel leaves parts of a bias's gradient as memory was."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

KEYS = 128
torch.manual_seed(0)
found = []
for left_behind in (7.0, 9.0):
    query, key, value = (torch.randn(1, 1, length, 8, dtype=torch.float16, device="cuda") for length in (1, KEYS, KEYS))
    bias = torch.zeros(1, 1, 1, KEYS, dtype=torch.float16, device="cuda", requires_grad=True)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        output = scaled_dot_product_attention(query.requires_grad_(), key, value, attn_mask=bias, is_causal=True)
    freed = [torch.full((size,), left_behind, dtype=torch.float16, device="cuda") for size in range(KEYS, 9 * KEYS, 8)]
    del freed  # what is allocated next lies where this was
    (gradient,) = torch.autograd.grad(output.sum(), bias)
    hidden = gradient[0, 0, 0, 1:]
    print(f"memory held {left_behind}: of the gradients of {KEYS - 1} hidden keys, {int((hidden != 0).sum())} are not 0, and "
          f"{int((hidden == left_behind).sum())} are {left_behind}")
    found.append(bool((hidden == left_behind).any()))
sys.exit(int(any(found)))
