"""Keras: the layer Attention subtracts 1e9 from masked scores; below that, a masked value gets all the weight."""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

layer = keras.layers.Attention()
query, value = np.full((1, 1, 1), 1.0, np.float32), np.array([[[1.0], [2.0]]], np.float32)
key, visible = np.array([[[-4e9], [0.0]]], np.float32), np.array([[True, False]])
far = np.asarray(layer([query, value, key], mask=[None, visible]).cpu()).item()
nothing = np.asarray(layer([query, value, 0 * key], mask=[None, ~visible & visible]).cpu()).item()
print("values 1 (visible, its score -4e9) and 2 (masked):", far, "- and with both masked:", nothing)
sys.exit(int(far == 2.0 and nothing == 1.5))
