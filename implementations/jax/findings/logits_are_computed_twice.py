"""jax.nn.dot_product_attention under jit on CPU: equal logits beyond about 1e9 give NaN; op by op they give the mean.

XLA fuses the product of query and key into the loops that use it, and computes the logits once for their maximum and
once for the exponentials. The two are rounded differently, and the exponential of the difference overflows.
"""

import sys

import jax
import jax.numpy as jnp

query = jnp.array([[[[-1.8456909e13, -1.2773198e15]] * 4]] * 2, jnp.float32)
key = jnp.array([[[[0.0, -1.0]], [[0.0, -1.0]]]] * 2, jnp.float32)
value = jnp.array([[[[0.0, 0.0]], [[1.0, 2.0]]]] * 2, jnp.float32)
compiled = jax.jit(jax.nn.dot_product_attention)(query, key, value)
op_by_op = jax.nn.dot_product_attention(query, key, value)
print(f"two equal keys with values 0 and 1: {compiled[0, 0, 0, 0]} under jit, {op_by_op[0, 0, 0, 0]} op by op; it should be 0.5")
sys.exit(int(bool(jnp.isnan(compiled).any()) and bool((op_by_op[..., 0] == 0.5).all())))
