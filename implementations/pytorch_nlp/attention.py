"""`torchnlp.nn.Attention("dot")`: unscaled dot products of a query with one context, which is key and value.

Handed the query beside zeros, and key beside value as the context, it attends by the keys and mixes the values. What it
makes of the mix, tanh(W [mix, query]), is left aside: the mix is read where it enters the module's `linear_out`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torchnlp.nn import Attention

Tensor = Any  # torch is not seen by mypy
Module = Any


def dot(query: Tensor, key: Tensor, value: Tensor, *, return_weights: bool = False) -> Tensor:
    """Query (B,H,T,D), key (B,H,S,D), value (B,H,S,Dv) to (B,H,T,Dv), and weights (B,H,T,S) if asked for."""
    D, Dv = query.shape[-1], value.shape[-1]
    beside = query.new_zeros((*query.shape[:-1], Dv))
    queries = torch.cat([query * D**-0.5, beside], dim=-1).flatten(0, 1)
    context = torch.cat([key, value], dim=-1).flatten(0, 1)
    mix, weights = _mix(_module(D + Dv, query.dtype), queries, context)
    shape = query.shape[:-1]
    output = mix[..., D : D + Dv].reshape(*shape, Dv)
    return (output, weights.reshape(*shape, key.shape[-2])) if return_weights else output


def _mix(module: Module, queries: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    """What enters `linear_out`, and the weights."""
    entering: list[Tensor] = []
    hook = module.linear_out.register_forward_pre_hook(lambda _, inputs: entering.append(inputs[0]))
    try:
        with torch.no_grad():
            _, weights = module(queries, context)
    finally:
        hook.remove()
    return entering[0], weights


@lru_cache(maxsize=64)
def _module(dimensions: int, dtype: Any) -> Module:  # noqa: ANN401  (a torch.dtype)
    return Attention(dimensions, attention_type="dot").to(dtype).eval()
