"""The note's layers keep their scale as a float32 tensor that is no buffer of the module, so `.to(dtype)` leaves it."""

import sys

import torch
from torch import nn


class SelfAttention(nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """As the note writes it, with one head and no more than it needs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.root = torch.sqrt(torch.FloatTensor([width]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B,T,M) to (B,T,M)."""
        weights = torch.softmax(self.query(x) @ self.key(x).mT / self.root, dim=-1)
        return weights @ self.value(x)


layer = SelfAttention(24).to(torch.float64)
off = abs(float(layer.root) / 24**0.5 - 1)
print(f"in float64 the root of 24 is off by {off:.1e}; the dtype resolves 2.2e-16")
try:
    SelfAttention(24).to(torch.float16)(torch.randn(1, 2, 24, dtype=torch.float16))
    raised = ""
except RuntimeError as error:
    raised = str(error)
print("in float16:", raised or "answers")
sys.exit(int(off > 1e-12 and bool(raised)))
