"""Keras on TensorFlow: keras.ops.add adds a column (n,1) along another axis where that one, too, is n long.

So does MultiHeadAttention with heads of width 1, whose biases have the shape (heads, 1), if there are as many tokens.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np

column = np.arange(3, dtype=np.float32)[:, None]
added = keras.ops.convert_to_numpy(keras.ops.add(keras.ops.zeros((3, 3)), column))
print(f"zeros of (3,3) and the column 0, 1, 2:\n{added}\nNumPy:\n{np.zeros((3, 3)) + column}")

firsts = {}
for tokens in (2, 3):
    layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=1, output_shape=1)
    layer.build(*[(1, tokens, 1)] * 3)
    names = [variable.path.split("/")[-2] + "/" + variable.name for variable in layer.weights]
    filled = {"value/bias": [[1.0], [0.0]], "attention_output/kernel": [[[1.0]], [[0.0]]]}  # the output is head 0
    layer.set_weights([np.array(filled.get(name, np.zeros(weight.shape)))
                       for name, weight in zip(names, layer.weights)])
    answer = layer(*[np.zeros((1, tokens, 1), np.float32)] * 2)
    firsts[tokens] = float(np.ravel(keras.ops.convert_to_numpy(answer))[0])
    print(f"two heads of width 1, values 1 and 0 throughout, {tokens} tokens: head 0 puts out {firsts[tokens]}")
sys.exit(int((added == added[0]).all() and firsts == {2: 0.5, 3: 1.0}))
