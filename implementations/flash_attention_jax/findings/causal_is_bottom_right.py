"""flash-attention-jax: query i sees the keys up to i + S - T, so the first of two queries sees three of four keys."""

import sys

import jax.numpy as jnp
from flash_attention_jax import causal_attention, causal_flash_attention

query, key, value = jnp.ones((1, 1, 2, 4)), jnp.ones((1, 1, 4, 4)), jnp.eye(4)[None, None]  # the output is the weights
seen = []
for attend in (causal_attention, causal_flash_attention):
    weights = attend(query, key, value)[0, 0, 0]
    print(f"{attend.__name__}: the first query weighs the keys with {weights}; top-left would be 1, 0, 0, 0")
    seen.append(int((weights > 0).sum()))
sys.exit(int(seen == [3, 3]))
