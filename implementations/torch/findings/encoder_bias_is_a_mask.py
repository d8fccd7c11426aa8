"""PyTorch: the fast path of nn.TransformerEncoderLayer reads a float src_mask as boolean: what is not 0 hides a key."""

import sys
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # it warns that it converts the mask to bool
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=8, dropout=0.0, batch_first=True).eval()
x, bias = torch.randn(1, 3, 8), torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.5]])

with_gradient = layer(x, src_mask=bias)
with torch.no_grad():
    fast = layer(x, src_mask=bias)
    as_mask = layer(x, src_mask=bias != 0)
print("torch", torch.__version__, "largest difference to the answer with gradients:", (fast - with_gradient).abs().max().item())
print("to the answer with the bias as a boolean mask:", (fast - as_mask).abs().max().item())
sys.exit(int(not torch.allclose(fast, with_gradient, atol=1e-3) and torch.allclose(fast, as_mask, atol=1e-6)))
