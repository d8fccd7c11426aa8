"""flash-attention-jax: 1e-10 is added to the softmax's denominator, which float64 sees. Values of 1 must give 1."""

import sys

import jax
import jax.numpy as jnp
from flash_attention_jax import causal_flash_attention, flash_attention

jax.config.update("jax_enable_x64", True)

query = jax.random.normal(jax.random.PRNGKey(0), (1, 1, 6, 4)) * 8
ones = jnp.ones((1, 1, 6, 4))
full = float(abs(flash_attention(query, query, ones, jnp.ones((1, 6), bool)) - 1).max())
causal = float(abs(causal_flash_attention(query, query, ones) - 1).max())
print(f"off from 1 by {full:.1e}, and by {causal:.1e} under the triangle; float64 resolves 2.2e-16")
sys.exit(int(full > 1e-11 and causal > 1e-11))
