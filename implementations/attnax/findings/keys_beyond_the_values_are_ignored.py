"""attnax: with fewer values than keys, memory_efficient_attention answers if there is more than one block of keys."""

import sys

import jax.numpy as jnp
from attnax.kernels import memory_efficient_attention

query, key = jnp.ones((1, 1, 1, 1)), jnp.zeros((1, 1, 129, 1))
value = jnp.arange(128.0).reshape(1, 1, 128, 1)
answers = {}
for size in (64, 512):
    try:
        answers[size] = memory_efficient_attention(query, key, value, block_size=size).item()
    except Exception as raised:
        answers[size] = type(raised).__name__
    print(f"129 keys, 128 values, blocks of {size}: {answers[size]}")
sys.exit(int(isinstance(answers[64], float) and isinstance(answers[512], str)))
