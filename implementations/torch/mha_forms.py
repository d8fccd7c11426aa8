"""`torch.nn.MultiheadAttention` in the other forms that its documentation has: layouts of inputs, and of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .filled import PARTS, Filled
from .mha import all_but_inputs, attn_mask, module_with

Tensor = Any  # torch is not seen by mypy
Module = Any
Dtype = Any


def sequence_first(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                   mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """batch_first=False, the default: inputs (T,B,M) and (S,B,M)."""
    module = module_with(query, params, heads, batch_first=False).train()
    inputs = (tensor.transpose(0, 1) for tensor in (query, key, value))
    return _attended(module, inputs, attn_mask(query, key, mask, bias, causal)).transpose(0, 1)


def unbatched(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
              mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """Each batch entry alone, without an axis for the batch: (T,M) and (S,M)."""
    module = module_with(query, params, heads).train()
    outputs = []
    for entry in range(query.shape[0]):
        one = slice(entry, entry + 1)
        its_mask, its_bias = (None if each is None else each[one] for each in (mask, bias))
        hidden = attn_mask(query[one], key[one], its_mask, its_bias, causal)
        outputs.append(_attended(module, (query[entry], key[entry], value[entry]), hidden))
    return torch.stack(outputs)


def separate_projections(query: Tensor, key: Tensor, value: Tensor, *, params: Mapping[str, Tensor], heads: int,
                         mask: Tensor = None, bias: Tensor = None, causal: bool = False) -> Tensor:
    """With kdim and vdim, which give each input its own projection: keys and values get one more column, of zeros."""
    module, wider = _separate(query.shape[-1], heads, query.dtype), {"query": 0, "key": 1, "value": 1}
    weights = {f"{name[0]}_proj_weight": nn.functional.pad(params[f"w_{name}"].T, (0, wider[name])) for name in PARTS}
    module = Filled(module, {**weights, **all_but_inputs(params)}).train()
    inputs = (query, nn.functional.pad(key, (0, 1)), nn.functional.pad(value, (0, 1)))
    return _attended(module, inputs, attn_mask(query, key, mask, bias, causal))


def _attended(module: Module, inputs: Any, hidden: Tensor) -> Tensor:  # noqa: ANN401  (three tensors)
    return module(*inputs, attn_mask=hidden, need_weights=False)[0]


@lru_cache(maxsize=64)
def _separate(width: int, heads: int, dtype: Dtype) -> Module:
    return nn.MultiheadAttention(width, heads, kdim=width + 1, vdim=width + 1, batch_first=True, dtype=dtype)
