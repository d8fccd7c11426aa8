"""The operator Attention in the reference evaluator of ONNX: inputs of four axes, of three, and with a window."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional, Tuple

from onnx.reference import ReferenceEvaluator

from .model import Node, attention_model, feeds, heads_apart, heads_side_by_side, node_of

Array = Any
Window = Tuple[Optional[int], Optional[int]]


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
           scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,H,L,D)."""
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights)
    return evaluated(node, feeds(query, key, value, mask, bias))


def attend_24(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
              scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-24 of inputs (B,H,L,D)."""
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights, opset=24)
    return evaluated(node, feeds(query, key, value, mask, bias))


def attend_25(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
              scale: float | None = None, softcap: float | None = None, window: Window | None = None,
              return_weights: bool = False) -> Array:
    """Attention-25, which has a window, of inputs (B,H,L,D)."""
    left, right = window or (None, None)
    bounds = (-1 if left is None else left, -1 if right is None else right) if window else None
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, window=bounds,
                   weights=return_weights, opset=25)
    return evaluated(node, feeds(query, key, value, mask, bias))


def attend_3d(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
              scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,L,H·D): heads lie side by side, their number is an attribute."""
    heads = (query.shape[1], key.shape[1])
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights, heads=heads)
    query, key, value = (heads_side_by_side(array) for array in (query, key, value))
    answer = evaluated(node, feeds(query, key, value, mask, bias))
    if return_weights:
        return heads_apart(answer[0], heads[0]), answer[1]
    return heads_apart(answer, heads[0])


def evaluated(node: Node, inputs: dict[str, Array]) -> Array:
    """The output, or the pair of output and weights."""
    outputs = _evaluator(node).run(None, inputs)
    return (outputs[0], outputs[-1]) if node.weights else outputs[0]


@lru_cache(maxsize=512)
def _evaluator(node: Node) -> ReferenceEvaluator:
    return ReferenceEvaluator(attention_model(node))
