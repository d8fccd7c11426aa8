"""JAX on CUDA: a mask reaches cuDNN as a bias of -32768 in float16, of -2.2e12 in bfloat16, which does not mask a key.

In float16 a query without a key sees all of them, as if there were no mask, and in both a masked key is seen where its
logit is large enough.
"""

import sys

import jax
import jax.numpy as jnp

Rows = list[list[float]]


def both(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array) -> Rows:
    """The first column of the output, by cuDNN and by XLA; arrays (B,T,H,D), the mask (B,H,T,S)."""
    return [jax.nn.dot_product_attention(query, key, value, mask=mask, implementation=each)[0, :, 0, 0].tolist()
            for each in ("cudnn", "xla")]


def without_keys() -> Rows:
    """Two queries, two keys, none of which may be seen."""
    query, key, value = (jax.random.normal(each, (1, 2, 1, 8), jnp.float16)
                         for each in jax.random.split(jax.random.key(0), 3))
    nothing = jnp.zeros((1, 1, 2, 2), bool)
    answers = both(query, key, value, nothing)
    print("float16, queries without a key: cuDNN {}, XLA {}".format(*answers))
    print(f"the same without a mask: cuDNN {both(query, key, value, ~nothing)[0]}")
    return answers


def masked(dtype: jnp.dtype, size: float) -> Rows:
    """One query and two keys, of which the second is masked, though its logit is large."""
    query = jnp.full((1, 1, 1, 8), size, dtype)
    key = jnp.stack([jnp.zeros(8, dtype), jnp.full(8, size, dtype)])[None, :, None]
    value = jnp.stack([jnp.full(8, 1.0, dtype), jnp.full(8, 9.0, dtype)])[None, :, None]
    answers = both(query, key, value, jnp.array([[[[True, False]]]]))
    print(f"{jnp.dtype(dtype)}, a key of value 1, and a masked one of value 9 and logit {size * size * 8 ** 0.5:.6g}:",
          "cuDNN {}, XLA {}".format(*answers))
    return answers


seen = [without_keys(), masked(jnp.float16, 256.0), masked(jnp.bfloat16, 2.0 ** 21)]
sys.exit(int(any(cudnn != xla for cudnn, xla in seen)))
