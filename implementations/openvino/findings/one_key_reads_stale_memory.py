"""OpenVINO in bfloat16: once one key of head_dim 1 was seen, calls with one key read what an earlier call left."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

DYNAMIC = [-1, -1, -1, -1]


def rows_of_nan(*, narrow_first: bool) -> int:
    """How many of 8 x 1024 rows are NaN in the last call, whose inputs are finite."""
    parameters = [ops.parameter(DYNAMIC, np.float32) for _ in range(3)]
    model = ov.Model([ops.scaled_dot_product_attention(*parameters)], parameters)
    compiled = ov.Core().compile_model(model, "CPU")  # bfloat16 where the processor computes in it
    if narrow_first:
        compiled([np.ones((1, 1, 1, 1), "f4")] * 3)
    query, key = np.ones((1, 8, 1024, 64), "f4"), np.ones((1, 8, 1, 64), "f4")
    two_keys = np.ones((1, 8, 2, 64), "f4")
    compiled([np.full_like(query, np.nan), two_keys, two_keys])  # another caller's NaN
    output = np.array(compiled([query, key, key])[0])  # one key: every row is its value, 1
    return int(np.isnan(output).any(-1).sum())


fresh, after = rows_of_nan(narrow_first=False), rows_of_nan(narrow_first=True)
print(f"finite inputs, one key: {fresh} of 8192 rows are NaN; after one call with head_dim 1, {after} are")
sys.exit(int(fresh == 0 and after > 0))
