"""attnax: a logit beyond 65504 makes the output NaN in float16, from both functions and from the layer's kernel.

Q Kᵀ is stored in float16 and scaled afterwards, so a scaled logit of 57,600 overflows too where the product is larger.
"""

import math
import sys

import attnax
import jax.numpy as jnp

holds = []
for attend in (attnax.standard_attention, attnax.memory_efficient_attention):
    for D, entry in ((4, 240), (16, 120)):  # q · k is 230,400 either way; the logit is 115,200 or 57,600
        seen = {}
        for dtype in ("float32", "float16"):
            query = key = jnp.full((1, 1, 1, D), entry, dtype)
            seen[dtype] = float(attend(query, key, jnp.full((1, 1, 1, D), 3, dtype)).max())
        print(f"{attend.__name__}, one key, value 3, logit {entry**2 * D**0.5:,.0f}: {seen}")
        holds.append(seen["float32"] == 3 and math.isnan(seen["float16"]))
sys.exit(int(all(holds)))
