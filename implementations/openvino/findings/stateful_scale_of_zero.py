"""OpenVINO on CPU: a stateful decoder takes a scale of 0 for none, and multiplies by 1/sqrt(head_dim)."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op import util

query, new, mask = (ops.parameter([1, 1, -1, size], np.float32) for size in (2, 2, -1))
scale, beam, caches = ops.parameter([], np.float32), ops.parameter([1], np.int32), []
for name in ("keys", "values"):
    info = util.VariableInfo()
    info.variable_id, info.data_type, info.data_shape = name, ov.Type.f32, ov.PartialShape([1, 1, -1, 2])
    caches.append(util.Variable(info))
begin = ops.constant(np.zeros((1, 1, 0, 2), np.float32))
reads = [ops.concat([ops.gather(ops.read_value(begin, each), beam, np.int64(0)), new], 2) for each in caches]
sinks = [ops.assign(read, each) for read, each in zip(reads, caches)]
results = [ops.result(ops.scaled_dot_product_attention(query, *reads, mask, scale))]
model = ov.Model(results=results, sinks=sinks, parameters=[query, new, mask, scale, beam], name="decoder")
config = {"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32"}
compiled, tokens = ov.Core().compile_model(model, "CPU", config), np.eye(2, dtype=np.float32)[None, None]
answers = {each: compiled.create_infer_request().infer([
    tokens, tokens, np.zeros((1, 1, 2, 2), np.float32), np.float32(each), np.zeros(1, np.int32)])[0][0, 0, 0]
    for each in (0.0, 1e-30, 2**-0.5)}
print(f"output by the scale: {answers}; the mean of the values is [0.5 0.5]")
sys.exit(int(np.allclose(answers[1e-30], 0.5) and np.allclose(answers[0.0], answers[2**-0.5])))
