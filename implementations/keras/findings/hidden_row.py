"""Keras: what a query without keys gets depends on dropout, on whether scores are asked for, and on the backend."""

import sys

import keras
import numpy as np
from keras import layers, ops

rng = np.random.default_rng(0)
X = rng.standard_normal((1, 2, 4)).astype("float32")
visible = np.array([[[True, True], [False, False]]])  # the second query may attend to nothing
plain, dropped = (layers.MultiHeadAttention(1, 4, dropout=dropout) for dropout in (0.0, 0.5))
for layer in (plain, dropped):
    layer.build((1, 2, 4), (1, 2, 4))
dropped.set_weights(plain.get_weights())
answers = {"plain": plain(X, X, attention_mask=visible),
           "asked for scores": plain(X, X, attention_mask=visible, return_attention_scores=True)[0],
           "made with dropout": dropped(X, X, attention_mask=visible, training=False)}
row = {name: ops.convert_to_numpy(answer)[0, 1] for name, answer in answers.items()}
for name, answer in row.items():
    print(f"MultiHeadAttention on {keras.backend.backend()}, {name}: {answer}")

BTHD = [X[:, :, None]] * 2 + [np.array([1, 3], np.float32)[None, :, None, None]]  # the mean of the values is 2
BTHD[2] = np.broadcast_to(BTHD[2], (1, 2, 1, 4))
added = np.where(visible, np.float32(0), np.float32(-np.inf))[None]
for name, given in (("mask", {"mask": visible[None]}), ("bias of -inf", {"bias": added})):
    answer = ops.convert_to_numpy(ops.dot_product_attention(*BTHD, **given))[0, 1, 0]
    print(f"dot_product_attention on {keras.backend.backend()}, {name}: {answer}; the mean of all values is 2")
zeros = not row["asked for scores"].any() and not row["made with dropout"].any()
sys.exit(int(zeros and row["plain"].any()))
