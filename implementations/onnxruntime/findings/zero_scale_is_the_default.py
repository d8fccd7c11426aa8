"""com.microsoft.MultiHeadAttention: a scale of 0 counts as none at all, so 1/sqrt(D) is used."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

rng, outputs = np.random.default_rng(0), {}
arrays = {name: rng.standard_normal((1, 3, 4)).astype("f4") for name in "QKV"}
for scale in (0.0, 0.5):  # 1/sqrt(4) is 0.5
    node = helper.make_node("MultiHeadAttention", ["Q", "K", "V"], ["Y"], domain="com.microsoft", num_heads=1,
                            scale=scale)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4]) for name in "QKV"]
    output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 3, 4])
    graph = helper.make_graph([node], "attention", inputs, [output])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs[scale] = session.run(None, arrays)[0]
mean = arrays["V"].mean(axis=1)
print(f"scale=0: {outputs[0.0][0, 0]}; scale=1/sqrt(D): {outputs[0.5][0, 0]}; 0 should give the mean, {mean[0]}")
sys.exit(int(np.array_equal(outputs[0.0], outputs[0.5]) and not np.allclose(outputs[0.0], mean[:, None])))
