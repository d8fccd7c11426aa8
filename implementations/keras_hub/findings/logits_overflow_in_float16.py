"""KerasHub on PyTorch: asked for scores, a logit beyond 65504 makes the output NaN in float16."""

import math
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras_hub.layers import CachedMultiHeadAttention

answers = []
for dtype in ("float32", "float16"):
    for scores in (False, True):
        layer = CachedMultiHeadAttention(num_heads=1, key_dim=4, use_bias=False, output_shape=4, dtype=dtype)
        layer.build((1, 1, 4), (1, 1, 4))
        layer.set_weights([np.eye(4).reshape(weight.shape) for weight in layer.weights])
        query, value = np.full((1, 1, 4), 240, dtype), np.full((1, 1, 4), 3, dtype)  # half of q · k is 115,200
        output, *_ = layer(query, value, query, cache=np.zeros((1, 2, 1, 1, 4), dtype), cache_update_index=0,
                           return_attention_scores=scores)
        answers.append(float(keras.ops.convert_to_numpy(output)[0, 0, 0]))
        print(f"{dtype}, {'asked for scores' if scores else 'not asked'}: one key, value 3, logit 115200: {answers[-1]}")
sys.exit(int(answers[:3] == [3, 3, 3] and math.isnan(answers[3])))
