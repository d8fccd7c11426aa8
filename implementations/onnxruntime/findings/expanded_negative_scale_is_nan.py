"""ONNX Runtime: Attention-25 has no kernel, so it is expanded, and sqrt(scale) of a negative scale is NaN."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], scale=-0.5)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 4]) for name in "QKV"]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
model = helper.make_model(helper.make_graph([node], "attention", inputs, [output]),
                          opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
arrays = {name: np.random.default_rng(0).standard_normal((1, 1, 2, 4)).astype(np.float32) for name in "QKV"}
answer = session.run(None, arrays)[0]
print("scale=-0.5 in float32:", answer.ravel())
sys.exit(int(np.isnan(answer).all()))
