"""flash-attention-jax: with no key visible plain_attention gives the mean of all values, flash_attention zeros."""

import sys

import jax.numpy as jnp
from flash_attention_jax import flash_attention, plain_attention

query = key = jnp.ones((1, 1, 2, 4))
value = jnp.array([1.0, 3.0]).reshape(1, 1, 2, 1) * jnp.ones(4)  # their mean is 2
mask = jnp.array([[False, False]])

plain, flash = (attend(query, key, value, mask)[0, 0, 0] for attend in (plain_attention, flash_attention))
print(f"plain: {plain}\nflash: {flash}")
sys.exit(int(bool((plain == 2).all())))
