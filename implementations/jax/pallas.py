"""The attention kernel in Pallas that JAX brings for GPUs, `pallas.ops.gpu.attention.mha`, interpreted on CPU.

It puts T before H; its own default scale is 1; blocks must divide the lengths, so they are their largest divisors.
"""

from __future__ import annotations

import math
from typing import Any

from jax.experimental.pallas.ops.gpu import attention as kernel

from .compiled import hurried_jit

Array = Any

LARGEST_BLOCK = 128  # the kernel's default


def _attend(query: Array, key: Array, value: Array, *, causal: bool = False, scale: float | None = None) -> Array:
    """Query (B,H,T,D), key and value (B,H,S,D) to (B,H,T,D)."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    blocks = _blocks(query.shape[1], key.shape[1])
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    output = kernel.mha(query, key, value, None, sm_scale=scale, causal=causal, interpret=True, **blocks)
    return output.swapaxes(1, 2)


def _blocks(T: int, S: int) -> dict[str, Any]:
    """As the kernel takes them, those of the backward pass too; in JAX 0.4 they are parameters of their own.

    The backward pass takes as many blocks of queries as of keys.
    """
    sizes = {"block_q": _block(T), "block_k": _block(S)}
    if not hasattr(kernel, "BlockSizes"):
        return sizes
    common = math.gcd(T, S)
    many = next((n for n in range(1, common) if common % n == 0 and max(T, S) // n <= LARGEST_BLOCK), common)
    q, k = T // many, S // many
    backward = {"block_q_dkv": q, "block_kv_dkv": k, "block_q_dq": q, "block_kv_dq": k}
    return {"block_sizes": kernel.BlockSizes(**sizes, **backward)}


def _block(length: int) -> int:
    return max(size for size in range(1, min(length, LARGEST_BLOCK) + 1) if length % size == 0)


attend = hurried_jit(_attend, "causal", "scale")
