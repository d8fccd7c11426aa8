"""The attention kernel in Pallas that JAX brings for GPUs, `pallas.ops.gpu.attention.mha`, interpreted on CPU.

It puts T before H; its own default scale is 1; blocks must divide the lengths, so they are their largest divisors.
"""

from __future__ import annotations

from typing import Any

from jax.experimental.pallas.ops.gpu import attention as kernel

from .compiled import hurried_jit

Array = Any

LARGEST_BLOCK = 128  # the kernel's default


def _attend(query: Array, key: Array, value: Array, *, causal: bool = False, scale: float | None = None) -> Array:
    """Query (B,H,T,D), key and value (B,H,S,D) to (B,H,T,D)."""
    query, key, value = (array.swapaxes(1, 2) for array in (query, key, value))
    blocks = _blocks(block_q=_block(query.shape[1]), block_k=_block(key.shape[1]))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    output = kernel.mha(query, key, value, None, sm_scale=scale, causal=causal, interpret=True, **blocks)
    return output.swapaxes(1, 2)


def _blocks(**sizes: int) -> dict[str, Any]:
    """As the kernel takes them, those of the backward pass too; in JAX 0.4 they are parameters of their own."""
    if not hasattr(kernel, "BlockSizes"):
        return sizes
    q, k = sizes["block_q"], sizes["block_k"]
    backward = {"block_q_dkv": q, "block_kv_dkv": k, "block_q_dq": q, "block_kv_dq": k}
    return {"block_sizes": kernel.BlockSizes(**sizes, **backward)}


def _block(length: int) -> int:
    return max(size for size in range(1, min(length, LARGEST_BLOCK) + 1) if length % size == 0)


attend = hurried_jit(_attend, "causal", "scale")
