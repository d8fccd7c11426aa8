"""JAX on CUDA: with a scale of 0 or less, `jax.nn.dot_product_attention` by cuDNN gives NaN or wrong numbers."""

import sys

import jax
import jax.numpy as jnp

shape = (1, 4, 1, 8)
query, key, value = (jax.random.normal(each, shape, jnp.bfloat16) for each in jax.random.split(jax.random.key(0), 3))
wrong = False
for causal in (False, True):
    for scale in (0.5, 0.0, -0.5):
        cudnn, xla = (jax.nn.dot_product_attention(query, key, value, scale=scale, is_causal=causal, implementation=each)
                      for each in ("cudnn", "xla"))
        apart = float(jnp.abs(cudnn.astype(jnp.float32) - xla.astype(jnp.float32)).max())
        print(f"causal {causal}, scale {scale}: cuDNN and XLA are {apart} apart")
        wrong |= scale <= 0 and not apart < 0.5
sys.exit(int(wrong))
