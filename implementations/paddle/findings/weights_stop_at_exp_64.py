"""paddle: no weight is below exp(-64) times the largest, so a key hidden by -inf keeps a weight of 1.6e-28."""

import math
import sys

import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

zeros = paddle.zeros([1, 2, 1, 2], "float64")  # (B,T,H,D)
value = paddle.to_tensor(np.array([[[[1.0, 0]], [[0, 1e30]]]]))
mask = paddle.to_tensor(np.array([[[[True, False], [True, False]]]]))  # the second key is hidden
output = scaled_dot_product_attention(zeros, zeros, value, attn_mask=mask)[0, 0, 0].numpy()
softmax = paddle.nn.functional.softmax(paddle.to_tensor([0.0, -math.inf], dtype="float64")).numpy()
print(f"softmax of (0, -inf): {softmax}; exp(-64) is {math.exp(-64):.4g}")
print(f"1e30 in the hidden value: the output is {output}; it should be [1 0]")
sys.exit(int(softmax[1] > 0 and output[1] > 1))
