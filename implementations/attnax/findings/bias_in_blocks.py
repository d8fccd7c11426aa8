"""attnax: the library's own additive_bias_mod fails in memory_efficient_attention as soon as there is a second block.

The block-wise kernel hands the modification a block of scores, and the modification adds the whole bias to it.
"""

import sys

import attnax
import jax.numpy as jnp

query = key = value = jnp.ones((1, 1, 6, 4))
bias = attnax.additive_bias_mod(jnp.zeros((1, 1, 6, 6)))

print("standard_attention:", attnax.standard_attention(query, key, value, score_mod=bias).shape)
try:
    print(attnax.memory_efficient_attention(query, key, value, score_mod=bias, block_size=4).shape)
except TypeError as error:
    print(f"memory_efficient_attention: {error}")
    sys.exit(1)
