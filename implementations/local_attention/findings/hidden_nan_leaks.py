"""local-attention: a NaN in a hidden value reaches the output (0 times NaN is NaN); one in a hidden key does not."""

import sys

import torch
from local_attention import LocalAttention

torch.manual_seed(0)
mask = torch.tensor([[True, True, True, False]])
seen = False
for poisoned in (1, 2):
    inputs = [torch.randn(1, 4, 8) for _ in range(3)]
    inputs[poisoned][:, 3] = torch.nan
    output = LocalAttention(4, look_backward=1, look_forward=1)(*inputs, mask=mask)
    print(f"NaN in a hidden {('query', 'key', 'value')[poisoned]}: output finite: {bool(output.isfinite().all())}")
    seen |= not output.isfinite().all()
sys.exit(int(seen))
