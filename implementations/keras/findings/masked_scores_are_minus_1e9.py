"""keras.layers.MultiHeadAttention: below -1e9 hidden keys take the weight, if scores are asked for."""

import sys

import keras
import numpy as np
from keras import layers, ops

layer = layers.MultiHeadAttention(1, 1, use_bias=False)
layer.build((1, 1, 1), (1, 2, 1))
layer.set_weights([np.ones(variable.shape, np.float32) for variable in layer.weights])
query, keys = np.float32([[[1e5]]]), np.float32([[[-2e4], [-1e4]]])  # logits -2e9 (visible) and -1e9 (hidden)
visible = np.array([[[True, False]]])
plain = ops.convert_to_numpy(layer(query, keys, attention_mask=visible)).ravel()[0]
output, scores = layer(query, keys, attention_mask=visible, return_attention_scores=True)
written = ops.convert_to_numpy(output).ravel()[0]
print(f"{keras.backend.backend()}: the one visible value is -20000; the layer gives {plain}, asked for scores {written}")
print(f"the scores: {ops.convert_to_numpy(scores).ravel()}")
sys.exit(int(plain == -20000 and written == 0))
