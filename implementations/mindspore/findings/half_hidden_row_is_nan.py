"""MindSpore on CPU: softmax of a row that is -inf throughout, of a query without keys, is NaN in float16, else zeros."""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, ops

mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
rows = {}
for dtype in (np.float32, np.float16):
    rows[dtype] = ops.softmax(Tensor(np.full((1, 2), -np.inf, dtype)), -1).asnumpy()[0]
    print(f"{dtype.__name__}: the weights of two hidden keys are {rows[dtype]}")
sys.exit(int(bool((rows[np.float32] == 0).all() and np.isnan(rows[np.float16]).all())))
