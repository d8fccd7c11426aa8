"""com.microsoft.GroupQueryAttention: a query all of whose keys are hidden by -inf in attention_bias gets NaN."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

names = ["Q", "K", "V", "", "", "seqlens_k", "total", "", "", "", "bias"]
node = helper.make_node("GroupQueryAttention", names, ["Y", "A", "B"], domain="com.microsoft", num_heads=1,
                        kv_num_heads=1, causal=0)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 16]) for name in "QKV"]
inputs += [helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("seqlens_k", "total")]
inputs += [helper.make_tensor_value_info("bias", TensorProto.FLOAT, [1, 1, 2, 2])]
results = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 2, 16]),
           *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 16]) for name in "AB")]
graph = helper.make_graph([node], "attention", inputs, results)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
given = {name: np.ones((1, 2, 16), np.float32) for name in "QKV"}
given |= {"seqlens_k": np.array([1], np.int32), "total": np.array([2], np.int32),
          "bias": np.array([[[[0, 0], [-np.inf, -np.inf]]]], np.float32)}
output = session.run(None, given)[0]
print(f"the query that may attend to nothing gets {output[0, 1, :3]} …")
sys.exit(int(np.isnan(output[0, 1]).all()))
