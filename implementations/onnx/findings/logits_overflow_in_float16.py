"""ONNX reference evaluator: a logit beyond 65504 makes the output of Attention NaN in float16.

So it does with softmax_precision = FLOAT: the logits are stored in float16 before they become float32.
"""

import math
import sys
import warnings

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")


def output(kind: int, **more: int) -> float:
    """Of one query and one key of 240, value 3: the logit is 240 · 240 · 4 / sqrt(4) = 115,200."""
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], **more)
    inputs = [helper.make_tensor_value_info(name, kind, [1, 1, 1, 4]) for name in "QKV"]
    graph = helper.make_graph([node], "attention", inputs, [helper.make_tensor_value_info("Y", kind, [1, 1, 1, 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    arrays = {name: np.full((1, 1, 1, 4), entry, helper.tensor_dtype_to_np_dtype(kind))
              for name, entry in (("Q", 240), ("K", 240), ("V", 3))}
    return float(ReferenceEvaluator(model).run(None, arrays)[0].max())


single = output(TensorProto.FLOAT)
half = [output(TensorProto.FLOAT16), output(TensorProto.FLOAT16, softmax_precision=TensorProto.FLOAT)]
print(f"one key, value 3, logit 115,200: float32 {single}, float16 {half[0]}, with a softmax in float32 {half[1]}")
sys.exit(int(single == 3 and all(map(math.isnan, half))))
