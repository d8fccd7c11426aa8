"""MLX: NaN or infinity in a value that no query may see reaches the output; with the layer, in a key, too.

The function replaces hidden logits. The layer's mask is added to them.
"""

import sys

import mlx.core as mx
from mlx import nn

mx.set_default_device(mx.cpu)
mask = mx.array([[[[True, False], [True, False]]]])  # the second key is hidden
layer = nn.MultiHeadAttention(4, 1)
reached = []
for place in (1, 2):
    for poison in (mx.nan, mx.inf):
        arrays = [mx.ones((1, 1, 2, 4)) for _ in range(3)]
        arrays[place] = mx.stack([mx.ones(4), mx.full((4,), poison)])[None, None]
        answers = {"function": mx.fast.scaled_dot_product_attention(*arrays, scale=0.5, mask=mask),
                   "layer": layer(*(array[0] for array in arrays), mask=mx.where(mask, 0.0, -mx.inf))}
        for name, output in answers.items():
            reached.append(bool(mx.isnan(output).all()))
            print(f"{name}: {poison} in the hidden {('key', 'value')[place - 1]}: all of the output is NaN: {reached[-1]}")
sys.exit(int(reached == [False, True] * 2 + [True] * 4))
