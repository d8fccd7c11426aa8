"""`attnax.MultiHeadAttention` on one input (its context serves as key and value alike), by the kernel of a type."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping

import attnax
from flax import nnx

from ..jax.compiled import hurried_jit

Array = Any
Params = Mapping[str, Array]

PROJECTIONS = {"query": "query_proj", "key": "key_proj", "value": "value_proj", "out": "output_proj"}


def _layer(kind: attnax.AttentionType, dropout_rate: float = 0.0) -> Callable[..., Array]:
    """The layer of this type, deterministic."""

    def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int,  # noqa: ARG001  (key and value are the query)
               mask: Array = None, causal: bool = False) -> Array:
        """X (B,T,M) to (B,T,M)."""
        layer = _with(params, heads, kind, dropout_rate)
        triangle = attnax.causal_mod() if causal else None
        return layer(query, mask=mask, score_mod=triangle, deterministic=True)

    return attend


def _with(params: Params, heads: int, kind: attnax.AttentionType, dropout_rate: float) -> attnax.MultiHeadAttention:
    """The layer that has these parameters."""
    (M, features), out_features = params["w_query"].shape, params["w_out"].shape[1]
    graph, state = _blank(M, features, out_features, heads, kind=kind, dropout_rate=dropout_rate)
    arrays = {(projection, letter): params[f"{short}_{name}"] for name, projection in PROJECTIONS.items()
              for letter, short in (("kernel", "w"), ("bias", "b"))}
    filled = {path: variable.replace(arrays[path]) if path in arrays else variable for path, variable in state}
    return nnx.merge(graph, nnx.from_flat_state(filled))


@lru_cache(maxsize=256)
def _blank(M: int, features: int, out_features: int, heads: int, *, kind: attnax.AttentionType,
           dropout_rate: float) -> tuple[Any, Any]:
    """The layer's structure, and its variables by path: making it anew for every call would cost more than the call."""
    layer = nnx.eval_shape(lambda: attnax.MultiHeadAttention(
        nnx.Rngs(0), num_heads=heads, in_features=M, qkv_features=features, out_features=out_features,
        attention_type=kind, dropout_rate=dropout_rate))
    graph, state = nnx.split(layer)
    return graph, tuple(nnx.to_flat_state(state))


standard = hurried_jit(_layer(attnax.AttentionType.STANDARD), "heads", "causal")
flash = hurried_jit(_layer(attnax.AttentionType.FLASH), "heads", "causal")
dropout_off = hurried_jit(_layer(attnax.AttentionType.STANDARD, dropout_rate=0.5), "heads", "causal")
