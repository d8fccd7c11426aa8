"""Penzai: the -2.38e38 that its Llama-like models put in the place of hidden logits is -inf in float16: NaN rows."""

import sys

import jax.numpy as jnp
from penzai import pz

seen = {}
for dtype in (jnp.float32, jnp.float16):
    hidden = jnp.array(-2.3819763e38, dtype=dtype)
    mask_out = pz.nn.ApplyExplicitAttentionMask(mask_input_name="mask", masked_out_value=hidden)
    hide = pz.nn.Sequential([mask_out, pz.nn.Softmax("kv_seq")])
    logits = pz.nx.wrap(jnp.array([0.0, 1.0], dtype)).tag("kv_seq")
    mask = pz.nx.wrap(jnp.array([False, False])).tag("kv_seq")  # the query may attend to nothing
    seen[dtype] = hide(logits, mask=mask).unwrap("kv_seq")
    print(f"{dtype.__name__}: the weights of that query are {seen[dtype]}")
sys.exit(int(bool(jnp.isnan(seen[jnp.float16]).all() and jnp.isfinite(seen[jnp.float32]).all())))
