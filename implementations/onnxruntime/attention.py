"""The operators Attention-23 and -24 in ONNX Runtime on CPU, with all of its graph optimisations and with none."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnxruntime

from ..onnx.model import Node, attention_model, feeds, heads_apart, heads_side_by_side, node_of

Array = Any
ERRORS_ONLY = 3  # it warns where an inferred shape is not the one that comes out


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
           scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,H,L,D)."""
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights)
    return run(node, feeds(query, key, value, mask, bias))


def attend_24(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
              scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-24 of inputs (B,H,L,D)."""
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights, opset=24)
    return run(node, feeds(query, key, value, mask, bias))


def attend_both_ways(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                     scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """As `attend`, without its causal flag."""
    return attend(query, key, value, mask=mask, bias=bias, scale=scale, softcap=softcap, return_weights=return_weights)


def unoptimised(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None,
                causal: bool = False, scale: float | None = None, softcap: float | None = None,
                return_weights: bool = False) -> Array:
    """As `attend`, the graph run as it stands."""
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights)
    return run(node, feeds(query, key, value, mask, bias), optimise=False)


def attend_3d(query: Array, key: Array, value: Array, *, mask: Array = None, bias: Array = None, causal: bool = False,
              scale: float | None = None, softcap: float | None = None, return_weights: bool = False) -> Array:
    """Attention-23 of inputs (B,L,H·D): heads lie side by side, their number is an attribute."""
    heads = (query.shape[1], key.shape[1])
    node = node_of(query, mask, bias, causal=causal, scale=scale, softcap=softcap, weights=return_weights, heads=heads)
    query, key, value = (heads_side_by_side(array) for array in (query, key, value))
    answer = run(node, feeds(query, key, value, mask, bias))
    if return_weights:
        return heads_apart(answer[0], heads[0]), answer[1]
    return heads_apart(answer, heads[0])


def run(node: Node, inputs: dict[str, Array], *, optimise: bool = True) -> Array:
    """The output, or the pair of output and weights."""
    outputs = _session(node, optimise).run(None, inputs)
    return (outputs[0], outputs[-1]) if node.weights else outputs[0]


@lru_cache(maxsize=256)
def _session(node: Node, optimise: bool) -> Any:  # noqa: ANN401  (onnxruntime is not seen by mypy)
    return session(attention_model(node), optimise=optimise)


def session(model: Any, *, optimise: bool = True) -> Any:  # noqa: ANN401  (neither library is seen by mypy)
    """A session on CPU, of one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
