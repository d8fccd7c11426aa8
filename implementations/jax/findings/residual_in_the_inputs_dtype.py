"""jax.nn.dot_product_attention: the residual, a log-sum-exp formed in float32, is rounded to the inputs' half dtype."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
wide = [rng.standard_normal((1, 64, 1, 16)).astype(np.float32) for _ in range(3)]
wide[0] *= 8
held = 0
for dtype in (jnp.bfloat16, jnp.float16):
    query, key, value = (jnp.asarray(array, dtype) for array in wide)
    try:
        _, lse = jax.nn.dot_product_attention(query, key, value, return_residual=True)
    except Exception as error:  # under some compilers a half dtype is refused
        print(f"{jnp.dtype(dtype).name}: {type(error).__name__}")
        continue
    exact = [np.asarray(array, np.float64)[0, :, 0] for array in (query, key)]
    true = np.logaddexp.reduce(exact[0] @ exact[1].T / 4, axis=-1)
    off = np.abs(np.asarray(lse, np.float64)[0, :, 0] - true).max()
    print(f"{jnp.dtype(dtype).name}: the residual is {lse.dtype}, off by up to {off:.3g};"
          f" a part of the keys that is merged by it gets a weight that is off by {100 * np.expm1(off):.2g} %")
    held += lse.dtype == dtype and off > 1e-3
sys.exit(int(held > 0))
