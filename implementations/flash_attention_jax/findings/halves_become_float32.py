"""flash-attention-jax: what its flash attention is given in half precision it gives back in float32."""

import sys

import jax.numpy as jnp
from flash_attention_jax import causal_flash_attention, flash_attention

seen = []
for dtype in (jnp.float16, jnp.bfloat16):
    query = jnp.ones((1, 1, 2, 4), dtype)
    outputs = flash_attention(query, query, query, jnp.ones((1, 2), bool)), causal_flash_attention(query, query, query)
    seen += [output.dtype for output in outputs]
    print(f"{dtype.__name__} goes in, {outputs[0].dtype} and {outputs[1].dtype} come out")
sys.exit(int(set(seen) == {jnp.dtype("float32")}))
