"""mindspore.nn.MultiheadAttention on CPU: a logit beyond 65504 makes the output NaN in float16."""

import math
import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn

mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
seen = {}
for dtype in (np.float32, np.float16):
    layer = nn.MultiheadAttention(4, 1, batch_first=True, dtype=getattr(mindspore, dtype.__name__))
    layer.in_proj_weight.set_data(Tensor(np.tile(np.eye(4, dtype=dtype), (3, 1))))  # projections that change nothing
    layer.out_proj.weight.set_data(Tensor(np.eye(4, dtype=dtype)))
    layer.out_proj.bias.set_data(Tensor(np.zeros(4, dtype)))
    query, value = (Tensor(np.full((1, 1, 4), entry, dtype)) for entry in (240, 3))
    output = layer(query, query, value)[0]  # the logit is 240 · 240 · 4 / sqrt(4) = 115,200
    seen[dtype] = float(output.asnumpy().max())
    print(f"{dtype.__name__}: with one key and a logit of 115,200 the output is {seen[dtype]}; it should be the value, 3")
sys.exit(int(seen[np.float32] == 3 and math.isnan(seen[np.float16])))
