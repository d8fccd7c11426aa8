"""com.microsoft.MultiHeadAttention, unidirectional: with more keys than queries the last query sees every key."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("MultiHeadAttention", ["Q", "K", "V"], ["Y"], domain="com.microsoft", num_heads=1,
                        unidirectional=1)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, 5]) for name in "QKV"]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, None, 5])
graph = helper.make_graph([node], "attention", inputs, [output])
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
query, key, value = np.zeros((1, 3, 5), "f4"), np.zeros((1, 5, 5), "f4"), np.eye(5, dtype="f4")[None]
weights = session.run(None, {"Q": query, "K": key, "V": value})[0][0]  # values are unit vectors: weights come out
print("weights of 3 queries on 5 keys, all alike, under unidirectional=1:")
print(weights.round(3))
print("queries 0 and 1 are masked from the upper left; query 2 sees the future, so neither alignment is meant")
sys.exit(int(weights[0, 1] == 0 and weights[1, 2] == 0 and weights[2, 4] > 0))
