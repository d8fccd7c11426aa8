"""flax.nnx: a mask that broadcasts over queries and `is_causal` work together, until weights or dropout are asked for.

`dot_product_attention_weights` broadcasts the triangle (T,S) to the shape of the mask, not to that of the weights.
"""

import sys

import jax.numpy as jnp
from flax import nnx

layer = nnx.MultiHeadAttention(2, 4, decode=False, rngs=nnx.Rngs(0))
inputs = jnp.ones((1, 3, 4))
mask = jnp.array([[[[True, True, False]]]])  # (B,1,1,S): padding

print("without weights:", layer(inputs, mask=mask, is_causal=True).shape)
try:
    print("with weights:", layer(inputs, mask=mask, is_causal=True, sow_weights=True).shape)
except ValueError as error:
    print(f"with weights: {error}")
    sys.exit(1)
