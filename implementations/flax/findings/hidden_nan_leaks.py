"""flax.linen and flax.nnx: NaN or infinity in a value that no query may attend to reaches the output, as 0 · NaN."""

import sys

import jax.numpy as jnp
from flax import linen, nnx

query = key = jnp.ones((1, 2, 1, 4))  # (B,T,H,D)
mask = jnp.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for attend in (linen.dot_product_attention, nnx.dot_product_attention):
    for poison in (jnp.nan, jnp.inf):
        value = jnp.array([1.0, poison]).reshape(1, 2, 1, 1) * jnp.ones(4)
        output = attend(query, key, value, mask=mask)
        print(f"{attend.__module__}: {poison} in the hidden value gives {output[0, 0, 0]}; without it, ones")
        reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
