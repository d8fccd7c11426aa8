"""ONNX Runtime: NaN or infinity in a key or value that no query may see reaches the output, under both operators."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def output(operator: str, domain: str, mask: np.ndarray, arrays: dict[str, np.ndarray], **more: object) -> np.ndarray:
    """The first output of a model of one node; inputs called none… are left out."""
    names = [name if not name.startswith("none") else "" for name in arrays]
    node = helper.make_node(operator, [*names, "mask"], ["Y"], domain=domain, **more)
    fed = {name: array for name, array in {**arrays, "mask": mask}.items() if not name.startswith("none")}
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for name, array in fed.items()]
    graph = helper.make_graph([node], operator, inputs, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, fed)[0])


visible = np.array([[[[True, False], [True, False]]]])  # the second key is hidden
added = np.where(visible, np.float32(0), np.float32(-np.inf))
ones = np.ones((1, 2, 2), np.float32)
reached = []
for place in (1, 2):
    for poison in (np.nan, np.inf):
        Q, K, V = arrays = [ones.copy() for _ in range(3)]
        arrays[place][0, 1] = poison
        BTD = {"query": Q, "key": K, "value": V, "none1": ones, "none2": ones}
        answers = {"Attention-23": output("Attention", "", visible, {"Q": Q[None], "K": K[None], "V": V[None]}),
                   "MultiHeadAttention": output("MultiHeadAttention", "com.microsoft", added, BTD, num_heads=1)}
        for name, answer in answers.items():
            print(f"{name}, {poison} in the hidden {('key', 'value')[place - 1]}: {answer.ravel()[:2]}; without it, ones")
            reached.append(bool(np.isnan(answer).any()))
sys.exit(int(all(reached)))
