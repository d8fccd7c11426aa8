"""local-attention in float16 with a head_dim of 1: the query's gradient adds up products that are each rounded.

torch.einsum multiplies by broadcasting where the axis that it sums is 1 long. Then the backward pass multiplies entry by
entry, stores the products in float16, and adds them up.
"""

import sys

import torch
from local_attention import LocalAttention

torch.manual_seed(0)
query, key, value, grad = torch.randn(4, 1, 48, 1).half() * torch.tensor([1, 0.004, 1, 0.005]).half()[:, None, None, None]
answers = {}
for dtype in (torch.float64, torch.float16):
    arrays = [array.to(dtype).requires_grad_() for array in (query, key, value)]
    attend = LocalAttention(48, look_backward=0)
    answers[dtype] = torch.autograd.grad(attend(*arrays), arrays, grad.to(dtype))[0].double()
    arrays = [array.to(dtype).requires_grad_() for array in (query, key, value)]
    plain = torch.softmax(arrays[0] @ arrays[1].transpose(1, 2), -1) @ arrays[2]
    answers["plain", dtype] = torch.autograd.grad(plain, arrays, grad.to(dtype))[0].double()
step = 2.0**-24  # of float16, below 6e-5
off = float((answers[torch.float16] - answers[torch.float64]).abs().max()) / step
plainly = float((answers["plain", torch.float16] - answers[torch.float64]).abs().max()) / step
print(f"the query's gradient is off by up to {off:.2f} steps of float16, and by {plainly:.2f} where the logits are a matmul")
sys.exit(int(off > 2 and plainly < off / 2))
