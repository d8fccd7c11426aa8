"""ONNX Runtime: behind a past, a single query sees new keys that stand after it; of two queries, the first does not."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def session(queries: int) -> onnxruntime.InferenceSession:
    """Attention-23 of so many queries, two new keys and one past key, with is_causal."""
    node = helper.make_node("Attention", ["Q", "K", "V", "", "PK", "PV"], ["Y", "A", "B"], is_causal=1)
    lengths = {"Q": queries, "K": 2, "V": 2, "PK": 1, "PV": 1}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, length, 3])
              for name, length in lengths.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "YAB"]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def weights_of_first(queries: int) -> list[float]:
    """Of equal keys, and values that are the rows of an identity: the output is the weights of three keys."""
    values = np.eye(3, dtype=np.float32)[None, None]
    arrays = {"Q": np.zeros((1, 1, queries, 3), np.float32), "K": np.zeros((1, 1, 2, 3), np.float32),
              "PK": np.zeros((1, 1, 1, 3), np.float32), "PV": values[:, :, :1], "V": values[:, :, 1:]}
    return [float(weight) for weight in session(queries).run(None, arrays)[0][0, 0, 0]]


alone, of_two = weights_of_first(1), weights_of_first(2)
print("the first query stands behind one past key, at the first of two new ones")
print("weights of past, own and next key if it is the only query:", alone)
print("and if there is a second query:                           ", of_two)
sys.exit(int(alone[2] > 0 and of_two[2] == 0))
