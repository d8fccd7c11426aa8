"""ONNX reference evaluator: NaN or infinity in a key or value that no query may see reaches the output."""

import sys
import warnings

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
node = helper.make_node("Attention", ["Q", "K", "V", "M"], ["Y"])
shape = [1, 1, None, 2]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "QKV"]
inputs += [helper.make_tensor_value_info("M", TensorProto.BOOL, [1, 1, None, None])]
outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)]
model = helper.make_model(helper.make_graph([node], "attention", inputs, outputs),
                          opset_imports=[helper.make_opsetid("", 23)])
mask = np.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for place in "KV":
    for poison in (np.nan, np.inf):
        arrays = {name: np.ones((1, 1, 2, 2), np.float32) for name in "QKV"}
        arrays[place][0, 0, 1] = poison
        output = ReferenceEvaluator(model).run(None, {**arrays, "M": mask})[0]
        print(f"{poison} in the hidden entry of {place}: the output is {output[0, 0, 0]}; without it, ones")
        reached.append(bool(np.isnan(output).any()))
sys.exit(int(all(reached)))
