"""haiku.MultiHeadAttention in float16: a logit beyond 65504 makes the output NaN.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
"""

import math
import sys

import haiku
import jax
import jax.numpy as jnp


def forward(*inputs: jax.Array) -> jax.Array:
    """The layer, whose projections change nothing."""
    return haiku.MultiHeadAttention(1, inputs[0].shape[-1], w_init=lambda shape, dtype: jnp.eye(shape[0], dtype=dtype))(*inputs)


layer = haiku.without_apply_rng(haiku.transform(forward))
holds = []
for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
    seen = {}
    for dtype in ("float32", "float16"):
        query, value = jnp.full((1, D), entry, dtype), jnp.full((1, D), 3, dtype)
        params = layer.init(jax.random.PRNGKey(0), query, query, value)
        seen[dtype] = float(layer.apply(params, query, query, value).max())
    print(f"one key, whose value is 3, and a logit of {entry**2 * D**0.5:,.0f}: {seen}")
    holds.append(seen["float32"] == 3 and math.isnan(seen["float16"]))
sys.exit(int(all(holds)))
