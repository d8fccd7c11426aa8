"""The node cases of ONNX's Attention operator with past keys, and with numbers of keys, made from their description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from attnspec.core.forms import KEY_COUNTS
from attnspec.core.keyword import Window
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.problems.problem import Problem

from evaluation.baselines.inputs import Suite
from evaluation.baselines.onnx_nodes import Node


@dataclass(frozen=True, slots=True)
class ServedNode(Node):
    """One node. past: how many keys are past ones.  lengths: how many keys each sequence has; all if empty.

    allowed: (B,T,S), what a boolean mask allows.  The mask of others has a column for past keys, too.
    """

    B: int = 2
    Hkv: int = 3
    T: int = 4
    S: int = 6
    past: int = 0
    lengths: tuple[int, ...] = ()
    window: Window | None = None
    allowed: tuple[tuple[tuple[int, ...], ...], ...] = ()

    def problem(self, dtype: DType, seed: int) -> Problem:
        """The problem, entries uniform in [0, 1)."""
        query, key, value, *past = (self._array(dtype, seed, name, shape) for name, shape in self._shapes().items())
        given = dict(zip(CACHED, past, strict=False)) | (
            {KEY_COUNTS: np.array(self.lengths, np.int32)} if self.lengths else {})
        plain = Problem(dtype, query, key, value, causal=self.causal, window=self.window, return_weights=self.weights)
        shape = (self.B, self.H, self.T, self.past + self.S)
        if self.allowed:
            allowed = np.array(self.allowed, bool)[:, None]
            return plain.but(**given, mask=np.broadcast_to(allowed, shape).copy())
        return self._add_mask(plain.but(**given), seed, shape)

    def _shapes(self) -> dict[str, tuple[int, int, int, int]]:
        held = {"key": 8, "value": self.Dv}
        past = {f"past {name}": (self.B, self.Hkv, self.past, width) for name, width in held.items()}
        return {"query": (self.B, self.H, self.T, 8),
                **{name: (self.B, self.Hkv, self.S, width) for name, width in held.items()},
                **(past if self.past else {})}


_PAST = "with_past_and_present"
_TWO, _FOUR, _ALL, _HEADS = (4, 18), (2, 1, 4, 18), (2, 3, 4, 18), (3, 4, 8)
_COMPOSED = (((1, 1, 1, 0, 0, 0), (1, 1, 1, 0, 0, 0), (1, 0, 1, 1, 0, 0)),
             ((1, 1, 1, 1, 0, 0), (1, 1, 1, 1, 0, 0), (1, 1, 0, 1, 1, 0)))

_OF_BOTH_LAYOUTS = (
    ServedNode(_PAST, mask=_TWO, past=12), ServedNode(f"gqa_{_PAST}", H=9, mask=_TWO, past=12),
    ServedNode(f"diff_heads_{_PAST}", Dv=10, mask=_TWO, past=12),
)
_EXTERNAL = ServedNode("local_window_ext_cache", causal=True, S=8, lengths=(6, 7), window=(2, None))

_WITH_LENGTHS = (
    ServedNode("4d_diff_heads_mask4d_padded_kv", Dv=10, mask=(2, 3, 4, 6), lengths=(3, 4)),
    *(ServedNode(f"4d_{name}padded_kv_bf16", causal=bool(name), mask=(2, 3, 4, 6), lengths=(3, 4), alone=DType.BFLOAT16)
      for name in ("", "causal_")),
    ServedNode("4d_causal_nonpad_continued_prefill", B=1, H=2, Hkv=2, T=2, S=4, causal=True, lengths=(4,)),
    ServedNode("4d_causal_nonpad_attn_mask_composition", H=2, Hkv=2, T=3, causal=True, lengths=(4, 5),
               allowed=_COMPOSED),
    ServedNode("4d_causal_nonpad_batch_prefill", B=3, H=2, Hkv=2, T=2, causal=True, lengths=(4, 5, 6)),
    replace(_EXTERNAL, name="local_window_ext_cache_rank3_head_mask", mask=_HEADS),
    replace(_EXTERNAL, name="local_window_ext_cache_rank4_batch_mask", mask=(2, 1, 4, 8)),
    replace(_EXTERNAL, name="local_window_ext_cache_rank2_mask", mask=(1, 8)),
)
_DECODE = ServedNode("4d_gqa_causal_nonpad_decode", H=4, Hkv=2, T=1, S=8, lengths=(8, 5))
"""Causal where it is published, by a diagonal that ends bottom-right: its one query sees all keys."""

NODES: tuple[ServedNode, ...] = (
    *(replace(node, name=f"4d_{node.name}") for node in _OF_BOTH_LAYOUTS),
    ServedNode(f"4d_gqa_{_PAST}_fp16", H=9, mask=_TWO, past=12, alone=DType.FLOAT16),
    ServedNode(f"4d_diff_heads_{_PAST}_mask3d", Dv=10, mask=_FOUR, past=12),
    ServedNode(f"4d_diff_heads_{_PAST}_mask4d", Dv=10, mask=_ALL, past=12),
    ServedNode(f"4d_{_PAST}_qk_matmul_bias_3d_mask_causal", mask=_FOUR, causal=True, past=12),
    ServedNode(f"4d_{_PAST}_qk_matmul_bias_4d_mask_causal", mask=_ALL, causal=True, past=12),
    *(replace(node, name=f"3d_{node.name}", side_by_side=True) for node in _OF_BOTH_LAYOUTS),
    ServedNode(f"3d_{_PAST}_qk_matmul_softmax", mask=_TWO, past=12, weights=True, side_by_side=True),
    ServedNode(f"4d_causal_{_PAST}", S=4, causal=True, past=3),
    ServedNode("local_window_with_past", S=2, causal=True, past=8, window=(2, None)),
    _DECODE, replace(_DECODE, name=f"{_DECODE.name}_fp16", alone=DType.FLOAT16),
    *_WITH_LENGTHS,
    *(replace(node, name=f"{node.name}, no diagonal", causal=False, window=None) for node in _WITH_LENGTHS
      if node.causal),
)
"""Cases by the names that ONNX publishes them under, less `test_attention_`.

