"""Keras below 3.12: without the causal flag, the layer Attention takes a mask of values for one of queries and values.

The mask (B,S) is laid onto the scores (B,T,S) as it is. Where B = T, entry b of the mask hides keys of query b in every
batch entry; elsewhere the call raises.
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

layer = keras.layers.Attention()
query = np.zeros((2, 2, 1), np.float32)
value = np.array([[[1.0], [3.0]], [[5.0], [7.0]]], np.float32)
visible = np.array([[True, True], [True, False]])  # the second entry's last value is padding
seen = np.asarray(layer([query, value], mask=[None, visible]).cpu())[..., 0].tolist()
raised = ""
try:
    layer([query[:, :1], value], mask=[None, visible])
except Exception as error:
    raised = str(error).splitlines()[2]
print(f"all weights are equal; answers of the two queries of two entries: {seen}, where [[2, 2], [5, 5]] is right; "
      f"with one query: {raised or 'answers'}")
sys.exit(int(seen == [[2.0, 1.0], [6.0, 5.0]]))
