"""ONNX reference evaluator: is_causal counts from the first past key, so that new queries see none of the later ones."""

import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

names = ["Q", "K", "V", "", "past_key", "past_value"]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names if name]
outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("Y", "keys", "values")]
node = helper.make_node("Attention", names, ["Y", "keys", "values"], is_causal=1)
graph = helper.make_graph([node], "attention", inputs, outputs)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
rows = np.eye(4, dtype=np.float32)[None, None]  # values; the output is the weights of four equal keys
arrays = {"Q": np.zeros((1, 1, 1, 4), np.float32), "K": np.zeros((1, 1, 1, 4), np.float32), "V": rows[:, :, 3:],
          "past_key": np.zeros((1, 1, 3, 4), np.float32), "past_value": rows[:, :, :3]}
weights = ReferenceEvaluator(model).run(None, arrays)[0][0, 0, 0]
print("one new token behind three past ones attends to past and own keys by", weights)
sys.exit(int(weights.tolist() == [1, 0, 0, 0]))
