"""haiku.MultiHeadAttention: its -1e30 for a hidden logit is -inf in float16, so a wholly hidden row is NaN there."""

import sys

import haiku
import jax
import jax.numpy as jnp


def forward(*inputs: jax.Array) -> jax.Array:
    """The layer, with random parameters."""
    return haiku.MultiHeadAttention(1, 4, w_init=haiku.initializers.RandomNormal())(*inputs)


layer = haiku.transform(forward)
seen = {}
for dtype in (jnp.float32, jnp.float16):
    query, memory = jax.random.normal(jax.random.PRNGKey(1), (2, 3, 4), dtype)
    params = layer.init(jax.random.PRNGKey(0), query, memory, memory)
    mask = jnp.ones((1, 3, 3), bool).at[:, 1].set(False)  # the second query may attend to nothing
    seen[dtype] = layer.apply(params, None, query, memory, memory, mask)[1]
    print(f"{dtype.__name__}: that query gets {seen[dtype]}")
sys.exit(int(bool(jnp.isnan(seen[jnp.float16]).all() and jnp.isfinite(seen[jnp.float32]).all())))
