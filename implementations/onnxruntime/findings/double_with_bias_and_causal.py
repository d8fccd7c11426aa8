"""ONNX Runtime: Attention-23 in float64 with an additive mask and is_causal does not load; in float32 it does."""

import sys

import onnxruntime
from onnx import TensorProto, helper

refused = []
for name, dtype in (("float32", TensorProto.FLOAT), ("float64", TensorProto.DOUBLE)):
    node = helper.make_node("Attention", ["Q", "K", "V", "M"], ["Y"], is_causal=1)
    inputs = [helper.make_tensor_value_info(letter, dtype, [1, 1, 3, 2]) for letter in "QKV"]
    inputs += [helper.make_tensor_value_info("M", dtype, [1, 1, 3, 3])]
    output = helper.make_tensor_value_info("Y", dtype, [1, 1, 3, 2])
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        print(f"{name}: loaded")
    except Exception as error:
        refused.append(name)
        print(f"{name}: {str(error)[-150:]}")
sys.exit(int(refused == ["float64"]))
