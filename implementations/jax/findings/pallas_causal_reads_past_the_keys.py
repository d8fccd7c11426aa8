"""Pallas attention for GPUs: under `causal`, a block of queries beyond the last key reads key blocks that do not exist.

`mha_forward_kernel` goes on to ceil((last query + 1) / block_k) blocks of keys, however many there are. What lies past
the end is read, and the interpreter marks it with NaN.
"""

import sys

import jax
from jax.experimental.pallas.ops.gpu import attention as kernel

query = jax.random.normal(jax.random.PRNGKey(0), (1, 6, 1, 4))  # (B,T,H,D)
key = value = jax.random.normal(jax.random.PRNGKey(1), (1, 4, 1, 4))

sizes = {"block_q": 6, "block_k": 4}
blocks = {"block_sizes": kernel.BlockSizes(**sizes)} if hasattr(kernel, "BlockSizes") else sizes  # as JAX 0.4 has it
output = kernel.mha(query, key, value, None, causal=True, interpret=True, **blocks)
right = jax.nn.dot_product_attention(query, key, value, is_causal=True, scale=1.0)
print(f"Pallas: {output[0, :, 0, 0]}\njax.nn: {right[0, :, 0, 0]}")
sys.exit(int(abs(output - right).max() < 1e-6) ^ 1)
