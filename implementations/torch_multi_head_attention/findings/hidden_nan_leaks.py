"""torch-multi-head-attention: NaN in a hidden value reaches the output (0 times NaN is NaN); in a key not."""

import sys

import torch
from torch_multi_head_attention import ScaledDotProductAttention

torch.manual_seed(0)
seen = False
for poisoned in (1, 2):
    inputs = [torch.randn(1, 3, 8) for _ in range(3)]
    inputs[poisoned][:, 2] = float("nan")
    output = ScaledDotProductAttention()(*inputs, torch.tensor([1, 1, 0]).expand(1, 3, 3))
    print(f"NaN in a hidden {('query', 'key', 'value')[poisoned]}: output finite: {bool(output.isfinite().all())}")
    seen |= not output.isfinite().all()
sys.exit(int(seen))
