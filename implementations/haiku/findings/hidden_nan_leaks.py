"""haiku.MultiHeadAttention: NaN or infinity in a value that no query may attend to reaches the output."""

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
mask = jnp.ones((1, 3, 3), bool).at[:, :, 2].set(False)  # no query may attend to the third key

reached = []
for poison in (jnp.nan, jnp.inf):
    output = layer.apply(params, None, query, memory, memory.at[2].set(poison), mask)
    print(f"with {poison} in the hidden value the output begins with {output[0]}")
    reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
