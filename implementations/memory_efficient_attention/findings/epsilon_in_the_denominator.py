"""memory-efficient-attention-pytorch: memory_efficient_attention adds 1e-8 to every softmax's denominator.

float64 sees that, whose resolution is 2e-16: values that are all one give 0.99999999 and less.
"""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

torch.manual_seed(0)
query, key = torch.randn(1, 1, 3, 8, dtype=torch.float64), torch.randn(1, 1, 5, 8, dtype=torch.float64)
value = torch.ones(1, 1, 5, 1, dtype=torch.float64)
off = {attend: float((attend(query, key, value) - 1).abs().max()) for attend in (attention, memory_efficient_attention)}
for attend, gap in off.items():
    print(f"{attend.__name__}: values that are all one give something off by {gap:.1e}")
sys.exit(int(off[memory_efficient_attention] > 1e-10 > off[attention]))
