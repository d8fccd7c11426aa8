"""TensorFlow on CPU takes numbers below the smallest normal one for 0."""

import sys

import numpy as np
import tensorflow as tf

tiny = {dtype: np.full((2, 2), np.finfo(dtype).tiny / 2, dtype) for dtype in (np.float64, np.float32)}
found = {dtype.__name__: float(tf.matmul(values, np.eye(2, dtype=dtype))[0, 0]) for dtype, values in tiny.items()}
print("half the smallest normal number, times 1:", found, "; NumPy:",
      {dtype.__name__: float((values @ np.eye(2, dtype=dtype))[0, 0]) for dtype, values in tiny.items()})
sys.exit(int(not any(found.values())))
