"""equinox.nn.MultiheadAttention in float16: a logit beyond 65504 makes the output NaN."""

import math
import sys

import equinox
import jax
import jax.numpy as jnp

seen = {}
for dtype in ("float32", "float16"):
    layer = equinox.nn.MultiheadAttention(1, 4, dtype=jnp.dtype(dtype), key=jax.random.PRNGKey(0))
    for name in ("query", "key", "value", "output"):  # projections that change nothing
        layer = equinox.tree_at(lambda it, name=name: getattr(it, f"{name}_proj").weight, layer, jnp.eye(4, dtype=dtype))
    query = key = jnp.full((1, 4), 240, dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
    seen[dtype] = float(layer(query, key, jnp.full((1, 4), 3, dtype)).max())
    print(f"{dtype}: with one key and a logit of 115,200 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen["float32"] == 3 and math.isnan(seen["float16"])))
