"""flax.linen and flax.nnx: a query that may attend to no key gets the mean of all values."""

import sys

import jax.numpy as jnp
from flax import linen, nnx

query = key = jnp.ones((1, 2, 1, 4))  # (B,T,H,D)
value = jnp.array([1.0, 3.0]).reshape(1, 2, 1, 1) * jnp.ones(4)  # their mean is 2
mask = jnp.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing

seen = []
for attend in (linen.dot_product_attention, nnx.dot_product_attention):
    seen.append(float(attend(query, key, value, mask=mask)[0, 1, 0, 0]))
    print(f"{attend.__module__}: that query gets {seen[-1]}; the mean of all values is 2, no value at all would be 0")
sys.exit(int(seen == [2, 2]))
