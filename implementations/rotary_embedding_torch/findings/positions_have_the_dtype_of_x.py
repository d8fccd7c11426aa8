"""rotary-embedding-torch: rotate_queries_or_keys counts positions in the dtype of its input.

bfloat16 has no odd numbers beyond 256 and float16 none beyond 2,048, so neighbours are turned by one angle. A module also
remembers such angles and gives them to later calls in float32.
"""

import sys

import torch
from rotary_embedding_torch import RotaryEmbedding

LENGTH = 600
x = torch.zeros(1, 1, LENGTH, 32)
x[..., 0] = 1  # the first feature of a pair that is turned by one radian a place
right = torch.stack([torch.arange(LENGTH).double().cos(), torch.arange(LENGTH).double().sin()], -1)


def off(module: RotaryEmbedding, dtype: torch.dtype) -> float:
    """By how much the first pair of each token is off, at the most."""
    turned = module.rotate_queries_or_keys(x.to(dtype))[0, 0, :, :2].double()
    return float((turned - right).abs().max())


module = RotaryEmbedding(32)
half = off(module, torch.bfloat16)
print(f"bfloat16: off by {half:.3f} among {LENGTH} tokens; its own rounding is 0.004")
later, new = off(module, torch.float32), off(RotaryEmbedding(32), torch.float32)
print(f"float32: off by {later:.3f} after that call, and by {new:.1g} in a new module")
sys.exit(int(half > 0.1 and later > 0.1 > new))
