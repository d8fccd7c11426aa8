"""equinox.nn.MultiheadAttention: a query that may attend to no key gets the mean of all values."""

import sys

import equinox
import jax
import jax.numpy as jnp

layer = equinox.nn.MultiheadAttention(1, 4, key=jax.random.PRNGKey(0))
query, memory = jax.random.normal(jax.random.PRNGKey(1), (2, 3, 4))
mask = jnp.ones((3, 3), bool).at[1].set(False)  # the second query may attend to nothing

seen = layer(query, memory, memory, mask)[1]
mean = layer(query * 0, memory, memory)[1]  # a query of zeros weighs all alike
print(f"that query gets {seen}; the mean of all values, projected, is {mean}")
sys.exit(int(jnp.allclose(seen, mean, atol=1e-6)))
