"""Keras on JAX in float16, asked for scores: a row of exponentials that add up to 256 or more has a wrong gradient.

JAX divides by the square of their sum, which overflows. (JAX's flag jax_softmax_custom_jvp, off by default, mends it.)
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
import jax
import jax.numpy as jnp
import keras

softmax, gradients = keras.layers.Softmax(dtype="float16"), {}  # the one that MultiHeadAttention calls
for S in (255, 256):
    found = jax.grad(lambda logits: softmax(logits).sum())(jnp.zeros((1, S), jnp.float16))
    gradients[S] = float(found.astype(jnp.float32).sum())
    print(f"{S} equal logits: the gradients of the sum of the weights add up to {gradients[S]:.3g}; it should be 0")
sys.exit(int(abs(gradients[255]) < 0.01 and gradients[256] > 0.9))
