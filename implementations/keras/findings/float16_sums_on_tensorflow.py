"""TensorFlow on CPU adds products of batched matrices of half precision up in their dtype: the error grows with them."""

import sys

import numpy as np
import tensorflow as tf

random, product = np.random.RandomState(0), "BNTS,BSNH->BTNH"  # weights by values, as Keras asks for it
off = {}
for dtype, bits in ((tf.float16, 10), (tf.bfloat16, 7)):
    for S in (16, 128, 1024):
        weights, values = (tf.cast(random.rand(*shape), dtype) for shape in ((1, 4, 8, S), (1, S, 4, 16)))
        right = np.einsum(product, *(tf.cast(array, tf.float64).numpy() for array in (weights, values)))
        found = tf.cast(tf.einsum(product, weights, values, optimize="optimal"), tf.float64).numpy()
        off[dtype, S] = float((np.abs(found - right) / 2 ** (np.floor(np.log2(right)) - bits)).max())
        print(f"{dtype.name}: a sum of {S} products is off by up to {off[dtype, S]:.1f} units in its last place; rounded "
              "once, by 0.5")
sys.exit(int(all(off[dtype, 16] > 0.6 and off[dtype, 1024] > 4 for dtype in (tf.float16, tf.bfloat16))))
