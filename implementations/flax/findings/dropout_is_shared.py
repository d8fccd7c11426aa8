"""flax.linen.dot_product_attention: all heads and batch entries drop the same, unless `broadcast_dropout` is off."""

import sys

import jax
import jax.numpy as jnp
from flax import linen

query = key = jnp.zeros((2, 8, 3, 8))  # (B,T,H,D): even weights
value = jnp.tile(jnp.eye(8)[None, :, None], (2, 1, 3, 1))
shared = []
for broadcast in (True, False):
    weights = linen.dot_product_attention(query, key, value, dropout_rate=0.5, dropout_rng=jax.random.PRNGKey(0),
                                          broadcast_dropout=broadcast)
    shared.append(bool((weights == weights[:1, :, :1]).all()))
    print(f"broadcast_dropout={broadcast}: all heads and batch entries drop the same: {shared[-1]}")
sys.exit(int(shared == [True, False]))
