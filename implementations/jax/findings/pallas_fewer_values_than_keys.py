"""JAX: with fewer values than keys, the Pallas kernel for GPUs answers, and reads values that do not exist."""

import sys

import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.gpu import attention

query, key = jnp.zeros((1, 3, 1, 16)), jnp.zeros((1, 3, 1, 16))  # (B,L,H,D)
value = jnp.ones((1, 2, 1, 16))
output = np.asarray(attention.mha(query, key, value, None, interpret=True))
print(f"three keys, two values of 1: the interpreter, which fills up with NaN, gives {output[0, 0, 0, 0]}")
sys.exit(int(np.isnan(output).all()))
