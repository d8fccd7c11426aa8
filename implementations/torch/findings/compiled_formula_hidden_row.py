"""PyTorch: a row of -inf logits is NaN by the textbook formula, and zeros where torch.compile makes it an SDPA."""

import math
import sys

import torch


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """softmax(Q K^T / sqrt(D) + bias) V."""
    logits = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)) + bias
    return torch.softmax(logits, dim=-1) @ value


torch.manual_seed(0)
query, key, value = torch.randn(3, 1, 2, 3, 8)
bias = torch.zeros(3, 3)
bias[1] = -torch.inf  # the second query may attend to no key
with torch.no_grad():
    eager, compiled = attend(query, key, value, bias), torch.compile(attend)(query, key, value, bias)
print("eager:", eager[0, 0, 1, :3], "compiled:", compiled[0, 0, 1, :3])
sys.exit(int(bool(eager[0, 0, 1].isnan().all())))
