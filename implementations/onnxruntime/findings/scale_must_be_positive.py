"""ONNX Runtime: a session with Attention-23 whose scale is 0 or negative cannot be made."""

import sys

import onnxruntime
from onnx import TensorProto, helper

refused = []
for scale in (0.0, -0.5):
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], scale=scale)
    shape = [1, 1, 3, 2]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "QKV"]
    output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        print(f"scale={scale}: accepted")
    except Exception as error:
        refused.append(scale)
        print(f"scale={scale}: {str(error)[-80:]}")
sys.exit(int(refused == [0.0, -0.5]))
