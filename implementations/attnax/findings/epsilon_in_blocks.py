"""attnax: memory_efficient_attention adds 1e-10 to the softmax's denominator, which float64 sees.

Values that are all 1 must give 1.
"""

import sys

import attnax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

ones = jnp.ones((1, 1, 6, 4))
query = jax.random.normal(jax.random.PRNGKey(0), ones.shape) * 8

standard = float(abs(attnax.standard_attention(query, query, ones) - 1).max())
blockwise = float(abs(attnax.memory_efficient_attention(query, query, ones, block_size=4) - 1).max())
print(f"off from 1 by {standard:.1e} at once, and by {blockwise:.1e} in blocks; float64 resolves 2.2e-16")
sys.exit(int(blockwise > 1e-11 > standard))