A mask of fewer columns than keys is put at full width: the numbers of keys hide the others.
ONNX's diagonal ends at the number of keys, attnspec's recommended one top-left, before which no number matters. So
causal cases with numbers of keys are put without a diagonal, too.
"""

LEFT_OUT = {
    "4d_with_past_and_present_qk_matmul": "attention as in `4d_with_past_and_present`; its second output is raw logits",
    "4d_with_past_and_present_qk_matmul_bias": "the same; its second output is logits",
    "4d_with_past_and_present_qk_matmul_bias_3d_mask": "attention as in the case with a 3d mask; the same",
    "4d_with_past_and_present_qk_matmul_bias_4d_mask": "attention as in the case with a 4d mask; the same",
    "3d_with_past_and_present_qk_matmul": "attention as in `3d_with_past_and_present`; its second output is raw logits",
    "3d_with_past_and_present_qk_matmul_bias": "the same; its second output is logits",
    "3d_with_past_and_present_qk_matmul_softcap": "the same; its second output is capped logits",
    "4d_causal_nonpad_negative_offset_structural_empty":
        "rows that see no key under a diagonal that ends bottom-right; top-left all of them see some",
    "local_window_ext_cache_float16_mask": "queries, keys and mask of zeros, values of ones, which any mean answers",
}
"""Published cases with past keys or numbers of keys that are not made again, with the reason."""


def _problems(dtype: DType, seed: int) -> Iterator[Problem]:
    """As `onnx_nodes` has them: at the half dtypes those that are published in float32, too."""
    for node in NODES:
        if node.alone in (None, dtype):
            yield node.problem(dtype, seed)


ONNX_SERVING = Suite(_problems)
