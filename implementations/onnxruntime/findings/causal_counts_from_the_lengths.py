"""ONNX Runtime: with nonpad_kv_seqlen, is_causal lets the last query see up to the last key that counts."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

names = ["Q", "K", "V", "", "", "", "nonpad_kv_seqlen"]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "QKV"]
inputs += [helper.make_tensor_value_info("nonpad_kv_seqlen", TensorProto.INT64, [1])]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
node = helper.make_node("Attention", names, ["Y"], is_causal=1)
graph = helper.make_graph([node], "attention", inputs, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
arrays = {"Q": np.zeros((1, 1, 2, 4), np.float32), "K": np.zeros((1, 1, 4, 4), np.float32),
          "V": np.eye(4, dtype=np.float32)[None, None], "nonpad_kv_seqlen": np.array([4], np.int64)}
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
weights = session.run(None, arrays)[0][0, 0]
print(f"two queries and four equal keys attend by\n{weights}")
sys.exit(int((weights > 0).sum(axis=1).tolist() == [3, 4]))
