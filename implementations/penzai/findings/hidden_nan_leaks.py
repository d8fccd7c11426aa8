"""Penzai: NaN or infinity in a value that no query may attend to reaches the output, for its weight 0 is multiplied."""

import sys

import jax.numpy as jnp
from penzai import pz

HIDDEN = jnp.array(-2.3819763e38)  # as Penzai's Llama-like models have it
mask_out = pz.nn.ApplyExplicitAttentionMask(mask_input_name="mask", masked_out_value=HIDDEN)
hide = pz.nn.Sequential([mask_out, pz.nn.Softmax("kv_seq")])
to_output = pz.nn.NamedEinsum((("kv_seq",), ("kv_seq", "projection")), ("projection",))
logits = pz.nx.wrap(jnp.array([0.0, 1.0])).tag("kv_seq")
mask = pz.nx.wrap(jnp.array([True, False])).tag("kv_seq")

reached = []
for poison in (jnp.nan, jnp.inf):
    value = pz.nx.wrap(jnp.array([[1.0, 1.0], [poison, poison]])).tag("kv_seq", "projection")
    output = to_output((hide(logits, mask=mask), value)).unwrap("projection")
    print(f"with {poison} in the hidden value the output is {output}; without it, ones")
    reached.append(bool(jnp.isnan(output).any()))
sys.exit(int(all(reached)))
