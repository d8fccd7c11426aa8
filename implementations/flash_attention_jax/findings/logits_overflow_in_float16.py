"""flash-attention-jax in float16: a logit beyond 65504 makes the output NaN, from every function."""

import math
import sys

import jax.numpy as jnp
from flash_attention_jax import (
    causal_attention,
    causal_flash_attention,
    flash_attention,
    plain_attention,
    rabe_attention,
)

mask = jnp.ones((1, 1), bool)
ways = {
    "flash_attention": lambda q, k, v: flash_attention(q, k, v, mask),
    "causal_flash_attention": causal_flash_attention,
    "plain_attention": lambda q, k, v: plain_attention(q, k, v, mask),
    "causal_attention": causal_attention,
    "rabe_attention": lambda q, k, v: rabe_attention(q[0, 0], k[0, 0], v[0, 0]),
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
