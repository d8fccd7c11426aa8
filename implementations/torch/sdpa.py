"""`torch.nn.functional.scaled_dot_product_attention`: the kernel that PyTorch chooses, and each one by name."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

try:
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ModuleNotFoundError:  # before PyTorch 2.3: what asks for a kernel by name raises, the rest does not ask
    SDPBackend = sdpa_kernel = None

Tensor = Any


def sdpa(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
         causal: bool = False, scale: float | None = None) -> Tensor:
    """The kernel that PyTorch chooses, without gradients unless they are asked for."""
    with torch.set_grad_enabled(query.requires_grad):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def sdpa_math(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
              causal: bool = False, scale: float | None = None) -> Tensor:
    """The reference kernel."""
    with torch.set_grad_enabled(query.requires_grad), sdpa_kernel(SDPBackend.MATH):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def sdpa_flash(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
               causal: bool = False, scale: float | None = None) -> Tensor:
    """The fused kernel."""
    with torch.set_grad_enabled(query.requires_grad), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def sdpa_with_gradient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                       causal: bool = False, scale: float | None = None) -> Tensor:
    """The kernel that PyTorch chooses while it records for a backward pass."""
    query, key, value = (tensor.requires_grad_() for tensor in (query, key, value))
    return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def sdpa_vmapped(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                 causal: bool = False, scale: float | None = None) -> Tensor:
    """Under torch.func.vmap, one batch entry (H,T,D) at a time; what is the same for all of them is not mapped."""
    def alone(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)

    B = query.shape[0]
    shared = [tensor is None or tensor.dim() < 4 or tensor.shape[0] < B for tensor in (mask, bias)]
    mask, bias = (tensor[0] if tensor is not None and tensor.dim() == 4 and alike else tensor
                  for tensor, alike in zip((mask, bias), shared))
    with torch.no_grad():
        mapped = torch.func.vmap(alone, in_dims=(0, 0, 0, *(None if alike else 0 for alike in shared)))
        return mapped(query, key, value, mask, bias)


def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, bias: Tensor, causal: bool,
            scale: float | None) -> Tensor:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), by the kernel that is allowed.

    There is one argument for mask and bias: a boolean tensor (True = may attend) or one to be added.

    What PyTorch 2.0 did not know yet (`scale` came with 2.1, `enable_gqa` with 2.5) is handed over where it is in use.
    """
    both = bias.masked_fill(~mask, float("-inf")) if mask is not None and bias is not None else None
    attn_mask = next((tensor for tensor in (both, mask, bias) if tensor is not None), None)
    younger: dict[str, Any] = {**({} if scale is None else {"scale": scale}),
                               **({"enable_gqa": True} if key.shape[-3] != query.shape[-3] else {})}
    return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, is_causal=causal, **younger)
