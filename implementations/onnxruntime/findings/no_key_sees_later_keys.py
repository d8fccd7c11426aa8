"""com.microsoft.MultiHeadAttention, unidirectional: a query that attention_bias leaves no key attends to later keys.

Later keys are hidden by the smallest finite number, which is larger than the -inf that attention_bias adds.
"""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("MultiHeadAttention", ["Q", "K", "V", "", "", "bias"], ["Y"], domain="com.microsoft",
                        num_heads=1, unidirectional=1)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 3]) for name in "QKV"]
inputs.append(helper.make_tensor_value_info("bias", TensorProto.FLOAT, [1, 1, 3, 3]))
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 3, 3])
graph = helper.make_graph([node], "attention", inputs, [output])
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
zeros, bias = np.zeros((1, 3, 3), "f4"), np.zeros((1, 1, 3, 3), "f4")
bias[..., 0] = -np.inf  # the first key is padding, and so the first query may attend to none
weights = session.run(None, {"Q": zeros, "K": zeros, "V": np.eye(3, dtype="f4")[None], "bias": bias})[0][0]
print("weights of 3 queries on 3 keys, all alike, of which the first is hidden, under unidirectional=1:")
print(weights.round(3))
sys.exit(int(np.allclose(weights, np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0.5, 0.5]]))))
