"""PyTorch: F.scaled_dot_product_attention on jagged nested tensors raises if every sequence is empty, not if one is."""

import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

refused = []


def packed(lengths: list[int]) -> torch.Tensor:
    """Two heads of width four."""
    return torch.nested.nested_tensor([torch.ones(length, 2, 4) for length in lengths],
                                      layout=torch.jagged).transpose(1, 2)


for keys in ([2, 0], [0, 0]):
    try:
        outputs = scaled_dot_product_attention(packed([3, 3]), packed(keys), packed(keys)).unbind()
        print(f"keys {keys}: outputs up to", [output.abs().max().item() for output in outputs])
    except RuntimeError as error:
        refused.append(keys)
        print(f"keys {keys}: {error}")
sys.exit(int(refused == [[0, 0]]))
