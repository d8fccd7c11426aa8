"""PyTorch on CPU: torch._int_mm writes nothing where an axis of one entry has a stride that oneDNN does not take."""

import sys

import torch

left = torch.arange(3, dtype=torch.int8)[:, None]
right = torch.arange(4, dtype=torch.int8)[None]
odd = right.as_strided((1, 4), (1, 1))  # the stride of an axis of one entry says nothing
assert torch.equal(right, odd)
wrong = 0
for name, matrix in (("stride 4", right), ("stride 1", odd)):
    output = torch.full((3, 4), -77, dtype=torch.int32)
    torch._int_mm(left, matrix, out=output)
    print(f"{name}: {output.flatten().tolist()}")
    wrong += not torch.equal(output, left.int() @ right.int())
sys.exit(int(wrong == 1))
