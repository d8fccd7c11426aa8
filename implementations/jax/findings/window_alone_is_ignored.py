"""jax.nn.dot_product_attention: local_window_size is ignored where there is no mask and no causal flag."""

import sys

import jax
import jax.numpy as jnp

query = key = jnp.ones((1, 3, 1, 1))  # (B,T,H,D)
value = jnp.array([1.0, 2.0, 6.0]).reshape(1, 3, 1, 1)
everything = jnp.ones((1, 1, 3, 3), bool)  # a mask that hides nothing

alone = jax.nn.dot_product_attention(query, key, value, local_window_size=(0, 0))[0, :, 0, 0]
beside = jax.nn.dot_product_attention(query, key, value, local_window_size=(0, 0), mask=everything)[0, :, 0, 0]
print(f"JAX {jax.__version__}, every query sees its own place only: the values are 1, 2, 6; the window alone gives {alone}, "
      f"beside a mask that hides nothing {beside}")
sys.exit(int(abs(alone - 3).max() < 1e-6 and abs(beside - value[0, :, 0, 0]).max() < 1e-6))
