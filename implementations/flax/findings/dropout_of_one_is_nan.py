"""flax.linen.dot_product_attention: at a dropout rate of 1 the output is NaN, not zeros: 0 is divided by 1 - 1."""

import sys

import jax
import jax.numpy as jnp
from flax import linen

query, key, value = (jnp.ones((1, 4, 2, 8)) for _ in range(3))
output = linen.dot_product_attention(query, key, value, dropout_rate=1.0, dropout_rng=jax.random.PRNGKey(0))
layer = linen.Dropout(1.0, deterministic=False).apply({}, value, rngs={"dropout": jax.random.PRNGKey(0)})
print(f"attention: {output[0, 0, 0]}; linen.Dropout: {layer[0, 0, 0]}")
sys.exit(bool(jnp.isnan(output).any()))
