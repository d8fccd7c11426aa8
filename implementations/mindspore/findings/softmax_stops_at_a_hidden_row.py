"""MindSpore on CPU: softmax stops at the first row that is -inf throughout; later rows are what the memory held before.

A query that may attend to no key has such a row, so the queries after it, and the heads and batch entries, get garbage.
"""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, ops

mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
logits = np.zeros((1, 3, 5), np.float32)
logits[0, 0] = -np.inf
before = [ops.add(Tensor(np.full((1, 3, 5), 7, np.float32)), 1) for _ in range(4)]
print("left in memory: arrays of", before[-1].asnumpy()[0, 0, 0])
del before
weights = ops.softmax(Tensor(logits), -1).asnumpy()[0]
print("weights of three queries, the first of which sees nothing; the others should be 0.2 each:")
print(weights)
sys.exit(int(not np.allclose(weights[1:], 0.2)))
