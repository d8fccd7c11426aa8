"""tinygrad's `Tensor.scaled_dot_product_attention` on CPU, which compiles each new shape with clang."""

from __future__ import annotations

import math
import shutil
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.helpers import Context

Array = Any

if shutil.which("clang") is None:
    # without it tinygrad says "no usable devices" at every call, as if attention were what fails
    raise ImportError("tinygrad compiles its kernels with clang, and there is no clang here (apt-get install clang)")


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
           causal: bool = False) -> Array:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv). There is no scale."""
    tensors = [_tensor(array) for array in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    return tensors[0].scaled_dot_product_attention(
        *tensors[1:], attn_mask=_attn_mask(mask, bias), is_causal=causal, enable_gqa=grouped).numpy()


def in_training(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                causal: bool = False) -> Array:
    """As `attend`, in tinygrad's training mode, where dropout, here 0, would act."""
    with Context(TRAINING=1):
        return attend(query, key, value, mask=mask, bias=bias, causal=causal)


def _attn_mask(mask: Array, bias: Array) -> Tensor | None:
    """There is one argument for mask and bias: boolean (True = may attend), or to be added."""
    both = np.where(mask, bias, np.array(-math.inf, bias.dtype)) if mask is not None and bias is not None else None
    given = next((array for array in (both, mask, bias) if array is not None), None)
    return None if given is None else _tensor(given)


def _tensor(array: Array) -> Tensor:
    return Tensor(np.ascontiguousarray(array), device="CPU")
