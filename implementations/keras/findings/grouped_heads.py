"""keras.ops.dot_product_attention: which numbers of key/value heads it takes depends on the backend."""

import sys

import keras
import numpy as np
from keras import ops

refused = []
for heads in (1, 2, 4):
    query, key = np.ones((1, 2, 4, 3), np.float32), np.ones((1, 2, heads, 3), np.float32)  # (B,T,H,D)
    try:
        ops.dot_product_attention(query, key, key)
        print(f"{keras.backend.backend()}: 4 query heads, {heads} key/value heads: accepted")
    except Exception as error:
        refused.append(heads)
        print(f"{keras.backend.backend()}: 4 query heads, {heads} key/value heads: {type(error).__name__}")
print("its documentation: grouped query attention is performed if N is a multiple of K, multi-query if K is 1")
sys.exit(int(bool(refused)))
