"""PyTorch on CPU: where logits are stored, one beyond 65504 makes the output NaN in float16.

They are in nn.MultiheadAttention if weights are asked for, and in inference with an even number of heads; on nested
tensors; and where the formula is written out. F.scaled_dot_product_attention on ordinary tensors gives the answer.
"""

import math
import sys
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")


def layer(X: Tensor, *, heads: int, weights: bool, nested: bool = False) -> Tensor:
    """nn.MultiheadAttention in inference, whose heads are 4 wide: of an input 3, value 3, query and key 240."""
    M = 4 * heads
    module = nn.MultiheadAttention(M, heads, batch_first=True, dtype=X.dtype).eval()
    module.in_proj_weight.copy_(torch.cat([80 * torch.eye(M), 80 * torch.eye(M), torch.eye(M)]))
    module.out_proj.weight.copy_(torch.eye(M))
    tokens = X[0].repeat(1, 1, heads)
    given = torch.nested.nested_tensor(list(tokens)) if nested else tokens
    return module(given, given, given, need_weights=weights)[0].unbind()[0]


def nested_sdpa(X: Tensor, layout: torch.layout) -> Tensor:
    """F.scaled_dot_product_attention on nested tensors of one entry."""
    query, value = (torch.nested.nested_tensor(list(each), layout=layout).transpose(1, 2) for each in (80 * X, X))
    return scaled_dot_product_attention(query, query, value).unbind()[0]


def math_sdpa(X: Tensor) -> Tensor:
    """F.scaled_dot_product_attention on ordinary tensors, with the kernel that serves nested ones."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(80 * X, 80 * X, X)


OVERFLOW: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.MultiheadAttention": lambda X: layer(X, heads=1, weights=True),
    "nn.MultiheadAttention, two heads, without weights": lambda X: layer(X, heads=2, weights=False),
    "nn.MultiheadAttention, nested": lambda X: layer(X, heads=2, weights=False, nested=True),
    "scaled_dot_product_attention, nested, jagged": lambda X: nested_sdpa(X, torch.jagged),
    "scaled_dot_product_attention, nested, strided": lambda X: nested_sdpa(X, torch.strided),
    "softmax(Q Kᵀ / sqrt(D)) V": lambda X: torch.softmax((80 * X) @ (80 * X).mT / math.sqrt(4), -1) @ X,
}
RIGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.MultiheadAttention, one head, without weights": lambda X: layer(X, heads=1, weights=False),
    "scaled_dot_product_attention": lambda X: scaled_dot_product_attention(80 * X, 80 * X, X),
    "scaled_dot_product_attention, math": math_sdpa,
}
holds = []
with torch.no_grad():
    for name, attend in {**OVERFLOW, **RIGHT}.items():
        single, half = (float(attend(torch.full((1, 1, 1, 4), 3, dtype=dtype)).max())
                        for dtype in (torch.float32, torch.float16))
        print(f"{name}: one key, value 3, logit 115,200: float32 {single}, float16 {half}")
        holds.append(single == 3 and (math.isnan(half) if name in OVERFLOW else half == 3))
sys.exit(int(all(holds)))
