"""Keras: asked for scores, or with dropout, MultiHeadAttention sets masked logits to -1e9, or -3e4 in float16.

A visible logit below that loses against a masked one, whose weight is then set to 0: no key gets any weight.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

query, key, value = np.ones((1, 1, 1)), np.array([[[-1.0], [0.0]]]), np.array([[[3.0], [5.0]]])
mask = np.array([[[True, False]]])  # only the first key may be attended to, so the answer is its value, 3
answers = []
for dtype, logit in (("float32", -4e9), ("float16", -4e4)):
    for ways in ("plain", "scores", "dropout"):
        layer = keras.layers.MultiHeadAttention(1, 1, use_bias=False, dtype=dtype, dropout=0.5 * (ways == "dropout"))
        layer.build(query.shape, value.shape, key.shape)
        layer.set_weights([np.ones(weight.shape) for weight in layer.weights])
        arrays = {"query": query, "value": value, "key": key * -logit, "attention_mask": mask}
        output = layer(**arrays, return_attention_scores=True)[0] if ways == "scores" else layer(**arrays)
        answers.append(float(keras.ops.convert_to_numpy(output).item()))
        print(f"{dtype}, {ways}: the visible logit is {logit:g}, its value 3, the output {answers[-1]}")
sys.exit(int(answers == [3, 0, 0] * 2))
