"""`equinox.nn.MultiheadAttention`, mapped over the batch as Equinox has it; its weights are (out, in)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping

import equinox
import jax

from ..jax.compiled import hurried_jit

Array = Any
Params = Mapping[str, Array]

BIASES = {f"use_{name}_bias": True for name in ("query", "key", "value", "output")}


def _layer(*, dropout_p: float = 0.0) -> Callable[..., Array]:
    """The layer with this dropout, at inference."""

    def attend(query: Array, key: Array, value: Array, *, params: Params, heads: int, mask: Array = None) -> Array:
        """Query (B,T,M), key and value (B,S,M) to (B,T,M)."""
        layer = _with(params, heads, dropout_p)
        return jax.vmap(lambda *inputs: layer(*inputs, inference=True))(query, key, value, mask)

    return attend


def _with(params: Params, heads: int, dropout_p: float) -> equinox.nn.MultiheadAttention:
    """The layer that has these parameters."""
    (M, keys), values = params["w_query"].shape, params["w_value"].shape[1]
    layer = _blank(M, keys // heads, values // heads, params["w_out"].shape[1], heads, dropout_p=dropout_p)
    projections = {"query": layer.query_proj, "key": layer.key_proj, "value": layer.value_proj,
                   "out": layer.output_proj}
    filled = [equinox.tree_at(lambda linear: (linear.weight, linear.bias), linear,
                              (params[f"w_{name}"].T, params[f"b_{name}"])) for name, linear in projections.items()]
    return equinox.tree_at(lambda layer: (layer.query_proj, layer.key_proj, layer.value_proj, layer.output_proj),
                           layer, filled)


@lru_cache(maxsize=256)
def _blank(M: int, width: int, value_width: int, out: int, heads: int, *,
           dropout_p: float) -> equinox.nn.MultiheadAttention:
    """The layer without numbers: drawing them for every call would cost more than the call."""
    return equinox.filter_eval_shape(equinox.nn.MultiheadAttention, heads, M, qk_size=width, vo_size=value_width,
                                     output_size=out, dropout_p=dropout_p, key=jax.random.PRNGKey(0), **BIASES)


attend_eager = _layer()
attend = hurried_jit(attend_eager, "heads")
attend_dropout_off = hurried_jit(_layer(dropout_p=0.5), "heads")
