"""attnax.standard_attention: a query that may attend to no key gets the mean of all values."""

import sys

import attnax
import jax.numpy as jnp

query = key = jnp.ones((1, 1, 2, 4))
value = jnp.array([[[[1.0, 0, 0, 0], [3.0, 0, 0, 0]]]])  # (B,H,S,D); their mean begins with 2
mask = jnp.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing

output = attnax.standard_attention(query, key, value, mask=mask)
seen = float(output[0, 0, 1, 0])
print(f"the query that may attend to nothing gets {seen}; the mean of all values is 2, and no value at all would be 0")
sys.exit(int(seen == 2))
