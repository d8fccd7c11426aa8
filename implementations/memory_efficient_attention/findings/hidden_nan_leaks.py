"""memory-efficient-attention-pytorch: NaN in a hidden value reaches the output (0 times NaN is NaN); in a key not."""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

torch.manual_seed(0)
mask = torch.tensor([[True, True, False]])
seen = False
for attend in (attention, memory_efficient_attention):
    for poisoned in (1, 2):
        inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
        inputs[poisoned][:, :, 2] = torch.nan
        is_finite = bool(attend(*inputs, mask=mask).isfinite().all())
        print(f"{attend.__name__}, NaN in a hidden {('query', 'key', 'value')[poisoned]}: output finite: {is_finite}")
        seen |= not is_finite
sys.exit(int(seen))
