"""memory-efficient-attention-pytorch: NaN or infinity in a hidden value makes the output NaN; in a hidden key not."""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

torch.manual_seed(0)
mask = torch.tensor([[True, True, False]])
seen = []
for attend in (attention, memory_efficient_attention):
    for poisoned in (1, 2):
        for hidden in (torch.nan, torch.inf):
            inputs = [torch.randn(1, 1, 3, 8) for _ in range(3)]
            inputs[poisoned][:, :, 2] = hidden
            seen.append(bool(attend(*inputs, mask=mask).isfinite().all()))
            where = ("query", "key", "value")[poisoned]
            print(f"{attend.__name__}, {hidden} in a hidden {where}: output finite: {seen[-1]}")
sys.exit(int(seen == [True, True, False, False] * 2))
