"""PyTorch on CPU: SDPA answers with other numbers of values than of keys, where its math kernel raises.

With fewer values the other keys are as if they were not there; with more, memory behind the last key is read.
"""

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

torch.manual_seed(0)
memory = torch.randn(1, 1, 5, 8)
query, key, value = torch.randn(1, 1, 3, 8), memory[:, :, :4], torch.randn(1, 1, 5, 8)
before = scaled_dot_product_attention(query, key, value)
memory[:, :, 4] = 9.0  # what lies behind the four keys
after = scaled_dot_product_attention(query, key, value)
print("four keys, five values; the answer changes with the memory behind the keys by", (after - before).abs().max().item())
sys.exit(int(output == 1.5 and bool(raised) and not torch.equal(before, after)))
