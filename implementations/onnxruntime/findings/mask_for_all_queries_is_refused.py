"""ONNX Runtime: Attention-23 refuses a mask (B,H,1,S), which ONNX says is broadcast to (B,H,T,S)."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("Attention", ["Q", "K", "V", "M"], ["Y"])
shape = [1, 1, 3, 2]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "QKV"]
inputs += [helper.make_tensor_value_info("M", TensorProto.BOOL, [1, 1, None, 3])]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)
graph = helper.make_graph([node], "attention", inputs, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
arrays = {name: np.ones(shape, np.float32) for name in "QKV"}
refused = []
for queries in (3, 1):
    try:
        session.run(None, {**arrays, "M": np.ones((1, 1, queries, 3), bool)})
        print(f"a mask (1,1,{queries},3): accepted")
    except Exception as error:
        refused.append(queries)
        print(f"a mask (1,1,{queries},3): {str(error)[-80:]}")
sys.exit(int(refused == [1]))
