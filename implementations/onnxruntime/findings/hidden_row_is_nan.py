"""com.microsoft.MultiHeadAttention: a query all of whose keys are hidden by -inf in attention_bias gets NaN."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

names = ["Q", "K", "V", "", "", "bias"]
node = helper.make_node("MultiHeadAttention", names, ["Y"], domain="com.microsoft", num_heads=1)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 2]) for name in "QKV"]
inputs += [helper.make_tensor_value_info("bias", TensorProto.FLOAT, [1, 1, 2, 2])]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 2, 2])
graph = helper.make_graph([node], "attention", inputs, [output])
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
bias = np.array([[[[0, 0], [-np.inf, -np.inf]]]], np.float32)
output = session.run(None, {**{name: np.ones((1, 2, 2), np.float32) for name in "QKV"}, "bias": bias})[0]
print(f"the query that may attend to nothing gets {output[0, 1]}")
sys.exit(int(np.isnan(output[0, 1]).all()))
