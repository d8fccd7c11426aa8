"""flash-attention-jax: the running maximum starts at -1e6, so a row of lower logits gets zeros, or NaN."""

import sys

import jax.numpy as jnp
from flash_attention_jax import causal_flash_attention, flash_attention, plain_attention

query = jnp.full((1, 1, 1, 4), -1e4)
key = jnp.full((1, 1, 2, 4), 1e3)  # logits of -2e7, equal: the two values weigh the same
value = jnp.ones((1, 1, 2, 4))
mask = jnp.ones((1, 2), bool)

flash, causal = flash_attention(query, key, value, mask), causal_flash_attention(query, key, value)
plain = plain_attention(query, key, value, mask)
print(f"flash: {flash[0, 0, 0]}\nflash, causal: {causal[0, 0, 0]}\nplain: {plain[0, 0, 0]}")
sys.exit(int(bool((flash == 0).all() and jnp.isnan(causal).all() and (plain == 1).all())))
