"""`flex_attention` as it is meant to be used: compiled. Each head width and use of keywords is a kernel of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from .compiling import compile_often
from .flex import Window, hiding, scoring

Tensor = Any  # torch is not seen by mypy


def compiled(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    """Compiled with open shapes. Without gradients, since on CPU it has no backward pass."""
    shape = (None, None, query.shape[2], key.shape[2])
    with torch.no_grad():
        return _compiled()(query, key, value,
                           block_mask=create_block_mask(_causal, *shape, device=query.device) if causal else None)


def compiled_on_gpu(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor = None, bias: Tensor = None,
                    causal: bool = False, scale: float | None = None, window: Window | None = None,
                    softcap: float | None = None) -> Tensor:
    """With every keyword: on a GPU Triton compiles a kernel in a fraction of the time that C++ takes.

    A softcap is a tensor: a second Python number in a score_mod makes Inductor raise ("unbacked_bindings").
    """
    cap = None if softcap is None else torch.tensor(softcap, device=query.device)
    mask_mod = hiding(mask, window, causal=causal)
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    with torch.no_grad():
        blocks = create_block_mask(mask_mod, *shape, device=query.device) if mask_mod else None
        return _compiled()(query, key, value, score_mod=scoring(bias, cap), block_mask=blocks, scale=scale,
                           enable_gqa=key.shape[1] != query.shape[1])


def _causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


@lru_cache(maxsize=1)
def _compiled() -> Any:  # noqa: ANN401  (a function that torch made)
    return compile_often(flex_attention, dynamic=True, programs=256)
