"""flash-attention-jax: NaN or infinity in a value that no query may see reaches the output, as 0 · NaN."""

import sys

import jax.numpy as jnp
from flash_attention_jax import flash_attention, plain_attention

query = key = jnp.ones((1, 1, 2, 4))
mask = jnp.array([[True, False]])  # the second key is hidden
reached = []
for name, attend in (("plain", plain_attention), ("flash", flash_attention)):
    for poison in (jnp.nan, jnp.inf):
        value = jnp.stack([jnp.ones(4), jnp.full(4, poison)])[None, None]
        output = attend(query, key, value, mask)
        print(f"{name}: with {poison} in the hidden value {output[0, 0, 0]}; without it, ones")
        reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
