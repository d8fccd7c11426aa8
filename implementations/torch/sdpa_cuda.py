"""`scaled_dot_product_attention` on CUDA, each of its kernels by name.

The memory-efficient and the cuDNN kernel take widths that are multiples of 8 only (PyTorch, sdp_utils.cpp). Others are
filled up with zeros, as PyTorch does itself for the flash kernel, and the scale stays that of the width as it was.
Masks are copied: the memory-efficient kernel looks at the stride of an axis of length 1, too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad

from .sdpa import attend

Tensor = Any  # torch is not seen by mypy

MULTIPLE = 8


def flash(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None) -> Tensor:
    """The flash kernel, which takes no mask and no bias."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return attend(query, key, value, mask=None, bias=None, causal=causal, scale=scale)


def efficient(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
              causal: bool = False, scale: float | None = None) -> Tensor:
    """The memory-efficient kernel."""
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return _filled(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def cudnn(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
          causal: bool = False, scale: float | None = None) -> Tensor:
    """CuDNN's."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return _filled(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def math(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
         causal: bool = False, scale: float | None = None) -> Tensor:
    """Products, softmax and sum one after the other, float32 in float32: TF32 is off unless it is switched on."""
    with sdpa_kernel(SDPBackend.MATH), _tf32(on=False):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def math_tf32(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
              causal: bool = False, scale: float | None = None) -> Tensor:
    """The same with TF32 switched on."""
    with sdpa_kernel(SDPBackend.MATH), _tf32(on=True):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def _filled(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor, bias: Tensor, causal: bool,
            scale: float | None) -> Tensor:
    """With widths filled up to a multiple of 8; the output (B,H,T,Dv) has the width that was asked for."""
    width, value_width = query.shape[-1], value.shape[-1]
    mask, bias = (each if each is None else each.clone(memory_format=torch.contiguous_format) for each in (mask, bias))
    query, key, value = (pad(each, (0, -each.shape[-1] % MULTIPLE)) for each in (query, key, value))
    output = attend(query, key, value, mask=mask, bias=bias, causal=causal,
                    scale=width ** -0.5 if scale is None else scale)
    return output[..., :value_width]


@contextmanager
def _tf32(*, on: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
