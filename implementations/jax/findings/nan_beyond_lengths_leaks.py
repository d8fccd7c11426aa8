"""jax.nn.dot_product_attention: NaN in values beyond key_value_seq_lengths makes the output NaN."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
query, key, value = (rng.standard_normal((1, 4, 1, 8)).astype(np.float32) for _ in range(3))
lengths = jnp.asarray([2], jnp.int32)
clean = jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
value[0, 3] = np.nan
poisoned = jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
print("two of four keys, NaN in the fourth value:", np.asarray(clean).ravel()[:3], "becomes", np.asarray(poisoned).ravel()[:3])
sys.exit(int(np.isfinite(clean).all() and np.isnan(poisoned).all()))
