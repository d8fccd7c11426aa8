"""equinox.nn.MultiheadAttention: NaN or infinity in a value that no query may attend to reaches the output."""

import sys

import equinox
import jax
import jax.numpy as jnp

layer = equinox.nn.MultiheadAttention(1, 4, key=jax.random.PRNGKey(0))
query, memory = jax.random.normal(jax.random.PRNGKey(1), (2, 3, 4))
mask = jnp.ones((3, 3), bool).at[:, 2].set(False)  # no query may attend to the third key

reached = []
for poison in (jnp.nan, jnp.inf):
    output = layer(query, memory, memory.at[2].set(poison), mask)
    print(f"with {poison} in the hidden value the output begins with {output[0]}")
    reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
