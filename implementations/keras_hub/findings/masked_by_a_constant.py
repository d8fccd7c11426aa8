"""KerasHub on PyTorch: asked for scores, masked logits are -1e9, or -3e4 in float16, those of empty slots of a cache, too.

A visible logit below that loses against a masked one, whose weight is then set to 0: no key gets any weight.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras_hub.layers import CachedMultiHeadAttention

answers = []
for dtype, logit in (("float32", -4e9), ("float16", -4e4)):
    layer = CachedMultiHeadAttention(num_heads=1, key_dim=1, use_bias=False, output_shape=1, dtype=dtype)
    layer.build((1, 1, 1), (1, 1, 1))
    layer.set_weights([np.ones(weight.shape) for weight in layer.weights])
    query, key, value = (np.array([[[number]]], dtype) for number in (1.0, logit, 3.0))
    for slots in (1, 2):  # the first token is stored in the first of them; the mask hides the other
        cache, mask = np.zeros((1, 2, slots, 1, 1), dtype), np.arange(slots)[None, None] < 1
        output = layer(query, value, key, attention_mask=mask, cache=cache, cache_update_index=0,
                       return_attention_scores=True)[0]
        answers.append(float(keras.ops.convert_to_numpy(output).item()))
        print(f"{dtype}, slots of the cache: {slots}; the only token has logit {logit:g} and value 3: {answers[-1]}")
sys.exit(int(answers == [3, 0] * 2))
