"""attnax: pallas_flash_attention raises if values are wider or narrower than keys and there is more than one block."""

import sys

import jax.numpy as jnp
from attnax.kernels import pallas_flash_attention

found = {}
for S in (128, 129):
    query, key, value = jnp.ones((1, 1, 1, 1)), jnp.ones((1, 1, S, 1)), jnp.ones((1, 1, S, 2))
    try:
        found[S] = str(pallas_flash_attention(query, key, value).shape)
    except ValueError as raised:
        found[S] = f"{type(raised).__name__}: {raised}"
    print(f"keys of width 1, values of width 2, {S} of each: {found[S]}")
sys.exit(int(found[128] == "(1, 1, 1, 2)" and found[129].startswith("ValueError")))
