"""PyTorch on CPU: with fewer values than keys SDPA answers, as if the other keys were not there; its math kernel raises."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

query, key = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 3, 8)
value = torch.tensor([1.0, 2.0])[:, None].expand(2, 8).contiguous()[None, None]
output = float(scaled_dot_product_attention(query, key, value)[0, 0, 0, 0])
raised = ""
try:
    with sdpa_kernel(SDPBackend.MATH):
        scaled_dot_product_attention(query, key, value)
except RuntimeError as error:
    raised = str(error)
print(f"three equal keys, the values 1 and 2: the output is {output}, the mean of two; the math kernel: {raised or 'answers'}")
sys.exit(int(output == 1.5 and bool(raised)))
