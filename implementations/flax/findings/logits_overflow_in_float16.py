"""flax: a logit beyond 65504 makes the output NaN in float16, in linen, and in nnx if weights are sown."""

import math
import sys
from functools import partial

import jax.numpy as jnp
from flax import linen, nnx

ways = {
    "linen.dot_product_attention": linen.dot_product_attention,
    "nnx.dot_product_attention, weights sown": partial(nnx.dot_product_attention, module=nnx.Module()),
}
holds = []
for name, attend in ways.items():
    seen = {}
    for dtype in ("float32", "float16"):
        query = key = jnp.full((1, 1, 1, 4), 240, dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
        seen[dtype] = float(attend(query, key, jnp.full((1, 1, 1, 4), 3, dtype)).max())
    print(f"{name}: with one key, whose value is 3, and a logit of 115,200: {seen}")
    holds.append(seen["float32"] == 3 and math.isnan(seen["float16"]))
sys.exit(int(all(holds)))
