"""attnax: a mask that broadcasts over queries (B,1,1,S) fails in memory_efficient_attention from the second block on.

Masks are documented as "broadcastable to (batch, num_heads, seq_q, seq_kv)"; the kernel cuts blocks out of the axis of
length 1.
"""

import sys

import attnax
import jax.numpy as jnp

query = key = value = jnp.ones((1, 1, 6, 4))
mask = jnp.ones((1, 1, 1, 6), bool)

print("standard_attention:", attnax.standard_attention(query, key, value, mask=mask).shape)
try:
    print(attnax.memory_efficient_attention(query, key, value, mask=mask, block_size=4).shape)
except (TypeError, ValueError) as error:
    print(f"memory_efficient_attention: {error}")
    sys.exit(1)
