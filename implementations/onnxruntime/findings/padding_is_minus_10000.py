"""ONNX Runtime: MultiHeadAttention adds -10000 to the logits that key_padding_mask hides, so a large logit is seen."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 1]) for name in "QKV"]
inputs += [helper.make_tensor_value_info("N", TensorProto.INT32, [1])]
node = helper.make_node("MultiHeadAttention", ["Q", "K", "V", "", "N"], ["Y"], domain="com.microsoft", num_heads=1)
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "mha", inputs, [output]), opset_imports=opsets, ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
seen = []
for hidden in (9_000, 11_000):  # the second key is padding: one of two keys counts
    arrays = {"Q": np.ones((1, 2, 1)), "K": np.array([[[0], [hidden]]]), "V": np.array([[[1], [2]]])}
    answer = session.run(None, {**{name: array.astype(np.float32) for name, array in arrays.items()},
                                "N": np.array([1], np.int32)})[0]
    seen.append(float(answer[0, 0, 0]))
    print(f"a visible key of logit 0 and value 1, padding of logit {hidden} and value 2: {seen[-1]}")
sys.exit(int(seen == [1.0, 2.0]))
