"""mlx.nn.MultiHeadAttention: a query that padding leaves no key attends to later keys, in spite of MLX's causal mask.

create_additive_causal_mask hides later keys by the smallest finite number, which is larger than padding's -inf.
"""

import sys

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_map

mx.set_default_device(mx.cpu)
layer = nn.MultiHeadAttention(1, 1)
layer.update(tree_map(mx.ones_like, layer.parameters()))
mask = layer.create_additive_causal_mask(3) + mx.array([-float("inf"), 0, 0])  # the first token is padding
firsts = []
for later in ([2.0, 3.0], [5.0, 7.0]):
    tokens = mx.array([1.0, *later]).reshape(1, 3, 1)
    firsts.append(layer(tokens, tokens, tokens, mask).tolist()[0][0][0])
    print(f"tokens after the first: {later}; the first token's output: {firsts[-1]}")
sys.exit(int(firsts == [2.5, 6.0]))
