"""PyTorch: the bias causal_lower_right ends at the last query and the last key, as its name says."""

import sys
import warnings

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

warnings.simplefilter("ignore")
query, key, value = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4), torch.eye(5)[None, None]
output = scaled_dot_product_attention(query, key, value, attn_mask=causal_lower_right(2, 5))
seen = [int(row) for row in (output[0, 0] > 0).sum(-1)]
print("keys that the two queries see of five:", seen)
sys.exit(int(seen == [4, 5]))
