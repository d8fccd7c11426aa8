"""attnax.standard_attention: NaN or infinity in a value that no query may see reaches the output, as 0 · NaN."""

import sys

import attnax
import jax.numpy as jnp

query = key = jnp.ones((1, 1, 2, 4))
mask = jnp.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for poison in (jnp.nan, jnp.inf):
    value = jnp.stack([jnp.ones(4), jnp.full(4, poison)])[None, None]
    output = attnax.standard_attention(query, key, value, mask=mask)
    print(f"with {poison} in the hidden value the output is {output[0, 0, 0]}; without it, ones")
    reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
