"""keras.ops.dot_product_attention on JAX: values of another width than keys are refused; elsewhere they are taken."""

import logging
import sys

import keras
import numpy as np
from keras import ops

logging.disable()
query, value = np.ones((1, 2, 1, 4), np.float32), np.ones((1, 2, 1, 6), np.float32)  # (B,T,H,D)
try:
    print(f"{keras.backend.backend()}: the output has the shape {ops.dot_product_attention(query, query, value).shape}")
    sys.exit(0)
except TypeError as error:
    print(f"{keras.backend.backend()}: {error}")
    sys.exit(1)
