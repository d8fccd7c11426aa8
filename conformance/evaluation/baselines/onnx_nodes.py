"""The node cases of ONNX's Attention operator that fit the contract, made from their description: no onnx is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array, Problem

from evaluation.baselines.inputs import Suite, draw_array, uniform

SCALE = 1e-2


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `mask`: the shape of a float or boolean mask; `hidden`: what a boolean one says (all True if empty).

    `side_by_side`: the heads lie beside each other, (B,T,H·D), and are looked at through a transposed view.
    `alone`: the one dtype that the case is published in, where it is not float32.
    """

    name: str
    H: int = 3
    Dv: int = 8
    causal: bool = False
    scale: float | None = None
    mask: tuple[int, ...] = ()
    boolean: bool = False
    shown: tuple[tuple[int, ...], ...] = ()
    weights: bool = False
    side_by_side: bool = False
    alone: DType | None = None

    @property
    def is_small(self) -> bool:
        """Two queries and two keys, two heads: the cases about rows that see nothing."""
        return bool(self.shown)

    def problem(self, dtype: DType, seed: int) -> Problem:
        """The problem, entries uniform in [0, 1)."""
        B, H, Hkv, T, S = (1, 2, 2, 2, 2) if self.is_small else (2, self.H, 3, 4, 6)
        query, key, value = (self._array(dtype, seed, name, shape) for name, shape in (
            ("query", (B, H, T, 8)), ("key", (B, Hkv, S, 8)), ("value", (B, Hkv, S, self.Dv))))
        problem = Problem(dtype, query, key, value, causal=self.causal, scale=self.scale, return_weights=self.weights)
        return self._add_mask(problem, seed, (B, H, T, S))

    def _array(self, dtype: DType, seed: int, label: str, shape: tuple[int, ...]) -> Array:
        """An input (B,H,T,D); a transposed view of (B,T,H,D) where heads lie side by side."""
        if not self.side_by_side:
            return draw_array(uniform, seed, f"{self.name} {label}", shape, dtype)
        B, H, T, D = shape
        return draw_array(uniform, seed, f"{self.name} {label}", (B, T, H, D), dtype).swapaxes(1, 2)

    def _add_mask(self, problem: Problem, seed: int, shape: tuple[int, ...]) -> Problem:
        if self.shown:
            return problem.but(mask=np.broadcast_to(np.array(self.shown, bool), shape).copy())
        if not self.mask:
            return problem
        if self.boolean:
            return problem.but(mask=np.ones(shape, bool))
        bias = draw_array(uniform, seed, f"{self.name} mask", self.mask, problem.dtype)
        return problem.but(bias=np.broadcast_to(bias, shape).copy())


_TWO, _FOUR, _ALL = (4, 6), (2, 1, 4, 6), (2, 3, 4, 6)
_EMPTY_FIRST, _EMPTY_LAST = ((0, 0), (1, 1)), ((1, 0), (0, 0))

_OF_BOTH_LAYOUTS = (
    Node(""), Node("gqa", H=9), Node("diff_heads_sizes", Dv=10),
    Node("scaled", scale=SCALE), Node("gqa_scaled", H=9, scale=SCALE),
    Node("diff_heads_sizes_scaled", Dv=10, scale=SCALE),
    Node("causal", causal=True), Node("gqa_causal", H=9, causal=True),
    Node("diff_heads_sizes_causal", Dv=10, causal=True),
    Node("attn_mask", mask=_TWO), Node("gqa_attn_mask", H=9, mask=_TWO),
    Node("diff_heads_sizes_attn_mask", Dv=10, mask=_TWO),
    Node("causal_bf16", causal=True, alone=DType.BFLOAT16),
)


def _name_node(layout: str, node: Node, *, side_by_side: bool) -> Node:
    name = f"{layout}_{node.name}" if node.name else layout
    return replace(node, name=name, side_by_side=side_by_side)


NODES: tuple[Node, ...] = (
    *(_name_node("4d", node, side_by_side=False) for node in _OF_BOTH_LAYOUTS),
    Node("4d_fp16", alone=DType.FLOAT16), Node("4d_causal_fp16", causal=True, alone=DType.FLOAT16),
    Node("4d_attn_mask_3d", mask=_FOUR), Node("4d_attn_mask_3d_causal", mask=_FOUR, causal=True),
    Node("4d_attn_mask_4d", mask=_ALL), Node("4d_attn_mask_4d_causal", mask=_ALL, causal=True),
    Node("4d_attn_mask_causal_bf16", mask=_FOUR, causal=True, alone=DType.BFLOAT16),
    Node("4d_attn_mask_bool", mask=_TWO, boolean=True), Node("4d_attn_mask_bool_4d", mask=_ALL, boolean=True),
    Node("4d_with_qk_matmul_softmax", mask=_TWO, weights=True),
    *(_name_node("3d", node, side_by_side=True) for node in _OF_BOTH_LAYOUTS),
    Node("causal_boolmask_nan_robustness", shown=_EMPTY_LAST, causal=True),
    Node("23_boolmask_fullymasked_row_nan_robustness", shown=_EMPTY_FIRST),
    Node("23_fullymasked_qk_matmul_output_mode3_zero", shown=_EMPTY_FIRST, weights=True),
    Node("24_qk_matmul_output_mode3_softmax_precision", shown=_EMPTY_FIRST, weights=True, alone=DType.FLOAT16),
)
"""Cases by the names that ONNX publishes them under, less `test_attention_`."""

LEFT_OUT = {
    "3d_transpose_verification": "constant entries that every arrangement of heads answers alike but ONNX's own; "
                                 "the other cases with heads side by side ask the same",
    "4d_with_qk_matmul": "attention as in `4d`; its second output is raw logits, which the contract does not return",
    "4d_with_qk_matmul_bias": "attention as in `4d_attn_mask`; its second output is logits",
    "24_fullymasked_qk_matmul_output_mode3_zero": "the same node under a later version of the operator set",
}
"""Published cases that would fit and are not made again, with the reason."""


def _problems(dtype: DType, seed: int) -> Iterator[Problem]:
    """At float32 the cases published in it; at the half dtypes all of them, those of the dtype as they are."""
    for node in NODES:
        if node.alone in (None, dtype):
            yield node.problem(dtype, seed)


ONNX_NODES = Suite(_problems)
