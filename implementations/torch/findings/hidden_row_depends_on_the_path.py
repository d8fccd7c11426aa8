"""PyTorch: nn.MultiheadAttention answers a query that may attend to nothing with NaN or with zeros, by its path."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.MultiheadAttention(8, 2, batch_first=True, bias=False)
x, hidden = torch.randn(1, 3, 8), torch.zeros(3, 3, dtype=torch.bool)
hidden[1] = True  # the second query sees nothing
seen: dict[str, str] = {}


def attend(name: str, *, need_weights: bool) -> None:
    """Put the row to the layer as it is set now."""
    row = layer(x, x, x, attn_mask=hidden, need_weights=need_weights)[0][0, 1]
    seen[name] = "NaN" if row.isnan().all() else "zeros" if not row.any() else "something else"
    print(f"{name}: {seen[name]}")


attend("training, weights asked for", need_weights=True)
attend("training, no weights", need_weights=False)
with torch.no_grad():
    layer.eval()
    attend("inference, weights asked for", need_weights=True)
    attend("inference, no weights", need_weights=False)
sys.exit(int(len(set(seen.values())) > 1))
