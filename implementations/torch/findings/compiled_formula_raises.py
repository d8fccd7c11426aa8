"""PyTorch: torch.compile turns a textbook formula with a bias into F.scaled_dot_product_attention, and fails at its scale."""

import math
import sys

import torch


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """softmax(Q K^T / sqrt(D) + bias) V."""
    logits = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)) + bias
    return torch.softmax(logits, dim=-1) @ value


torch.manual_seed(0)
compiled, failed = torch.compile(attend), ""
with torch.no_grad():
    for width in (8, 16):  # the second width makes the compiler leave the shapes open
        query, key, value = torch.randn(3, 2, 4, 6, width)
        try:
            apart = (compiled(query, key, value, torch.ones(6, 6)) - attend(query, key, value, torch.ones(6, 6))).abs().max()
            print(f"D = {width}: compiled and eager differ by {apart:.1e}")
        except Exception as raised:
            failed = str(raised)
            print(f"D = {width}: {type(raised).__name__}: {failed.splitlines()[1]}")
sys.exit(int("scale" in failed))
