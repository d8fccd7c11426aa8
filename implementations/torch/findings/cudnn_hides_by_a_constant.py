"""PyTorch on CUDA: before it calls cuDNN, a boolean mask becomes a bias of -65504, which does not hide a key.

A query without a key sees all of them, as if there were no mask, and a hidden key is seen where its logit is large enough.
"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

options = {"dtype": torch.bfloat16, "device": "cuda"}


def both(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> list[list[float]]:
    """The first column of the output, by cuDNN and by the math kernel."""
    answers = []
    for kernel in (SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(kernel):
            answers.append(scaled_dot_product_attention(query, key, value, attn_mask=mask)[0, 0, :, 0].tolist())
    return answers


torch.manual_seed(0)
query, key, value = (torch.randn(1, 1, 2, 8, **options) for _ in range(3))
nothing = torch.zeros(1, 1, 2, 2, dtype=torch.bool, device="cuda")
without_keys = both(query, key, value, nothing)
print("queries without a key: cuDNN {}, math kernel {}".format(*without_keys))
print(f"the same without a mask: cuDNN {both(query, key, value, ~nothing)[0]}")

query = torch.full((1, 1, 1, 8), 256.0, **options)
key = torch.stack([torch.zeros(8, **options), torch.full((8,), 256.0, **options)])[None, None]
value = torch.stack([torch.full((8,), 1.0, **options), torch.full((8,), 9.0, **options)])[None, None]
hidden = both(query, key, value, torch.tensor([[[[True, False]]]], device="cuda"))
print("a key of value 1, and a hidden one of value 9 and logit 185364: cuDNN {}, math kernel {}".format(*hidden))
sys.exit(int(without_keys[0] != without_keys[1] or hidden[0] != hidden[1]))
