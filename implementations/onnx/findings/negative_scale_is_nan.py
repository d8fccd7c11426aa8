"""ONNX reference evaluator: Attention-23 with a negative scale gives NaN; query and key are multiplied by its root."""

import sys
import warnings

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], scale=-0.5)
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, None, 2]) for name in "QKV"]
outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, None, 2])]
model = helper.make_model(helper.make_graph([node], "attention", inputs, outputs),
                          opset_imports=[helper.make_opsetid("", 23)])
ones = np.ones((1, 1, 3, 2), np.float32)
output = ReferenceEvaluator(model).run(None, dict.fromkeys("QKV", ones))[0]
print(f"all keys are alike, so the output should be 1 whatever the scale; with a scale of -0.5 it is {output[0, 0, 0]}")
sys.exit(int(np.isnan(output).any()))
