"""Parameters of the convention x @ W + b as Flax keeps them: one axis for the heads, one for a head's width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Array = Any


def kernels(params: Mapping[str, Array], heads: int, kv_heads: int = 0) -> Mapping[str, Mapping[str, Array]]:
    """`query`, `key`, `value`: kernel (M,H,D), bias (H,D); `out`: kernel (H,Dv,M), bias (M)."""
    counts = {"query": heads, "key": kv_heads or heads, "value": kv_heads or heads}
    split = {name: {"kernel": params[f"w_{name}"].reshape(params[f"w_{name}"].shape[0], count, -1),
                    "bias": params[f"b_{name}"].reshape(count, -1)} for name, count in counts.items()}
    out = {"kernel": params["w_out"].reshape(heads, -1, params["w_out"].shape[1]), "bias": params["b_out"]}
    return {**split, "out": out}
