"""ONNX reference evaluator: nonpad_kv_seqlen of more than one batch entry raises, if there is no mask of that size."""

import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

names = ["Q", "K", "V", "", "", "", "nonpad_kv_seqlen"]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "QKV"]
inputs += [helper.make_tensor_value_info("nonpad_kv_seqlen", TensorProto.INT64, None)]
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
graph = helper.make_graph([helper.make_node("Attention", names, ["Y"])], "attention", inputs, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
raised = []
for entries in (1, 2):
    arrays = {name: np.ones((entries, 1, 3, 4), np.float32) for name in "QKV"}
    try:
        ReferenceEvaluator(model).run(None, {**arrays, "nonpad_kv_seqlen": np.full(entries, 2)})
        print(f"{entries} entries: taken")
    except ValueError as error:
        raised.append(entries)
        print(f"{entries} entries: {error}")
sys.exit(int(raised == [2]))
