"""paddle: a query without keys gets NaN from the function, from the layer the mean under a boolean mask."""

import sys

import numpy as np
import paddle
from paddle import nn
from paddle.nn.functional import scaled_dot_product_attention

visible = np.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing
added = np.where(visible, np.float32(0), np.float32(-np.inf))
ones = paddle.ones([1, 2, 1, 4])
layer, X = nn.MultiHeadAttention(4, 1), paddle.rand([1, 2, 4])
mean = layer.out_proj(layer.v_proj(X).mean(axis=1))[0].numpy()
seen = {}
for name, mask in (("boolean", visible), ("-inf", added)):
    function = scaled_dot_product_attention(ones, ones, ones, attn_mask=paddle.to_tensor(mask))[0, 1, 0].numpy()
    seen[name] = function, layer(X, X, X, attn_mask=paddle.to_tensor(mask))[0, 1].numpy()
    print(f"{name} mask: the function gives {function}, the layer {seen[name][1]}; the mean of values makes {mean}")
nan_everywhere = all(np.isnan(answer).all() for answer in (seen["boolean"][0], *seen["-inf"]))
sys.exit(int(nan_everywhere and np.allclose(seen["boolean"][1], mean, atol=1e-6)))
