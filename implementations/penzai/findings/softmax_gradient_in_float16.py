"""Penzai in float16: where a row's exponentials add up to 256 or more, the gradient of its logits is wrong.

JAX divides by the square of their sum, which overflows. (JAX's flag jax_softmax_custom_jvp, off by default, mends it.)
"""

import sys

import jax
import jax.numpy as jnp
from penzai import pz

softmax, gradients = pz.nn.Softmax("kv_seq"), {}
for S in (255, 256):
    logits = jnp.zeros(S, jnp.float16)
    first = lambda logits: softmax(pz.nx.wrap(logits).tag("kv_seq")).untag("kv_seq").unwrap().sum()  # noqa: E731
    gradients[S] = float(jax.grad(first)(logits).astype(jnp.float32).sum())
    print(f"{S} equal logits: the gradients of the sum of the weights add up to {gradients[S]:.3g}; it should be 0")
sys.exit(int(abs(gradients[255]) < 0.01 and gradients[256] > 0.9))
