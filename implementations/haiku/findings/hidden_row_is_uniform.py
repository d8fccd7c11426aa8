"""haiku.MultiHeadAttention: a query that may attend to no key gets the mean of all values."""

import sys

import haiku
import jax
import jax.numpy as jnp


def forward(*inputs: jax.Array) -> jax.Array:
    """The layer, with random parameters."""
    return haiku.MultiHeadAttention(1, 4, w_init=haiku.initializers.RandomNormal())(*inputs)


layer = haiku.transform(forward)
query, memory = jax.random.normal(jax.random.PRNGKey(1), (2, 3, 4))
params = layer.init(jax.random.PRNGKey(0), query, memory, memory)
mask = jnp.ones((1, 3, 3), bool).at[:, 1].set(False)  # the second query may attend to nothing

seen = layer.apply(params, None, query, memory, memory, mask)[1]
mean = layer.apply(params, None, query * 0, memory, memory)[1]  # a query of zeros weighs all alike
print(f"that query gets {seen}; the mean of all values, projected, is {mean}")
sys.exit(int(jnp.allclose(seen, mean, atol=1e-6)))
