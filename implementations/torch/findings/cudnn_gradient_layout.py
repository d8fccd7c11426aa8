"""PyTorch on CUDA: cuDNN's backward pass is wrong where the output's gradient lies in memory otherwise than the output."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
shape = (1, 2, 2, 80)
query, key, value, gradient = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
layouts = {"contiguous": gradient, "(B,T,H,D), transposed": gradient.transpose(1, 2).contiguous().transpose(1, 2)}


def gradients(kernel: SDPBackend, grad: torch.Tensor) -> list[torch.Tensor]:
    """With respect to query, key and value, each (B,H,T,D)."""
    leaves = [each.clone().requires_grad_() for each in (query, key, value)]
    with sdpa_kernel(kernel):
        output = scaled_dot_product_attention(*leaves)
    return list(torch.autograd.grad(output, leaves, grad))


right = gradients(SDPBackend.MATH, gradient)
worst = {}
for kernel in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
    for layout, grad in layouts.items():
        apart = [(one - other).abs().max().item() for one, other in zip(gradients(kernel, grad), right)]
        worst[kernel, layout] = max(apart)
        print(f"{kernel.name}, gradient {layout}: apart from the math kernel's by {apart}")
print(f"largest gradient: {max(each.abs().max().item() for each in right)}")
wrong = worst[SDPBackend.CUDNN_ATTENTION, "(B,T,H,D), transposed"]
sys.exit(int(wrong > 0.1 > worst[SDPBackend.CUDNN_ATTENTION, "contiguous"]))
