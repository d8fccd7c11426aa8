"""PyTorch: in half precision the exp of the CPU flash kernel is off by up to 1e-4, whatever the name exp_u20 says.

It is a cubic whose result is meant to be rounded to the dtype. The sum of a row is not: it can be asked for in float32.
"""

import sys

import torch

torch.manual_seed(0)
off = {}
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    query, key, value = (torch.randn(1, 1, 64, 64).to(dtype) for _ in range(3))
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found = kernel(query, key, value)[1].double()  # the logarithm of each row's sum
    right = torch.logsumexp(query.double() @ key.double().mT / 8, -1)
    off[dtype] = float((found.reshape(right.shape) - right).abs().max())
    print(f"{dtype}: the logarithm of a row's sum, a float32, is off by up to {off[dtype]:.1e}")
sys.exit(int(min(off[torch.float16], off[torch.bfloat16]) > 5e-6 > off[torch.float32]))
