"""com.microsoft.GroupQueryAttention: a scale of 0 counts as none at all, so 1/sqrt(D) is used."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

rng, outputs = np.random.default_rng(0), {}
arrays = {name: rng.standard_normal((1, 3, 16)).astype("f4") for name in "QKV"}
for scale in (0.0, 0.25):  # 1/sqrt(16) is 0.25
    node = helper.make_node("GroupQueryAttention", ["Q", "K", "V", "", "", "seqlens_k", "total"], ["Y", "A", "B"],
                            domain="com.microsoft", num_heads=1, kv_num_heads=1, causal=0, scale=scale)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 16]) for name in "QKV"]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("seqlens_k", "total")]
    results = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 3, 16]),
               *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 3, 16]) for name in "AB")]
    graph = helper.make_graph([node], "attention", inputs, results)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lengths = {"seqlens_k": np.array([2], np.int32), "total": np.array([3], np.int32)}
    outputs[scale] = session.run(None, {**arrays, **lengths})[0]
mean = arrays["V"].mean(axis=1)
print(f"scale=0: {outputs[0.0][0, 0, :2]}; 1/sqrt(D): {outputs[0.25][0, 0, :2]}; 0 should give the mean, {mean[0, :2]}")
sys.exit(int(np.array_equal(outputs[0.0], outputs[0.25]) and not np.allclose(outputs[0.0], mean[:, None])))
