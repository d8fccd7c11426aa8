"""TensorFlow on CPU adds the products of batched float16 matrices up in float16: the error grows with their number."""

import sys

import numpy as np
import tensorflow as tf

random, product = np.random.RandomState(0), "BNTS,BSNH->BTNH"  # weights by values, as Keras asks for it
off = {}
for S in (16, 128, 1024):
    weights, values = random.rand(1, 4, 8, S).astype(np.float16), random.rand(1, S, 4, 16).astype(np.float16)
    right = np.einsum(product, weights.astype(np.float64), values.astype(np.float64))
    found = tf.einsum(product, weights, values, optimize="optimal").numpy().astype(np.float64)
    off[S] = float((np.abs(found - right) / np.spacing(right.astype(np.float16))).max())
    print(f"a sum of {S} products is off by up to {off[S]:.1f} units in its last place; rounded once, by 0.5")
sys.exit(int(off[16] > 0.6 and off[1024] > 4))
