"""Pallas attention for GPUs: under `causal`, a block of queries beyond the last key reads key blocks that do not exist.

`mha_forward_kernel` goes on to ceil((last query + 1) / block_k) blocks of keys, however many there are. What lies past
the end is read, and the interpreter marks it with NaN.
"""

import sys

import jax
from jax.experimental.pallas.ops.gpu.attention import BlockSizes, mha

query = jax.random.normal(jax.random.PRNGKey(0), (1, 6, 1, 4))  # (B,T,H,D)
key = value = jax.random.normal(jax.random.PRNGKey(1), (1, 4, 1, 4))

output = mha(query, key, value, None, causal=True, block_sizes=BlockSizes(block_q=6, block_k=4), interpret=True)
right = jax.nn.dot_product_attention(query, key, value, is_causal=True, scale=1.0)
print(f"Pallas: {output[0, :, 0, 0]}\njax.nn: {right[0, :, 0, 0]}")
sys.exit(int(abs(output - right).max() < 1e-6) ^ 1)
