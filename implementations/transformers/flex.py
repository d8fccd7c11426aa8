"""`ALL_ATTENTION_FUNCTIONS["flex_attention"]`: FlexAttention, which takes a block mask or a float tensor to add.

It compiles itself, for many seconds a shape; here its Python runs as it stands. A bias that differs among heads is what
it calls `position_bias`; of a float tensor as mask it reads the first head.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from . import masks

Tensor = Any  # torch is not seen by mypy


def block_mask(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, causal: bool = False,
               scale: float | None = None, softcap: float | None = None) -> Tensor:
    """Mask and causal flag as a BlockMask, as PyTorch's `create_block_mask` makes it of a function of indices."""
    seen = masks.visible(query, key, mask, causal)
    with torch.compiler.set_stance("force_eager"):
        return _attend(query, key, value, _blocks(query, key, seen), None, scale=scale, softcap=softcap)


def tensor_mask(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                causal: bool = False, scale: float | None = None, softcap: float | None = None) -> Tensor:
    """Mask and causal flag as the 4-D float tensor that eager attention takes."""
    additive = masks.added(masks.visible(query, key, mask, causal), None, query.dtype)
    with torch.compiler.set_stance("force_eager"):
        return _attend(query, key, value, additive, bias, scale=scale, softcap=softcap)


def _attend(query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, bias: Tensor, *, scale: float | None,  # noqa: ANN401  (torch is not seen by mypy)
            softcap: float | None) -> Tensor:
    attend = ALL_ATTENTION_FUNCTIONS["flex_attention"]
    with torch.no_grad():
        output, _ = attend(SimpleNamespace(training=False), query, key, value, attention_mask, scaling=scale,
                           softcap=softcap, position_bias=bias)
    return output.transpose(1, 2)


def _blocks(query: Tensor, key: Tensor, seen: Tensor) -> Any:  # noqa: ANN401  (a BlockMask)
    if seen is None:
        return None
    B, H, T, S = query.shape[0], seen.shape[1], query.shape[2], key.shape[2]
    seen = seen.expand(B, H, T, S)
    return create_block_mask(lambda b, h, i, j: seen[b, h if H > 1 else 0, i, j], B, H, T, S, device="cpu")
