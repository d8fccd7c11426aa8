"""Penzai's layers of attention in float16: a logit beyond 65504 makes the output NaN.

They are put together as in Penzai's Llama-like models, whose dtype is `activation_dtype`.
"""

import math
import sys

import jax.numpy as jnp
from penzai import pz

to_logits = pz.nn.NamedEinsum((("seq", "projection"), ("kv_seq", "projection")), ("seq", "kv_seq"))
to_output = pz.nn.NamedEinsum((("seq", "kv_seq"), ("kv_seq", "projection")), ("seq", "projection"))
seen = {}
for dtype in ("float32", "float16"):
    rescale = pz.nn.ConstantRescale(by=jnp.array(0.5, dtype))  # 1 / sqrt(4)
    query = key = jnp.full((1, 4), 240, dtype)  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
    scaled = rescale(pz.nx.wrap(query).tag("seq", "projection"))
    weights = pz.nn.Softmax("kv_seq")(to_logits((scaled, pz.nx.wrap(key).tag("kv_seq", "projection"))))
    value = pz.nx.wrap(jnp.full((1, 4), 3, dtype)).tag("kv_seq", "projection")
    seen[dtype] = float(to_output((weights, value)).unwrap("seq", "projection").max())
    print(f"{dtype}: with one key and a logit of 115,200 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen["float32"] == 3 and math.isnan(seen["float16"])))
