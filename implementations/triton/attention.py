"""The forward pass of FlashAttention-2 (Dao 2023, arXiv:2307.08691, algorithm 1) as a Triton kernel, after the paper.

Each program has one block of queries and goes through the keys block by block. For every query it keeps the largest
logit so far, the sum of the exponentials relative to it, and the sum of values that they weigh; when the largest grows,
both sums are rescaled. At the end one is divided by the other.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

Tensor = Any  # torch is not seen by mypy

QUERIES, KEYS = 64, 32  # of a block
LEAST = 16  # the shortest side of a block that tl.dot takes


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None) -> Tensor:
    """Products of float32 in float32, `input_precision="ieee"`; halves are multiplied exactly in any case."""
    return _attend(query, key, value, causal=causal, scale=scale, input_precision="ieee")


def attend_tf32(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False,
                scale: float | None = None) -> Tensor:
    """Products of float32 in TF32, which is what `tl.dot` does unless it is told otherwise."""
    return _attend(query, key, value, causal=causal, scale=scale, input_precision="tf32")


def _attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None,
            input_precision: str) -> Tensor:
    """Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv), whatever the strides."""
    B, H, T, D = query.shape
    S, Dv = value.shape[2:]
    if key.shape[2] != S:
        raise ValueError(f"key and value need the same number of keys: {key.shape[2]} and {S} were given")
    output = torch.empty((B, H, T, Dv), dtype=query.dtype, device=query.device)
    strides = [stride for tensor in (query, key, value, output) for stride in tensor.stride()]
    forward[(triton.cdiv(T, QUERIES), B * H)](
        query, key, value, output, *strides, D ** -0.5 if scale is None else scale, H, H // key.shape[1], T, S, D, Dv,
        CAUSAL=causal, INPUT_PRECISION=input_precision, BLOCK_T=QUERIES, BLOCK_S=KEYS, BLOCK_D=_block(D),
        BLOCK_DV=_block(Dv), num_stages=1)  # one block at a time: several of 256 float32 columns fill the shared memory
    return output


def _block(width: int) -> int:
    """Blocks have sides that are powers of two."""
    length: int = max(LEAST, triton.next_power_of_2(width))
    return length


@triton.jit  # type: ignore[untyped-decorator]  # triton is not seen by mypy
def forward(query, key, value, output, q_b, q_h, q_t, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d, o_b, o_h, o_t, o_d,  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917  (Triton reads it, not Python)
            scale, H, group, T, S, D, Dv, CAUSAL: tl.constexpr, INPUT_PRECISION: tl.constexpr, BLOCK_T: tl.constexpr,  # noqa: ANN001
            BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr):
    """One block of queries of one head. Strides: of each tensor, in entries, named by tensor and axis."""
    first, batch, head = tl.program_id(0) * BLOCK_T, tl.program_id(1) // H, tl.program_id(1) % H
    queries, features, columns = first + tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    q = tl.load(query + batch * q_b + head * q_h + queries[:, None] * q_t + features[None, :] * q_d,
                mask=(queries[:, None] < T) & (features[None, :] < D), other=0.0)
    largest = tl.full([BLOCK_T], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_T], tl.float32)
    weighed = tl.zeros([BLOCK_T, BLOCK_DV], tl.float32)
    end = tl.minimum(S, first + BLOCK_T) if CAUSAL else S
    for start in range(0, end, BLOCK_S):
        keys = start + tl.arange(0, BLOCK_S)
        k = tl.load(key + batch * k_b + head // group * k_h + keys[None, :] * k_s + features[:, None] * k_d,
                    mask=(keys[None, :] < S) & (features[:, None] < D), other=0.0)
        v = tl.load(value + batch * v_b + head // group * v_h + keys[:, None] * v_s + columns[None, :] * v_d,
                    mask=(keys[:, None] < S) & (columns[None, :] < Dv), other=0.0)
        logits = tl.dot(q, k, input_precision=INPUT_PRECISION) * scale
        visible = (keys[None, :] < S) & (keys[None, :] <= queries[:, None]) if CAUSAL else keys[None, :] < S
        logits = tl.where(visible, logits, float("-inf"))
        grown = tl.maximum(largest, tl.max(logits, 1))  # finite: every query sees the first key
        weights = tl.exp(logits - grown[:, None])
        rescale = tl.exp(largest - grown)
        total = total * rescale + tl.sum(weights, 1)
        weighed = weighed * rescale[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=INPUT_PRECISION)
        largest = grown
    tl.store(output + batch * o_b + head * o_h + queries[:, None] * o_t + columns[None, :] * o_d,
             (weighed / total[:, None]).to(output.dtype.element_ty),
             mask=(queries[:, None] < T) & (columns[None, :] < Dv))
