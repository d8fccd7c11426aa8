"""jax.nn.dot_product_attention: a query that may attend to no key gets the mean of all values."""

import sys

import jax
import jax.numpy as jnp

query = key = jnp.ones((1, 1, 2, 4))
value = jnp.array([[[[1.0, 0, 0, 0], [3.0, 0, 0, 0]]]])  # (B,H,S,D); their mean begins with 2
mask = jnp.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing

BTHD = [array.swapaxes(1, 2) for array in (query, key, value)]
output = jax.nn.dot_product_attention(*BTHD, mask=mask).swapaxes(1, 2)
seen = float(output[0, 0, 1, 0])
print(f"the query that may attend to nothing gets {seen}; the mean of all values is 2, and no value at all would be 0")
sys.exit(int(seen == 2))
