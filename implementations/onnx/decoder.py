"""The operator Attention as a decoder: its present keys and values are the past ones of the next call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from onnx.reference import ReferenceEvaluator

from .model import Node, attention_model, feeds, node_of
from .serving import Window, bounds

Array = Any
Cache = Optional[Tuple[Array, Array]]  # present keys (B,Hkv,P,D) and values (B,Hkv,P,Dv)
Outputs = Callable[[Node, Dict[str, Array]], Sequence[Array]]


def stepped(outputs_of: Outputs, query: Array, key: Array, value: Array, cache: Cache, *, mask: Array, bias: Array,
            **settings: Any) -> tuple[Any, ...]:  # noqa: ANN401  (a node's)
    """The output, weights if they are among the settings, and the cache. The first past has no keys."""
    past = cache or (key[:, :, :0], value[:, :, :0])
    node = node_of(query, mask, bias, past=True, **settings)
    output, *present = outputs_of(node, {**feeds(query, key, value, mask, bias), "past_key": past[0],
                                         "past_value": past[1]})
    return (output, *present[2:], (present[0], present[1]))


def attend(query: Array, key: Array, value: Array, cache: Cache, *, mask: Array = None, bias: Array = None,
           causal: bool = False, scale: float | None = None, softcap: float | None = None,
           return_weights: bool = False) -> tuple[Any, ...]:
    """Attention-23 of inputs (B,H,L,D)."""
    return stepped(_outputs, query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale,
                   softcap=softcap, weights=return_weights)


def attend_25(query: Array, key: Array, value: Array, cache: Cache, *, mask: Array = None, bias: Array = None,
              causal: bool = False, scale: float | None = None, softcap: float | None = None, window: Window = None,
              return_weights: bool = False) -> tuple[Any, ...]:
    """Attention-25, which has a window."""
    return stepped(_outputs, query, key, value, cache, mask=mask, bias=bias, causal=causal, scale=scale,
                   softcap=softcap, window=bounds(window), weights=return_weights, opset=25)


def _outputs(node: Node, inputs: dict[str, Array]) -> Sequence[Array]:
    outputs: Sequence[Array] = _evaluator(node).run(None, inputs)
    return outputs


@lru_cache(maxsize=512)
def _evaluator(node: Node) -> ReferenceEvaluator:
    return ReferenceEvaluator(attention_model(node))
