"""ONNX Runtime: a query that may attend to nothing gets zeros from Attention-23 in float32, and NaN in float64."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

seen = {}
for name, dtype in (("float32", TensorProto.FLOAT), ("float64", TensorProto.DOUBLE)):
    node = helper.make_node("Attention", ["Q", "K", "V", "M"], ["Y"])
    inputs = [helper.make_tensor_value_info(letter, dtype, [1, 1, 2, 2]) for letter in "QKV"]
    inputs += [helper.make_tensor_value_info("M", TensorProto.BOOL, [1, 1, 2, 2])]
    output = helper.make_tensor_value_info("Y", dtype, [1, 1, 2, 2])
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mask = np.array([[[[True, True], [False, False]]]])
    arrays = {letter: np.ones((1, 1, 2, 2), name) for letter in "QKV"}
    seen[name] = session.run(None, {**arrays, "M": mask})[0][0, 0, 1, 0]
    print(f"{name}: the query that may attend to nothing gets {seen[name]}")
sys.exit(int(seen["float32"] == 0 and np.isnan(seen["float64"])))
