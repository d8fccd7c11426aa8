"""ONNX Runtime: GroupQueryAttention refuses a batch in which one entry has no token; Attention-24 does not."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

flat = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 8]) for name in "QKV"]
counts = [helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [2]),
          helper.make_tensor_value_info("total", TensorProto.INT32, [1])]
outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("Y", "A", "B")]
node = helper.make_node("GroupQueryAttention", ["Q", "K", "V", "", "", "seqlens_k", "total"], ["Y", "A", "B"],
                        domain="com.microsoft", num_heads=1, kv_num_heads=1)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "gqa", flat + counts, outputs), opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
arrays = {name: np.ones((2, 3, 8), np.float32) for name in "QKV"}
refused = []
for lengths in ([3, 1], [3, 0]):
    seqlens = np.array(lengths, np.int32) - 1
    try:
        session.run(None, {**arrays, "seqlens_k": seqlens, "total": np.array([3], np.int32)})
        print(f"lengths {lengths}: taken")
    except Exception as error:
        refused.append(lengths)
        print(f"lengths {lengths}: {str(error).splitlines()[0][-80:]}")
sys.exit(int(refused == [[3, 0]]))
