"""JAX on CPU, float16: products of matrices in a batch are summed up in float16 where the processor has AVX512-FP16."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

K = 512
rows = np.random.default_rng(0).normal(size=(2, 4, 64, K)).astype(np.float16)
columns = np.random.default_rng(1).normal(size=(2, 4, K, 64)).astype(np.float16)
exact = rows.astype(np.float64) @ columns.astype(np.float64)
seen = np.asarray(jnp.matmul(rows, columns)).astype(np.float64)
once = np.abs(exact).max() * 2.0**-11  # what one rounding of the largest result may cost
roundings = np.abs(seen - exact).max() / once
print(f"JAX {jax.__version__}: {K} products a sum are off by up to {roundings:.1f} roundings of the largest sum; "
      "one would be left if they were summed up in float32")
sys.exit(int(roundings > 2))
