"""Penzai's masks fill in a finite number, so a query that may attend to no key weighs all keys alike."""

import sys

import jax.numpy as jnp
from penzai import pz

HIDDEN = jnp.array(-2.3819763e38)  # as Penzai's Llama-like models have it
mask_out = pz.nn.ApplyExplicitAttentionMask(mask_input_name="mask", masked_out_value=HIDDEN)
hide = pz.nn.Sequential([mask_out, pz.nn.Softmax("kv_seq")])
logits = pz.nx.wrap(jnp.array([0.0, 1.0])).tag("kv_seq")
mask = pz.nx.wrap(jnp.array([False, False])).tag("kv_seq")

weights = hide(logits, mask=mask).unwrap("kv_seq")
print(f"the weights of that query are {weights}; none of its keys is visible")
sys.exit(int(bool((weights == 0.5).all())))
