"""flash-attention-jax in float16: a query that may attend to no key gets NaN from the functions that are written out.

They hide keys by -1e10, which is -inf in float16.
"""

import sys

import flash_attention_jax  # noqa: F401  (its package gives the name of this module to a function)
import jax.numpy as jnp

causal_attention = sys.modules["flash_attention_jax.attention"].causal_attention
firsts = {}
for dtype in ("float32", "float16"):
    query, key, value = jnp.ones((1, 1, 2, 1), dtype), jnp.ones((1, 1, 1, 1), dtype), jnp.full((1, 1, 1, 1), 3, dtype)
    firsts[dtype] = float(causal_attention(query, key, value)[0, 0, 0, 0])  # of two queries and one key
    print(f"{dtype}: the query before the only key, whose value is 3, gets {firsts[dtype]}")
sys.exit(int(firsts["float32"] == 3 and firsts["float16"] != firsts["float16"]))
