"""flash-attention-jax: the causal functions take no mask, so padded sequences cannot be decoded with them."""

import sys

import jax.numpy as jnp
from flash_attention_jax import causal_attention, causal_flash_attention

query, mask = jnp.ones((1, 1, 2, 4)), jnp.array([[True, False]])
refused = []
for attend in (causal_attention, causal_flash_attention):
    try:
        attend(query, query, query, mask)
    except TypeError as error:
        print(f"{attend.__name__}: {error}")
        refused.append(attend)
sys.exit(int(len(refused) == 2))
