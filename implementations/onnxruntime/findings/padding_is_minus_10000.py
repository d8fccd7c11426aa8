"""ONNX Runtime: MultiHeadAttention adds -10000 to the logits that key_padding_mask hides: a large logit is seen, and an
entry without keys gets the answer of one in which no key is hidden.
"""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 1]) for name in "QKV"]
inputs += [helper.make_tensor_value_info("N", TensorProto.INT32, [1])]
node = helper.make_node("MultiHeadAttention", ["Q", "K", "V", "", "N"], ["Y"], domain="com.microsoft", num_heads=1)
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "mha", inputs, [output]), opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def first_row(logits: list[float], count: int) -> float:
    """What the first query gets of the values 1 and 2, where so many keys count."""
    arrays = {"Q": np.ones((1, 2, 1)), "K": np.array(logits).reshape(1, 2, 1), "V": np.array([[[1], [2]]])}
    inputs = {name: array.astype(np.float32) for name, array in arrays.items()}
    return float(session.run(None, {**inputs, "N": np.array([count], np.int32)})[0][0, 0, 0])


seen = [first_row([0, hidden], 1) for hidden in (9_000, 11_000)]  # the second key is padding
print(f"a visible key of logit 0 and value 1, padding of value 2 and logit 9000, 11000: {seen}")
empty, full = (first_row([0, 3], count) for count in (0, 2))
print(f"logits 0 and 3, both padding: {empty}; both visible: {full}")
sys.exit(int(seen == [1.0, 2.0] and abs(empty - full) < 1e-3))
