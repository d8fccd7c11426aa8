"""jax.nn.dot_product_attention in float64: a query that may attend to no key gets NaN, where in float32 it gets the mean."""

import sys

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
seen = {}
for dtype in ("float32", "float64"):
    query = key = jnp.ones((1, 2, 1, 1), dtype)  # (B,T,H,D)
    value = jnp.array([1.0, 3.0], dtype).reshape(1, 2, 1, 1)
    mask = jnp.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing
    seen[dtype] = float(jax.nn.dot_product_attention(query, key, value, mask=mask)[0, 1, 0, 0])
print(f"JAX {jax.__version__}: the query that may attend to nothing gets {seen['float32']} in float32 (the mean of all values) "
      f"and {seen['float64']} in float64")
sys.exit(int(seen["float32"] == 2 and seen["float64"] != seen["float64"]))
