"""PyTorch: F.scaled_dot_product_attention on jagged tensors raises if a batch entry has no key."""

import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)


def jagged(lengths: tuple[int, ...]) -> torch.Tensor:
    """Two heads of width 8, for each of the sequences."""
    return torch.nested.nested_tensor([torch.randn(length, 2, 8) for length in lengths], layout=torch.jagged).transpose(1, 2)


try:
    output = scaled_dot_product_attention(jagged((3, 5)), jagged((2, 0)), jagged((2, 0)))
except RuntimeError as raised:
    print("raises:", str(raised)[:100])
    sys.exit(1)
print("answers:", [entry.shape for entry in output.unbind()])
sys.exit(0)
